#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/mesh.hpp"

namespace troupe {

/// Where each shard of a run stands and in which incarnation. Pure: it decides who is lost together with whom, when the
/// run may go on, and whether the lost can be restored; it starts and ends nobody. Ranks are the mesh's.
class membership {
public:
  enum class standing : std::uint8_t {
    away,       ///< there is none; one is to be launched
    launching,  ///< asked for, not yet there
    ready,      ///< built, knows nobody
    joining,    ///< introduced; connects, takes its state
    running,
    ending  ///< lost, but something of it still lives: it is being ended
  };

  membership() = default;
  explicit membership(const mesh& extents);

  std::uint32_t epoch() const noexcept { return epoch_; }
  standing where(std::uint32_t rank) const { return members_[rank].where; }
  std::uint32_t incarnation(std::uint32_t rank) const { return members_[rank].incarnation; }
  /// Of the launch: all tensor shards of a stage have the same.
  std::uint32_t epoch_of(std::uint32_t rank) const { return members_[rank].epoch; }
  bool all_running() const;
  /// Somebody is lost or on the way back, after all had been running once.
  bool recovering() const { return complete_once_ && !all_running(); }

  /// `rank` is lost, and with it all tensor shards of its stage, and likewise whoever is joining: a new epoch. Returns
  /// who they are; they are `ending` until `gone`. Empty when it was known as lost.
  std::vector<std::uint32_t> lose(std::uint32_t rank);
  /// Everybody is lost: as `lose` of each one, in one epoch.
  std::vector<std::uint32_t> lose_all();
  /// Nothing of this incarnation is left.
  void gone(std::uint32_t rank) { members_[rank].where = standing::away; }
  /// Who can be launched: those away whose whole tensor group is away.
  std::vector<std::uint32_t> launchable() const;
  /// The next incarnation is asked for, in the present epoch.
  void launch(std::uint32_t rank);
  void ready(std::uint32_t rank) { members_[rank].where = standing::ready; }
  void running(std::uint32_t rank);
  /// A member that lives on knows of all losses up to `epoch`.
  void informed(std::uint32_t rank, std::uint32_t epoch) { members_[rank].informed = epoch; }

  /// Everybody is there, somebody is new, and the others know who was lost.
  bool may_introduce() const;
  /// Whether each one who is new has a buddy who runs.
  bool restorable() const;
  /// Those who are ready are joining from now on. Returns them.
  std::vector<std::uint32_t> introduce();

private:
  struct member {
    standing where = standing::away;
    std::uint32_t incarnation = 0, epoch = 0, informed = 0;
  };
  bool any(standing s) const;
  void lose_group(std::uint32_t rank, std::vector<std::uint32_t>& lost);

  mesh extents_;
  std::vector<member> members_;
  std::uint32_t epoch_ = 1;
  bool complete_once_ = false;
};

}  // namespace troupe
