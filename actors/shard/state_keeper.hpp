#pragma once

#include <memory>
#include <optional>

#include "actors/shard/outbox.hpp"
#include "actors/shard/step_arrivals.hpp"
#include "actors/stage/stage.hpp"

namespace troupe {

/// One shard's part in keeping every shard's state twice. Its buddy keeps a copy of its state and applies the same
/// committed updates to it: all that travels in a step are the final gradients, never parameters or moments. This shard
/// does the same for its ward. Where replicas have the same parameters and moments (no ZeRO-1), the buddy's own state
/// is the copy, and nothing travels. A shard that begins anew takes its state from its buddy, and gets its ward's from
/// the ward. Used by one thread, its executor's; `expected` by any.
class state_keeper {
public:
  struct settings {
    std::optional<shard_id> buddy, ward;  ///< none: nobody keeps this one's state, or it keeps nobody's
    bool replicas_alike = false;          ///< the buddy's own state is the copy
    bool begins_anew = false;             ///< at a step whose state does not follow from the seed
  };
  /// `copy` has the ward's layers and begins with the state that the seed gives it; null where replicas are alike, or
  /// without a ward.
  state_keeper(const settings& s, std::unique_ptr<stage> copy, const stage& own);

  const std::optional<shard_id>& buddy() const noexcept { return settings_.buddy; }
  const std::optional<shard_id>& ward() const noexcept { return settings_.ward; }
  /// Units of the ward's state; 0 where there is no copy.
  std::size_t copied_units() const noexcept { return copy_ ? copy_->units() : 0; }

  /// This shard must have its state from its buddy before it may run.
  void await_own_state() { own_state_left_ = own_units_ * parts; }
  /// Whether this shard's state and its copy of the ward's are whole. Takes what has arrived.
  result<bool> whole(stage& own, outbox& out, step_arrivals& here);

  /// The buddy is new: it gets this shard's state, to keep.
  status give_own_state(stage& own, outbox& out);
  /// The ward is new: it gets the state kept for it.
  status give_back(stage& own, outbox& out);

  /// This shard's gradients are final: the buddy gets them.
  status ship_gradients(stage& own, outbox& out);
  /// True when the ward's final gradients are here.
  result<bool> gradients_whole(outbox& out, step_arrivals& here);
  /// The step is committed: the copy's update is due, and will be made by `settle`.
  void commit(const update_rule& rule);
  /// Makes the update that is due, if one is: when this shard has nothing better to do.
  status settle();

  /// What a message of these must carry; empty for one that has no place here. Any thread.
  tensor_spec expected(const message_id& id) const;

private:
  static constexpr std::uint32_t parts = 3;  // values, first and second moments
  status give_state(stage& from, message_kind kind, shard_id to, outbox& out);
  status take_state(stage& to, message_kind kind, shard_id from, std::size_t& left, outbox& out, step_arrivals& here);

  settings settings_;
  std::unique_ptr<stage> copy_;
  std::size_t own_units_;
  std::vector<std::int64_t> own_elements_, copied_elements_;  // [unit]
  std::size_t own_state_left_ = 0, copy_left_ = 0;            // messages still to come
  std::size_t gradients_taken_ = 0;
  bool shipped_ = false;
  std::optional<update_rule> due_;
};

}  // namespace troupe
