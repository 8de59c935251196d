// The state of a job as all ranks agree on it: every tensor of every component with its holders, and this rank's own
// bytes of each. Both saving and loading begin with it. What is done with it: checkpoint/save.hpp,
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
  std::vector<StoredTensor> tensors;  // equal on all ranks, as are the components
  std::vector<StoredComponent> components;
  std::vector<std::vector<Holding>> holdings;  // by tensor; of the boxes of those ranks that were asked for
  std::vector<std::vector<StateBox>> local;    // by tensor: what this rank has of it
  std::vector<StateTree> trees;                // by component: of this rank
  std::deque<std::string> values;              // bytes of this rank's values entries; `local` points into it
  Hash128 described = {};                      // how this rank described its own state: names, layouts, aliases
};

/// The bytes that this rank has of a box that lies in one of its own; empty if it has none. They are consecutive where
/// the box is rows of that one.
std::span<std::byte> bytes_of(const CollectedState& state, std::size_t tensor, const Box& box);

enum class Contents { tensors, tensors_and_values };

/// Collective over `ranks`. Throws on all ranks: usage (a pattern or shape that contradicts, another order of
/// components), verdict (a rank lacks what the layout gives it, or has another amount of it), and what `collect` threw.
/// `before` runs first on each rank, within the agreement. `holders_among`: the ranks that this one asks for, itself
/// one of them; none: all, which takes time and memory for each rank of the job. What all ranks agreed on is taken over
/// from `earlier`, the same on all of them, where every rank describes its state as it did then: `taken_over`.
CollectedState collect_state(Communicator& ranks, const World& world, const std::vector<Component>& components,
                             Contents contents, const std::function<void()>& before,
                             std::span<const Rank> holders_among = {}, std::optional<CollectedState> earlier = {},
                             bool* taken_over = nullptr);

}  // namespace lockstep
