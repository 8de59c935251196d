// The state of a job as all ranks agree on it: every tensor of every component with its holders, and the bytes that
// this rank holds of each. Saving and loading both begin here; they continue in checkpoint/save.hpp and
// checkpoint/load_checkpoint.hpp.
#pragma once

#include "base/hash.hpp"
#include "comm/communicator.hpp"
#include "store/component.hpp"
#include "store/manifest.hpp"
#include "store/write_plan.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct CollectedState {
  std::vector<StoredTensor> tensors;  // equal on all ranks, like `components`
  std::vector<StoredComponent> components;
  std::vector<std::vector<Holding>> holdings;   // by tensor: the boxes held by the requested ranks
  std::vector<std::vector<StateRegion>> local;  // by tensor: the boxes of this rank
  std::vector<StateTree> trees;                 // by component: the tree of this rank
  std::deque<std::string> values;               // bytes of this rank's values entries; `local` points into them
  Hash128 described = {};                       // hash of this rank's description of its state: names, layouts, aliases
};

/// Returns this rank's memory of `box`, which must lie within one of its own boxes; empty if the rank does not hold it.
/// It is consecutive if `box` is a range of rows of that box. Local.
Region memory_of(const CollectedState& state, std::size_t tensor, const Box& box);

enum class Contents { tensors, tensors_and_values };

/// Collects the state of this rank and agrees with the others on its description. `before` runs first on each rank,
/// within the agreement. `holders_among` limits `holdings` to boxes that these ranks hold, this rank among them; empty:
/// all ranks, which costs time and memory for each rank of the job. `earlier` is the same on all ranks; if every rank
/// still describes its state in the same way, its tensors and holdings are reused and `taken_over` becomes true.
/// Collective over `ranks`. Throws on all ranks: usage (contradictory pattern or shape, or another order of
/// components), verdict (a rank lacks a box that the layout gives it, or holds another number of bytes), and any error
/// of `collect` or `before`.
CollectedState collect_state(Communicator& ranks, const World& world, const std::vector<Component>& components,
                             Contents contents, const std::function<void()>& before,
                             std::span<const Rank> holders_among = {}, std::optional<CollectedState> earlier = {},
                             bool* taken_over = nullptr);

}  // namespace lockstep
