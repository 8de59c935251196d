#include "checkpoint/compare_holders.hpp"

#include "base/error.hpp"
#include "base/words.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

namespace lockstep {

namespace {

std::span<std::byte> as_bytes(std::vector<Evidence>& table) { return std::as_writable_bytes(std::span(table)); }

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", rank_ranges(ranks));
}

std::string to_text(const std::optional<Evidence>& evidence) {
  return evidence ? fmt::format("{:x} {:x} {:x} {:x}", (*evidence)[0], (*evidence)[1], (*evidence)[2], (*evidence)[3])
                  : "";
}

// The majority is right, the lowest rank's side where there is none. `seen` holds the evidence of every rank, in text;
// empty: it has none.
std::string divergence(const CollectedState& state, const HeldBox& held, const std::vector<std::string>& seen) {
  std::map<std::string, std::vector<int>> sides;
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (!seen[rank].empty()) sides[seen[rank]].push_back(static_cast<int>(rank));
  }
  auto right = sides.begin();
  for (auto side = sides.begin(); side != sides.end(); ++side) {
    const bool larger = side->second.size() > right->second.size();
    if (larger || (side->second.size() == right->second.size() && side->second.front() < right->second.front()))
      right = side;
  }
  std::vector<int> wrong;
  for (auto side = sides.begin(); side != sides.end(); ++side) {
    if (side != right) wrong.insert(wrong.end(), side->second.begin(), side->second.end());
  }
  std::sort(wrong.begin(), wrong.end());
  const StoredTensor& tensor = state.tensors[held.tensor];
  const std::string what = is_values(tensor) ? fmt::format("the values of component '{}'", tensor.component)
                                             : fmt::format("{} {}", full_name(tensor), to_text(held.box));
  return fmt::format("replicas differ in {}: {} against {}", what, ranks_text(wrong), ranks_text(right->second));
}

}  // namespace

std::vector<Evidence> compare_holders(Communicator& ranks, const CollectedState& state,
                                      std::span<const HeldBox> boxes) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  constexpr Evidence above_all{most, most, most, most};
  std::vector<Evidence> least_seen(boxes.size(), above_all);
  std::vector<Evidence> most_seen(boxes.size(), Evidence{});
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].evidence) least_seen[i] = most_seen[i] = *boxes[i].evidence;
  }
  ranks.all_reduce(as_bytes(least_seen), DType::u64, Reduce::min);
  ranks.all_reduce(as_bytes(most_seen), DType::u64, Reduce::max);

  std::vector<std::size_t> different;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const bool nobody = least_seen[i] == above_all && most_seen[i] == Evidence{};
    if (!nobody && least_seen[i] != most_seen[i]) different.push_back(i);
  }
  if (different.empty()) return most_seen;
  const HeldBox& first = boxes[different.front()];
  const std::vector<std::string> seen = ranks.all_gather(to_text(first.evidence));
  together(ranks, "", [&] {
    std::string message = divergence(state, first, seen);
    if (different.size() > 1) message += fmt::format(", and in {} more", different.size() - 1);
    throw Error(ExitCode::verdict, message,
                "the ranks no longer hold the same state: nothing was saved; go on from the last checkpoint");
  });
  return most_seen;
}

}  // namespace lockstep
