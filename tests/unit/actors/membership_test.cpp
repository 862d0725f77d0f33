#include "actors/supervisor/membership.hpp"

#include "catch.hpp"

using namespace troupe;
using standing = membership::standing;
using ranks = std::vector<std::uint32_t>;

namespace {

void bring_back(membership& m) {
  for (auto r : m.launchable()) {
    m.launch(r);
    m.ready(r);
  }
}

membership all_running(const mesh& extents) {
  membership m(extents);
  bring_back(m);
  for (auto r : m.introduce()) m.running(r);
  REQUIRE(m.all_running());
  return m;
}

void inform_running(membership& m, std::uint32_t size) {
  for (std::uint32_t r = 0; r < size; ++r)
    if (m.where(r) == standing::running) m.informed(r, m.epoch());
}

}  // namespace

TEST_CASE("a buddy is another shard, and its ward is whose buddy it is", "[membership]") {
  for (const auto& extents : {mesh{2, 1, 1}, mesh{4, 1, 1}, mesh{3, 1, 2}, mesh{1, 2, 1}, mesh{2, 3, 2}})
    for (std::uint32_t r = 0; r < extents.size(); ++r) {
      const auto id = extents.shard_at(r);
      const auto buddy = extents.buddy_of(id);
      REQUIRE(buddy);
      CHECK(*buddy != id);
      CHECK(extents.group_of(*buddy) != extents.group_of(id));
      CHECK(buddy->shard == id.shard);
      CHECK(extents.ward_of(*buddy) == id);
    }
  CHECK_FALSE(mesh{1, 1, 4}.buddy_of({0, 0, 1}));
  CHECK((mesh{4, 1, 1}.buddy_of({0, 3, 0})) == shard_id{0, 0, 0});
  CHECK((mesh{4, 2, 1}.buddy_of({1, 3, 0})) == shard_id{0, 3, 0});
}

TEST_CASE("a lost shard takes its tensor group with it and nobody else, and the epoch rises once", "[membership]") {
  auto m = all_running({2, 1, 2});
  CHECK(m.epoch() == 1);
  CHECK(m.lose(3) == ranks{2, 3});
  CHECK(m.epoch() == 2);
  CHECK(m.lose(2).empty());
  CHECK(m.epoch() == 2);
  CHECK(m.where(0) == standing::running);
  m.gone(3);
  CHECK(m.launchable().empty());  // its twin still lives
  m.gone(2);
  CHECK(m.launchable() == ranks{2, 3});
}

TEST_CASE("a replacement has the next incarnation, and its group one epoch", "[membership]") {
  auto m = all_running({2, 1, 2});
  m.lose(2);
  m.gone(2);
  m.gone(3);
  bring_back(m);
  CHECK(m.incarnation(0) == 1);
  CHECK(m.incarnation(2) == 2);
  CHECK(m.epoch_of(2) == 2);
  CHECK(m.epoch_of(3) == 2);
}

TEST_CASE("nobody is introduced before everybody is there and the others know of the loss", "[membership]") {
  auto m = all_running({3, 1, 1});
  m.lose(1);
  CHECK_FALSE(m.may_introduce());
  m.gone(1);
  bring_back(m);
  CHECK_FALSE(m.may_introduce());
  m.informed(0, 2);
  m.informed(2, 1);  // of the epoch before
  CHECK_FALSE(m.may_introduce());
  m.informed(2, 2);
  CHECK(m.may_introduce());
  CHECK(m.introduce() == ranks{1});
  CHECK(m.recovering());
  m.running(1);
  CHECK(m.all_running());
  CHECK_FALSE(m.recovering());
}

TEST_CASE("a shard can be restored as long as its buddy runs", "[membership]") {
  auto m = all_running({4, 1, 1});
  m.lose(0);
  m.lose(2);
  for (auto r : {0U, 2U}) m.gone(r);
  bring_back(m);
  inform_running(m, 4);
  CHECK(m.may_introduce());
  CHECK(m.restorable());
  m.lose(1);  // buddy of 0
  m.gone(1);
  bring_back(m);
  inform_running(m, 4);
  CHECK(m.may_introduce());
  CHECK_FALSE(m.restorable());
}

TEST_CASE("whoever is joining when somebody is lost begins once more", "[membership]") {
  auto m = all_running({4, 1, 1});
  m.lose(0);
  m.gone(0);
  bring_back(m);
  inform_running(m, 4);
  m.introduce();
  CHECK(m.lose(2) == ranks{2, 0});
  CHECK(m.epoch() == 3);
  m.gone(0);
  m.gone(2);
  bring_back(m);
  CHECK(m.incarnation(0) == 3);
  CHECK(m.incarnation(2) == 2);
}

TEST_CASE("when all are lost all come back", "[membership]") {
  auto m = all_running({2, 2, 1});
  CHECK(m.lose_all().size() == 4);
  for (std::uint32_t r = 0; r < 4; ++r) m.gone(r);
  bring_back(m);
  CHECK(m.may_introduce());
  CHECK_FALSE(m.restorable());
  CHECK(m.introduce().size() == 4);
}
