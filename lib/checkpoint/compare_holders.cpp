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

// Which of the boxes differ between ranks, with the sides of the first one.
[[noreturn]] void tell_difference(Communicator& ranks, const CollectedState& state, std::vector<HeldBox> boxes) {
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
  invariant(!different.empty(), "tensors whose holders differ have a box in which they do");
  const HeldBox& first = boxes[different.front()];
  const std::vector<std::string> seen = ranks.all_gather(to_text(first.evidence));
  together(ranks, "", [&] {
    std::string message = divergence(state, first, seen);
    if (different.size() > 1) message += fmt::format(", and in {} more", different.size() - 1);
    throw Error(ExitCode::verdict, message,
                "the ranks no longer hold the same state: nothing was saved; go on from the last checkpoint");
  });
  fail(ExitCode::bug, "ranks that differ went on");
}

}  // namespace

// Each holder adds a hash of its evidence, and one for all of them adds it as often as there are holders: the sums are
// equal if all have the same. Hashes, for sums of fingerprints could cancel where two replicas drift apart by as much.
void compare_holders(Communicator& ranks, const CollectedState& state, std::span<const HeldBox> boxes) {
  std::vector<Evidence> sums(state.tensors.size(), Evidence{});  // over the holders (two numbers), and as expected
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const HeldBox& held = boxes[i];
    if (!held.evidence) continue;
    StreamHash mixed;
    const std::uint64_t number = i;
    mixed.add(std::as_bytes(std::span(&number, 1)));
    mixed.add(std::as_bytes(std::span(*held.evidence)));
    const Hash128 hash = mixed.digest();
    Evidence& sum = sums[held.tensor];
    sum[0] += hash.high;
    sum[1] += hash.low;
    if (!held.counts) continue;
    sum[2] += hash.high * static_cast<std::uint64_t>(held.holders);
    sum[3] += hash.low * static_cast<std::uint64_t>(held.holders);
  }
  ranks.all_reduce(as_bytes(sums), DType::u64, Reduce::sum);
  std::vector<HeldBox> suspects;
  for (const HeldBox& held : boxes) {
    const Evidence& sum = sums[held.tensor];
    if (sum[0] != sum[2] || sum[1] != sum[3]) suspects.push_back(held);
  }
  if (!suspects.empty()) tell_difference(ranks, state, std::move(suspects));
}

void add_up(Communicator& ranks, std::vector<Fingerprint>& sums) {
  static_assert(sizeof(Fingerprint) == 2 * sizeof(std::uint64_t));
  ranks.all_reduce(std::as_writable_bytes(std::span(sums)), DType::u64, Reduce::sum);
}

}  // namespace lockstep
