#include "actors/control/messages.hpp"

// Instantiates the inspection of every registered message type with an inspector that no floating-point field can
// enter: adding such a field to any message stops the build here.

namespace troupe {

namespace {

template <caf::type_id_t Id>
int check_one() {
  using type = typename caf::type_by_id<Id>::type;
  if constexpr (requires(float_check f, type x) { inspect(f, x); }) {
    float_check f;
    type x;
    return inspect(f, x);
  }
  return 0;
}

template <long... Ids>
int check_all(caf::detail::int_list<Ids...>) {
  return (check_one<Ids>() + ... + 0);
}

static_assert(!std::is_invocable_v<float_check&, double&>);
static_assert(!std::is_invocable_v<float_check&, std::vector<float>&>);

}  // namespace

int control_messages_carry_no_floats() {
  return check_all(caf::detail::il_range<caf::id_block::troupe::begin, caf::id_block::troupe::end>::type{});
}

}  // namespace troupe
