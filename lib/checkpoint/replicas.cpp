#include "checkpoint/replicas.hpp"

#include "base/error.hpp"
#include "base/words.hpp"
#include "checkpoint/collected_state.hpp"
#include "checkpoint/compare_holders.hpp"
#include "checkpoint/compare_values.hpp"
#include "comm/together.hpp"
#include "device/device.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace lockstep {

namespace {

constexpr std::size_t at_once = 4 << 20;  // bytes that go around

// One look at what all ranks hold.
class Replicas {
 public:
  Replicas(Communicator& ranks, const World& world, const std::vector<Component>& components, const RollingShare& share,
           const std::function<void()>& before);
  bool differ() const { return !entries_.empty() || !boxes_that_differ_.empty(); }
  std::string told();
  /// Why they cannot be repaired; empty if they can. The same on all ranks.
  std::string obstacle() const;
  void repair();
  std::string repaired() const;

 private:
  std::vector<const Sides*> all_sides() const;
  bool is_wrong(const Sides& sides) const;
  void prepare_repair();
  void repair_box(const DifferingBox& box);
  void repair_entry(const DifferingEntry& entry);

  Communicator& ranks_;
  const std::vector<Component>& components_;
  CollectedState state_;
  std::vector<HeldBox> boxes_;
  std::vector<DifferingBox> boxes_that_differ_;
  std::vector<DifferingEntry> entries_;
  std::vector<std::byte> part_;  // of what a rank takes over
};

Replicas::Replicas(Communicator& ranks, const World& world, const std::vector<Component>& components,
                   const RollingShare& share, const std::function<void()>& before)
    : ranks_(ranks),
      components_(components),
      state_(collect_state(ranks, world, components, Contents::tensors, before)),
      entries_(find_differing_values(ranks, world, components, state_.trees)) {
  together(ranks, "comparing replicas", [&] {
    std::map<std::string, Validation> levels;
    for (const Component& component : components) levels[component.key] = component.validation;
    for (std::size_t tensor = 0; tensor < state_.tensors.size(); ++tensor) {
      const Layout& layout = state_.tensors[tensor].layout;
      const Validation level = levels.at(state_.tensors[tensor].component);
      for (const Holding& holding : state_.holdings[tensor]) {
        const bool counts = holding.ranks.front() == ranks.rank();
        boxes_.push_back({tensor, holding.box, static_cast<int>(holding.ranks.size()), counts, {}});
        if (level == Validation::none || holding.ranks.size() == 1 ||
            !std::ranges::binary_search(holding.ranks, ranks.rank()))
          continue;
        HeldBox& held = boxes_.back();
        held.memory = memory_of(state_, tensor, holding.box);
        const bool sampled = level < Validation::tensor;
        const Fingerprint sum = sampled ? Fingerprint{} : fingerprint_of(layout, holding.box, held.memory);
        held.evidence = evidence_of(level, sum, held.memory, share);
      }
    }
  });
  boxes_that_differ_ = find_differences(ranks, state_, boxes_);
}

std::string Replicas::told() {
  if (!entries_.empty()) {
    const std::string more = boxes_that_differ_.empty() ? std::string()
                                                        : fmt::format("; and in other tensors: {}",
                                                                      counted(std::ssize(boxes_that_differ_), "box"));
    return describe_differences(ranks_, components_, state_.trees, entries_) + more;
  }
  return describe_differences(ranks_, state_, boxes_, boxes_that_differ_);
}

std::vector<const Sides*> Replicas::all_sides() const {
  std::vector<const Sides*> all;
  for (const DifferingEntry& entry : entries_) all.push_back(&entry.sides);
  for (const DifferingBox& box : boxes_that_differ_) all.push_back(&box.sides);
  return all;
}

std::string Replicas::obstacle() const {
  for (const Sides* sides : all_sides()) {
    if (has_majority(*sides)) continue;
    std::size_t ranks = 0;
    for (const std::vector<Rank>& side : *sides) ranks += side.size();
    return ranks < 3 ? fmt::format("with {} there is no majority", counted(static_cast<std::int64_t>(ranks), "replica"))
                     : fmt::format("of {} replicas at most {} agree", ranks, sides->front().size());
  }
  return "";
}

bool Replicas::is_wrong(const Sides& sides) const {
  return std::any_of(sides.begin() + 1, sides.end(),
                     [&](const std::vector<Rank>& side) { return std::ranges::binary_search(side, ranks_.rank()); });
}

// What may fail does so before anything changes: a rank has another amount of something, or no memory.
void Replicas::prepare_repair() {
  together(ranks_, "repairing replicas", [&] { part_.resize(at_once); });
  for (const DifferingEntry& entry : entries_) {
    if (entry.tensor.empty()) continue;
    const std::size_t mine = bytes_of(state_.trees[entry.component], entry).size();
    const std::string theirs = ranks_.broadcast(fmt::format("{}", mine), right_of(entry.sides));
    together(ranks_, "repairing values", [&] {
      if (is_wrong(entry.sides) && theirs != fmt::format("{}", mine))
        fail(ExitCode::verdict, "replicas differ in {}/{}: this rank has {} bytes, most others {}",
             components_[entry.component].key, entry.tensor, mine, theirs);
    });
  }
}

// Straight into the state.
void Replicas::repair_box(const DifferingBox& box) {
  const HeldBox& held = boxes_[box.box];
  const Rank right = right_of(box.sides);
  const bool takes = is_wrong(box.sides);
  const Region mine = memory_of(state_, held.tensor, held.box);
  const std::size_t bytes = static_cast<std::size_t>(elements(held.box)) *
                            static_cast<std::size_t>(size_of(state_.tensors[held.tensor].layout.dtype));
  for (std::size_t at = 0; at < bytes; at += at_once) {
    const std::span<std::byte> theirs = std::span(part_).first(std::min(at_once, bytes - at));
    if (ranks_.rank() == right) read_region(part_of(mine, at, theirs.size()), theirs);
    ranks_.broadcast(theirs, right);
    if (takes) write_region(theirs, part_of(mine, at, theirs.size()));
  }
}

void Replicas::repair_entry(const DifferingEntry& entry) {
  StateTree& tree = state_.trees[entry.component];
  const Rank right = right_of(entry.sides);
  const std::string theirs = ranks_.broadcast(ranks_.rank() == right ? bytes_of(tree, entry) : std::string(), right);
  together(ranks_, "repairing values", [&] {
    if (!is_wrong(entry.sides)) return;
    if (entry.tensor.empty()) {
      tree.set_values_text(theirs, fmt::format("the values of rank {}", right));
      return;
    }
    const auto tensor = std::ranges::find(tree.tensors(), entry.tensor, &StateTensor::name);
    write_region(std::as_bytes(std::span(theirs)), tensor->boxes.front().memory);
  });
}

void Replicas::repair() {
  prepare_repair();
  for (const DifferingEntry& entry : entries_) repair_entry(entry);
  for (const DifferingBox& box : boxes_that_differ_) repair_box(box);
  together(ranks_, "repairing values", [&] {
    std::set<std::size_t> wrong;
    for (const DifferingEntry& entry : entries_)
      if (is_wrong(entry.sides)) wrong.insert(entry.component);
    for (const std::size_t number : wrong)
      if (components_[number].restore) components_[number].restore(state_.trees[number]);
  });
}

std::string Replicas::repaired() const {
  std::set<Rank> wrong, right;
  for (const Sides* sides : all_sides()) {
    right.insert(right_of(*sides));
    for (std::size_t i = 1; i < sides->size(); ++i) wrong.insert((*sides)[i].begin(), (*sides)[i].end());
  }
  const auto text = [](const std::set<Rank>& ranks) {
    return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                       rank_ranges(std::vector<int>(ranks.begin(), ranks.end())));
  };
  return fmt::format("{} copied the state of the majority from {}", text(wrong), text(right));
}

}  // namespace

std::optional<std::string> compare_replicas(Communicator& ranks, const World& world,
                                            const std::vector<Component>& components, const RollingShare& share,
                                            const std::function<void()>& before) {
  Replicas replicas(ranks, world, components, share, before);
  return replicas.differ() ? std::optional(replicas.told()) : std::nullopt;
}

std::optional<std::string> repair_replicas(Communicator& ranks, const World& world,
                                           const std::vector<Component>& components, const RollingShare& share,
                                           const std::function<void()>& before) {
  Replicas replicas(ranks, world, components, share, before);
  if (!replicas.differ()) return std::nullopt;
  const std::string told = replicas.told();
  if (const std::string obstacle = replicas.obstacle(); !obstacle.empty())
    fail_diverged(ranks, fmt::format("{}; not repaired: {}", told, obstacle));
  replicas.repair();
  Replicas after(ranks, world, components, share, [] {});
  if (after.differ()) fail_diverged(ranks, after.told() + "; they still differ after the repair");
  return fmt::format("{}; {}", told, replicas.repaired());
}

}  // namespace lockstep
