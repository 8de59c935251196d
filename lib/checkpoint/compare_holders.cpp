#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/catalogue.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

namespace lockstep {

namespace {

using Evidence = std::array<std::uint64_t, 4>;   // what a holder knows of its box: a fingerprint, and with `full` a content hash

// One box of one tensor, and whether this rank holds it.
struct Slot {
  std::size_t tensor = 0;
  const Holding* holding = nullptr;
  bool mine = false;
};

Evidence evidence(const Catalogue& catalogue, const Slot& slot, Validation validation) {
  const StoredTensor& tensor = catalogue.tensors[slot.tensor];
  const LocalBox& local = catalogue.local[slot.tensor];
  if (validation == Validation::quick) {   // the ends: enough to see another step or another seed
    constexpr std::size_t sample = 4096;
    const auto head = local.bytes.first(std::min(sample, local.bytes.size()));
    const auto tail = local.bytes.last(std::min(sample, local.bytes.size()));
    const Hash128 first = hash128(head);
    const Hash128 last = hash128(tail);
    return {first.high, first.low, last.high, last.low};
  }
  const Fingerprint sum = fingerprint(tensor.layout.global, tensor.layout.dtype, local.box, local.bytes);
  const Hash128 content = validation == Validation::full ? hash128(local.bytes) : Hash128{};
  return {sum.first, sum.second, content.high, content.low};
}

std::span<std::byte> as_bytes(std::vector<Evidence>& table) { return std::as_writable_bytes(std::span(table)); }

std::vector<Slot> slots_of(const Catalogue& catalogue, Rank rank) {
  std::vector<Slot> slots;
  for (std::size_t tensor = 0; tensor < catalogue.tensors.size(); ++tensor) {
    for (const Holding& holding : catalogue.holdings[tensor]) {
      slots.push_back({tensor, &holding, std::find(holding.ranks.begin(), holding.ranks.end(), rank) != holding.ranks.end()});
    }
  }
  return slots;
}

std::string ranks_text(const std::vector<int>& ranks) { return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", rank_ranges(ranks)); }

// The majority is right, the lowest rank's side where there is none. `seen` holds the evidence of every rank, in text.
std::string divergence(const Catalogue& catalogue, const Slot& slot, const std::vector<std::string>& seen) {
  std::map<std::string, std::vector<int>> sides;
  for (const Rank rank : slot.holding->ranks) sides[seen[static_cast<std::size_t>(rank)]].push_back(rank);
  auto right = sides.begin();
  for (auto side = sides.begin(); side != sides.end(); ++side) {
    const bool larger = side->second.size() > right->second.size();
    if (larger || (side->second.size() == right->second.size() && side->second.front() < right->second.front())) right = side;
  }
  std::vector<int> wrong;
  for (auto side = sides.begin(); side != sides.end(); ++side) {
    if (side != right) wrong.insert(wrong.end(), side->second.begin(), side->second.end());
  }
  std::sort(wrong.begin(), wrong.end());
  const StoredTensor& tensor = catalogue.tensors[slot.tensor];
  const std::string what = is_values(tensor) ? fmt::format("the values of component '{}'", tensor.component)
                                             : fmt::format("{} {}", full_name(tensor), to_text(slot.holding->box));
  return fmt::format("replicas differ in {}: {} against {}", what, ranks_text(wrong), ranks_text(right->second));
}

}  // namespace

std::vector<Fingerprint> compare_holders(Communicator& ranks, const Catalogue& catalogue) {
  std::map<std::string, Validation> validation;
  for (const StoredComponent& component : catalogue.components) validation[component.key] = component.validation;
  const std::vector<Slot> slots = slots_of(catalogue, ranks.rank());
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::vector<Evidence> least_seen(slots.size(), Evidence{most, most, most, most});
  std::vector<Evidence> most_seen(slots.size(), Evidence{});
  const auto compared = [&](const Slot& slot) { return validation.at(catalogue.tensors[slot.tensor].component); };
  together(ranks, "comparing replicas", [&] {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (!slots[i].mine || compared(slots[i]) == Validation::none) continue;
      least_seen[i] = most_seen[i] = evidence(catalogue, slots[i], compared(slots[i]));
    }
  });
  const std::vector<Evidence> mine = most_seen;
  ranks.all_reduce(as_bytes(least_seen), DType::u64, Reduce::min);
  ranks.all_reduce(as_bytes(most_seen), DType::u64, Reduce::max);

  std::vector<std::size_t> different;
  std::vector<Fingerprint> sums(catalogue.tensors.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Validation level = compared(slots[i]);
    if (level == Validation::none) continue;
    if (least_seen[i] != most_seen[i]) different.push_back(i);
    if (level != Validation::quick) sums[slots[i].tensor] += Fingerprint{most_seen[i][0], most_seen[i][1]};
  }
  if (different.empty()) return sums;
  const Evidence& own = mine[different.front()];
  const std::vector<std::string> seen = ranks.all_gather(fmt::format("{:x} {:x} {:x} {:x}", own[0], own[1], own[2], own[3]));
  together(ranks, "", [&] {
    std::string message = divergence(catalogue, slots[different.front()], seen);
    if (different.size() > 1) message += fmt::format(", and in {} more", different.size() - 1);
    throw Error(ExitCode::verdict, message, "the ranks no longer hold the same state: nothing was saved; go on from the last checkpoint");
  });
  return sums;
}

}  // namespace lockstep
