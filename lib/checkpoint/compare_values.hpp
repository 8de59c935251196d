// Compares small state that must be equal: the values of a component within a cell, and everything in a global
// component on all ranks, because every rank gets back the copy that rank 0 saves. A save does this before it plans
// anything. Tensors that several ranks hold: checkpoint/compare_holders.hpp.
#pragma once

#include "checkpoint/sides.hpp"
#include "comm/communicator.hpp"
#include "store/component.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

struct DifferingEntry {
  std::size_t component = 0;  // number in the list of components
  std::string tensor;         // in a global component; empty: its values
  std::string cell;
  Sides sides;
};

/// Returns the entries that differ within a cell, by component, then cell. Components with Validation::none are
/// skipped. `trees` are the trees that this rank collected. Unless there are differences, the amount of communication
/// does not grow with the number of ranks. Collective over `ranks`.
std::vector<DifferingEntry> find_differing_values(Communicator& ranks, const World& world,
                                                  const std::vector<Component>& components,
                                                  const std::vector<StateTree>& trees);

/// Returns a message about the first entry: "replicas differ in the values of component 'trainer', declared global:
/// rank 1 against ranks 0,2: loss is 2.5 against 2.25". Collective over `ranks`.
std::string describe_differences(Communicator& ranks, const std::vector<Component>& components,
                                 const std::vector<StateTree>& trees, const std::vector<DifferingEntry>& different);

/// Returns the bytes of an entry: the text of the values, or the bytes of the tensor; empty if the tree has none.
/// Local.
std::string bytes_of(const StateTree& tree, const DifferingEntry& entry);

/// Throws Error(verdict) on all ranks if there is a difference. Collective over `ranks`.
void compare_values(Communicator& ranks, const World& world, const std::vector<Component>& components,
                    const std::vector<StateTree>& trees);

}  // namespace lockstep
