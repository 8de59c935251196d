#include "checkpoint/compare_values.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/words.hpp"
#include "checkpoint/compare_holders.hpp"
#include "checkpoint/difference.hpp"
#include "comm/together.hpp"
#include "device/device.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>

namespace lockstep {

namespace {

using Digests = std::map<std::string, std::string>;  // by name of a tensor; of the values without one

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

const StateTensor* find_tensor(const StateTree& tree, const std::string& name) {
  const auto found = std::ranges::find(tree.tensors(), name, &StateTensor::name);
  return found == tree.tensors().end() ? nullptr : &*found;
}

Digests digests_of(const Component& component, const StateTree& tree) {
  Digests digests;
  if (component.validation == Validation::none) return digests;
  if (const std::string values = tree.values_text(); !values.empty()) digests[""] = to_hex(hash128(values));
  if (component.pattern != Pattern::global) return digests;
  for (const StateTensor& tensor : tree.tensors()) {
    StreamHash hash;
    for (const StateRegion& held : tensor.boxes)
      for_each_host_part(held.memory, [&](std::size_t, std::span<const std::byte> bytes) { hash.add(bytes); });
    digests[tensor.name] = to_hex(hash.digest());
  }
  return digests;
}

// The ranks of the cell of `rank`, ascending.
std::vector<Rank> cell_with(const Component& component, const World& world, Rank rank) {
  std::vector<Rank> ranks;
  const std::string cell = cell_of(component, world, rank);
  for (Rank other = 0; other < world_size(world.mesh); ++other)
    if (cell_of(component, world, other) == cell) ranks.push_back(other);
  return ranks;
}

// Each rank adds a hash of its own, and the first of a cell adds it as often as the cell has ranks: the sums are equal
// if all of a cell have the same.
std::vector<std::size_t> differing_components(Communicator& ranks, const World& world,
                                              const std::vector<Component>& components,
                                              const std::vector<Digests>& mine) {
  using Sums = std::array<std::uint64_t, 4>;
  std::vector<Sums> sums(components.size(), Sums{});
  together(ranks, "comparing values", [&] {
    for (std::size_t i = 0; i < components.size(); ++i) {
      if (mine[i].empty() || components[i].pattern == Pattern::per_rank) continue;
      StreamHash mixed;
      mixed.add(cell_of(components[i], world, ranks.rank()));
      for (const auto& [name, digest] : mine[i]) mixed.add(fmt::format("\n{}\n{}", digest, name));
      const Hash128 hash = mixed.digest();
      sums[i][0] = hash.high;
      sums[i][1] = hash.low;
      const std::vector<Rank> cell = cell_with(components[i], world, ranks.rank());
      if (cell.front() != ranks.rank()) continue;
      sums[i][2] = hash.high * cell.size();
      sums[i][3] = hash.low * cell.size();
    }
  });
  ranks.all_reduce(std::as_writable_bytes(std::span(sums)), DType::u64, Reduce::sum);
  std::vector<std::size_t> different;
  for (std::size_t i = 0; i < components.size(); ++i)
    if (sums[i][0] != sums[i][2] || sums[i][1] != sums[i][3]) different.push_back(i);
  return different;
}

std::vector<DifferingEntry> entries_of(std::size_t number, const Component& component, const World& world,
                                       const std::vector<Digests>& all) {
  std::vector<DifferingEntry> entries;
  for (const std::vector<Rank>& cell : cells_of(component, world)) {
    std::set<std::string> names;
    for (const Rank rank : cell)
      for (const auto& [name, digest] : all[static_cast<std::size_t>(rank)]) names.insert(name);
    for (const std::string& name : names) {
      std::vector<std::string> seen(all.size());
      for (const Rank rank : cell) {
        const Digests& digests = all[static_cast<std::size_t>(rank)];
        const auto found = digests.find(name);
        seen[static_cast<std::size_t>(rank)] = found == digests.end() ? "nothing" : found->second;
      }
      Sides sides = sides_of(seen);
      if (sides.size() > 1)
        entries.push_back({number, name, cell_of(component, world, cell.front()), std::move(sides)});
    }
  }
  return entries;
}

// What the first rank of the wrong side finds, in its own bytes and those of the right side.
std::string described(const StateTree& tree, const DifferingEntry& entry, const std::string& theirs) {
  const std::string mine = bytes_of(tree, entry);
  if (mine.empty() || theirs.empty())
    return fmt::format("rank {} has none", mine.empty() ? wrong_of(entry.sides) : right_of(entry.sides));
  if (entry.tensor.empty()) return first_difference(parse_json(mine, "values"), parse_json(theirs, "values"));
  const StateTensor& tensor = *find_tensor(tree, entry.tensor);
  if (mine.size() != theirs.size()) return fmt::format("{} bytes against {}", mine.size(), theirs.size());
  ElementDifferences found(tensor.layout.dtype);
  found.add(whole(tensor.layout.global), 0, std::as_bytes(std::span(mine)), std::as_bytes(std::span(theirs)));
  return found.text();
}

}  // namespace

std::string bytes_of(const StateTree& tree, const DifferingEntry& entry) {
  if (entry.tensor.empty()) return tree.values_text();
  const StateTensor* const tensor = find_tensor(tree, entry.tensor);
  std::string bytes;
  if (tensor != nullptr)
    for (const StateRegion& held : tensor->boxes)
      for_each_host_part(held.memory, [&](std::size_t, std::span<const std::byte> part) { bytes += text_of(part); });
  return bytes;
}

std::vector<DifferingEntry> find_differing_values(Communicator& ranks, const World& world,
                                                  const std::vector<Component>& components,
                                                  const std::vector<StateTree>& trees) {
  std::vector<Digests> mine;
  together(ranks, "comparing values", [&] {
    for (std::size_t i = 0; i < components.size(); ++i) mine.push_back(digests_of(components[i], trees[i]));
  });
  std::vector<DifferingEntry> entries;
  for (const std::size_t number : differing_components(ranks, world, components, mine)) {
    Json told = Json::object();
    for (const auto& [name, digest] : mine[number]) told[name] = digest;
    std::vector<Digests> all;
    for (const std::string& text : ranks.all_gather(to_text(told)))
      all.push_back(parse_json(text, "a rank's digests").get<Digests>());
    for (DifferingEntry& entry : entries_of(number, components[number], world, all))
      entries.push_back(std::move(entry));
  }
  return entries;
}

std::string describe_differences(Communicator& ranks, const std::vector<Component>& components,
                                 const std::vector<StateTree>& trees, const std::vector<DifferingEntry>& different) {
  const DifferingEntry& first = different.front();
  const Component& component = components[first.component];
  const StateTree& tree = trees[first.component];
  const Rank right = right_of(first.sides), wrong = wrong_of(first.sides);
  const std::string theirs = ranks.broadcast(ranks.rank() == right ? bytes_of(tree, first) : std::string(), right);
  std::string found;
  together(ranks, "comparing values", [&] {
    if (ranks.rank() == wrong) found = described(tree, first, theirs);
  });
  found = ranks.broadcast(found, wrong);
  const std::string what = first.tensor.empty() ? fmt::format("the values of component '{}'", component.key)
                                                : fmt::format("{}/{}", component.key, first.tensor);
  std::string text = fmt::format("replicas differ in {}, declared {}{}: {}: {}", what, name_of(component.pattern),
                                 first.cell == "all" ? std::string() : fmt::format(", in cell {}", first.cell),
                                 to_text(first.sides), found);
  if (different.size() > 1)
    text += fmt::format("; and in {} of values or global tensors", counted(std::ssize(different) - 1, "other entry"));
  return text;
}

void compare_values(Communicator& ranks, const World& world, const std::vector<Component>& components,
                    const std::vector<StateTree>& trees) {
  const std::vector<DifferingEntry> different = find_differing_values(ranks, world, components, trees);
  if (!different.empty()) fail_diverged(ranks, describe_differences(ranks, components, trees, different));
}

}  // namespace lockstep
