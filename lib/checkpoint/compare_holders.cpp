#include "checkpoint/compare_holders.hpp"

#include "base/error.hpp"
#include "base/words.hpp"
#include "checkpoint/difference.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "device/device.hpp"
#include "store/checkpoint_plan.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>

namespace lockstep {

namespace {

std::span<std::byte> as_bytes(std::vector<Evidence>& table) { return std::as_writable_bytes(std::span(table)); }

// By tensor. Each holder adds a hash of its evidence, and one for all of them adds it as often as there are holders:
// the sums are equal if all have the same. Hashes, for sums of fingerprints could cancel where two replicas drift apart
// by as much.
std::vector<bool> tensors_that_differ(Communicator& ranks, const CollectedState& state,
                                      std::span<const HeldBox> boxes) {
  std::vector<Evidence> sums(state.tensors.size(), Evidence{});  // over the holders (two numbers), and as expected
  for (const HeldBox& held : boxes) {
    if (!held.evidence) continue;
    StreamHash mixed;
    mixed.add(std::as_bytes(std::span(held.box.begin)));
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
  std::vector<bool> differ;
  for (const Evidence& sum : sums) differ.push_back(sum[0] != sum[2] || sum[1] != sum[3]);
  return differ;
}

// What all ranks hold of some tensors, in pieces, with what this rank knows of them.
std::vector<HeldBox> boxes_of_all(Communicator& ranks, const CollectedState& state, const std::vector<bool>& wanted,
                                  std::span<const HeldBox> mine, std::uint64_t piece_bytes) {
  std::map<std::pair<std::size_t, Shape>, const HeldBox*> known;
  for (const HeldBox& held : mine) known[{held.tensor, held.box.begin}] = &held;
  std::vector<HeldBox> boxes;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    if (!wanted[i]) continue;
    const StoredTensor& tensor = state.tensors[i];
    const auto component = std::ranges::find(state.components, tensor.component, &StoredComponent::key);
    const std::vector<Holding> holdings =
        tensor.holding == TensorHolding::boxes ? state.holdings[i] : holders_of(tensor, *component, ranks.size());
    for (const Holding& holding : holdings) {
      for (const Box& box : pieces_of(holding.box, size_of(tensor.layout.dtype), piece_bytes)) {
        const auto here = known.find({i, box.begin});
        HeldBox held{i, box, static_cast<int>(holding.ranks.size()), holding.ranks.front() == ranks.rank(), {}};
        if (here != known.end()) {
          held.evidence = here->second->evidence;
          held.memory = here->second->memory;
        }
        boxes.push_back(std::move(held));
      }
    }
  }
  return boxes;
}

// Which of the boxes differ between ranks.
std::vector<std::size_t> differing(Communicator& ranks, std::span<const HeldBox> boxes,
                                   const std::vector<std::size_t>& suspects) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  constexpr Evidence above_all{most, most, most, most};
  std::vector<Evidence> least_seen(suspects.size(), above_all);
  std::vector<Evidence> most_seen(suspects.size(), Evidence{});
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    if (const auto& evidence = boxes[suspects[i]].evidence) least_seen[i] = most_seen[i] = *evidence;
  }
  ranks.all_reduce(as_bytes(least_seen), DType::u64, Reduce::min);
  ranks.all_reduce(as_bytes(most_seen), DType::u64, Reduce::max);
  std::vector<std::size_t> different;
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    const bool nobody = least_seen[i] == above_all && most_seen[i] == Evidence{};
    if (!nobody && least_seen[i] != most_seen[i]) different.push_back(suspects[i]);
  }
  invariant(!different.empty(), "tensors whose holders differ have a box in which they do");
  return different;
}

// So many boxes at a time that what all ranks tell of them stays small.
std::vector<DifferingBox> with_sides(Communicator& ranks, std::span<const HeldBox> boxes,
                                     const std::vector<std::size_t>& different) {
  constexpr std::size_t most_entries = 1 << 18, entry = 1 + sizeof(Evidence);
  const std::size_t at_once = std::max<std::size_t>(1, most_entries / static_cast<std::size_t>(ranks.size()));
  std::vector<DifferingBox> result;
  for (std::size_t first = 0; first < different.size(); first += at_once) {
    const std::size_t end = std::min(first + at_once, different.size());
    std::string mine;
    for (std::size_t i = first; i < end; ++i) {
      const std::optional<Evidence>& evidence = boxes[different[i]].evidence;
      const Evidence told = evidence.value_or(Evidence{});
      mine += evidence ? '+' : '-';
      mine.append(reinterpret_cast<const char*>(told.data()), sizeof told);
    }
    const std::vector<std::string> all = ranks.all_gather(mine);
    for (std::size_t i = first; i < end; ++i) {
      std::vector<std::string> seen;
      for (const std::string& told : all) {
        const std::string of_box = told.substr((i - first) * entry, entry);
        seen.push_back(of_box.front() == '+' ? of_box : std::string());
      }
      result.push_back({different[i], sides_of(seen)});
    }
  }
  return result;
}

// The right side's first rank hands its bytes around, and the other's first one looks. What it finds all ranks return.
std::string elements_that_differ(Communicator& ranks, DType dtype, std::span<const HeldBox> boxes,
                                 std::span<const DifferingBox> different) {
  constexpr std::size_t at_once = 4 << 20;
  const Rank right = right_of(different.front().sides), wrong = wrong_of(different.front().sides);
  std::vector<std::byte> part;
  together(ranks, "comparing elements", [&] { part.resize(at_once); });
  ElementDifferences found(dtype);
  for (const DifferingBox& one : different) {
    const HeldBox& held = boxes[one.box];
    const std::int64_t known = ranks.all_reduce(
        (ranks.rank() == right || ranks.rank() == wrong) && held.memory.bytes == 0 ? std::int64_t{0} : std::int64_t{1},
        Reduce::min);
    if (known == 0) return "";
    const auto size = static_cast<std::size_t>(size_of(dtype));
    const std::size_t bytes = static_cast<std::size_t>(elements(held.box)) * size;
    for (std::size_t at = 0; at < bytes; at += at_once) {
      const std::span<std::byte> theirs = std::span(part).first(std::min(at_once, bytes - at));
      if (ranks.rank() == right) read_region(part_of(held.memory, at, theirs.size()), theirs);
      ranks.broadcast(theirs, right);
      if (ranks.rank() == wrong)
        for_each_host_part(part_of(held.memory, at, theirs.size()), [&](std::size_t begin,
                                                                        std::span<const std::byte> own) {
          found.add(held.box, static_cast<std::int64_t>((at + begin) / size), own, theirs.subspan(begin, own.size()));
        });
    }
  }
  return ranks.broadcast(ranks.rank() == wrong ? found.text() : std::string(), wrong);
}

}  // namespace

std::vector<Region> compared_parts(Validation validation, const Region& memory, const RollingShare& share) {
  const std::size_t sample = std::min<std::size_t>(4096, memory.bytes);
  const std::size_t begin = memory.bytes * share.number / share.of;
  const std::size_t end = memory.bytes * (share.number + 1) / share.of;
  switch (validation) {
    case Validation::none:
    case Validation::tensor: return {};
    case Validation::quick:  // the ends: enough to see another step or another seed
      return {part_of(memory, 0, sample), part_of(memory, memory.bytes - sample, sample)};
    case Validation::rolling: return {part_of(memory, begin, end - begin)};
    case Validation::full: return {memory};
  }
  fail(ExitCode::bug, "unknown Validation {}", static_cast<int>(validation));
}

Evidence evidence_of(Validation validation, const Fingerprint& sum, const Region& memory, const RollingShare& share) {
  Evidence evidence{};
  auto number = evidence.rbegin();  // what hashes leave free has the fingerprint
  const std::vector<Region> parts = compared_parts(validation, memory, share);
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    StreamHash stream;
    for_each_host_part(*part, [&](std::size_t, std::span<const std::byte> bytes) { stream.add(bytes); });
    const Hash128 hash = stream.digest();
    *number++ = hash.low;
    *number++ = hash.high;
  }
  if (parts.size() < 2) {
    evidence[0] = sum.first;
    evidence[1] = sum.second;
  }
  return evidence;
}

Fingerprint fingerprint_of(const Layout& layout, const Box& box, const Region& memory) {
  const auto size = static_cast<std::size_t>(size_of(layout.dtype));
  Fingerprint sum;
  for_each_host_part(memory, [&](std::size_t begin, std::span<const std::byte> bytes) {
    sum += fingerprint(layout.global, layout.dtype, box, bytes, static_cast<std::int64_t>(begin / size));
  });
  return sum;
}

std::vector<DifferingBox> find_differences(Communicator& ranks, const CollectedState& state,
                                           std::span<const HeldBox> boxes) {
  const std::vector<bool> differ = tensors_that_differ(ranks, state, boxes);
  std::vector<std::size_t> suspects;
  for (std::size_t i = 0; i < boxes.size(); ++i)
    if (differ[boxes[i].tensor]) suspects.push_back(i);
  if (suspects.empty()) return {};
  return with_sides(ranks, boxes, differing(ranks, boxes, suspects));
}

std::string describe_differences(Communicator& ranks, const CollectedState& state, std::span<const HeldBox> boxes,
                                 const std::vector<DifferingBox>& different) {
  const HeldBox& first = boxes[different.front().box];
  std::vector<DifferingBox> alike;  // of the same tensor, with the same sides
  std::set<std::size_t> tensors;
  std::size_t others = 0;
  for (const DifferingBox& one : different) {
    tensors.insert(boxes[one.box].tensor);
    if (boxes[one.box].tensor != first.tensor) continue;
    if (one.sides == different.front().sides)
      alike.push_back(one);
    else
      ++others;
  }
  const StoredTensor& tensor = state.tensors[first.tensor];
  std::string text =
      fmt::format("replicas differ in {} {}: {}", full_name(tensor),
                  alike.size() == 1 ? to_text(first.box) : "(" + counted(std::ssize(alike), "piece") + ")",
                  to_text(different.front().sides));
  const std::string elements = elements_that_differ(ranks, tensor.layout.dtype, boxes, alike);
  text += elements.empty() ? std::string(" (the compared bytes are no longer available)") : ": " + elements;
  if (others > 0)
    text += fmt::format("; between other ranks in {}", counted(static_cast<std::int64_t>(others), "piece"));
  if (tensors.size() > 1) text += fmt::format("; and in {} more tensors", tensors.size() - 1);
  return text;
}

void fail_diverged(Communicator& ranks, const std::string& told) {
  together(ranks, "", [&] {
    throw Error(ExitCode::verdict, told,
                "the ranks no longer hold the same state: nothing was saved; resume from the last checkpoint");
  });
  fail(ExitCode::bug, "differing replicas were not reported");
}

void compare_holders(Communicator& ranks, const CollectedState& state, std::span<const HeldBox> boxes) {
  const std::vector<DifferingBox> different = find_differences(ranks, state, boxes);
  if (!different.empty()) fail_diverged(ranks, describe_differences(ranks, state, boxes, different));
}

void compare_holders_in_pieces(Communicator& ranks, const CollectedState& state, std::span<const HeldBox> mine,
                               std::uint64_t piece_bytes) {
  const std::vector<bool> differ = tensors_that_differ(ranks, state, mine);
  if (std::ranges::find(differ, true) == differ.end()) return;
  std::vector<HeldBox> boxes;
  together(ranks, "comparing replicas", [&] { boxes = boxes_of_all(ranks, state, differ, mine, piece_bytes); });
  compare_holders(ranks, state, boxes);
}

void add_up(Communicator& ranks, std::vector<Fingerprint>& sums) {
  static_assert(sizeof(Fingerprint) == 2 * sizeof(std::uint64_t));
  ranks.all_reduce(std::as_writable_bytes(std::span(sums)), DType::u64, Reduce::sum);
}

}  // namespace lockstep
