#include "actors/supervisor/membership.hpp"

#include <algorithm>

namespace troupe {

membership::membership(const mesh& extents) : extents_(extents), members_(extents.size()) {}

bool membership::any(standing s) const {
  return std::any_of(members_.begin(), members_.end(), [s](const auto& m) { return m.where == s; });
}

bool membership::all_running() const {
  return std::all_of(members_.begin(), members_.end(), [](const auto& m) { return m.where == standing::running; });
}

void membership::lose_group(std::uint32_t rank, std::vector<std::uint32_t>& lost) {
  const auto first = rank / extents_.shards * extents_.shards;
  for (auto r = first; r < first + extents_.shards; ++r) {
    auto& m = members_[r];
    if (m.where == standing::away || m.where == standing::ending) continue;
    m.where = standing::ending;
    lost.push_back(r);
  }
}

std::vector<std::uint32_t> membership::lose(std::uint32_t rank) {
  std::vector<std::uint32_t> lost;
  lose_group(rank, lost);
  if (lost.empty()) return lost;
  for (std::uint32_t r = 0; r < members_.size(); ++r)
    if (members_[r].where == standing::joining) lose_group(r, lost);
  ++epoch_;
  return lost;
}

std::vector<std::uint32_t> membership::lose_all() {
  std::vector<std::uint32_t> lost;
  for (std::uint32_t r = 0; r < members_.size(); r += extents_.shards) lose_group(r, lost);
  ++epoch_;
  return lost;
}

std::vector<std::uint32_t> membership::launchable() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t first = 0; first < members_.size(); first += extents_.shards) {
    const auto begin = members_.begin() + first, end = begin + extents_.shards;
    if (!std::all_of(begin, end, [](const auto& m) { return m.where == standing::away; })) continue;
    for (auto r = first; r < first + extents_.shards; ++r) ranks.push_back(r);
  }
  return ranks;
}

void membership::launch(std::uint32_t rank) {
  auto& m = members_[rank];
  m.where = standing::launching;
  ++m.incarnation;
  m.epoch = epoch_;
}

void membership::running(std::uint32_t rank) {
  members_[rank].where = standing::running;
  complete_once_ = complete_once_ || all_running();
}

bool membership::may_introduce() const {
  const bool somebody_new = any(standing::ready);
  return somebody_new && std::all_of(members_.begin(), members_.end(), [this](const auto& m) {
           return m.where == standing::ready || (m.where == standing::running && (m.informed == epoch_ || epoch_ == 1));
         });
}

bool membership::restorable() const {
  for (std::uint32_t r = 0; r < members_.size(); ++r) {
    if (members_[r].where == standing::running) continue;
    const auto buddy = extents_.buddy_of(extents_.shard_at(r));
    if (!buddy || members_[extents_.rank_of(*buddy)].where != standing::running) return false;
  }
  return true;
}

std::vector<std::uint32_t> membership::introduce() {
  std::vector<std::uint32_t> introduced;
  for (std::uint32_t r = 0; r < members_.size(); ++r)
    if (members_[r].where == standing::ready) {
      members_[r].where = standing::joining;
      introduced.push_back(r);
    }
  return introduced;
}

}  // namespace troupe
