// Small state that must be equal: the values of a component within a cell, and everything of a global one on all ranks,
// for every rank gets back what rank 0 saves. It is compared before anything is planned. Tensors that ranks share:
// checkpoint/compare_holders.hpp.
#pragma once

#include "checkpoint/sides.hpp"
#include "comm/communicator.hpp"
#include "store/component.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

struct DifferingEntry {
  std::size_t component = 0;  // number
  std::string tensor;         // of a global component; empty: the values
  std::string cell;
  Sides sides;
};

/// What ranks of a cell have apart, by component, then cell: nothing of components that are not compared. `trees` are
/// those that this rank collected. Collective over `ranks`; what is exchanged does not grow with them where all are
/// equal.
std::vector<DifferingEntry> find_differing_values(Communicator& ranks, const World& world,
                                                  const std::vector<Component>& components,
                                                  const std::vector<StateTree>& trees);

/// "replicas differ in the values of component 'trainer', declared global: rank 1 against ranks 0,2: loss is 2.5
/// against 2.25": of the first. Collective over `ranks`.
std::string tell_differences(Communicator& ranks, const std::vector<Component>& components,
                             const std::vector<StateTree>& trees, const std::vector<DifferingEntry>& different);

/// The bytes of an entry: the text of the values, or of the tensor; empty without one. Local.
std::string bytes_of(const StateTree& tree, const DifferingEntry& entry);

/// Throws Error(verdict) on all ranks where there is a difference. Collective over `ranks`.
void compare_values(Communicator& ranks, const World& world, const std::vector<Component>& components,
                    const std::vector<StateTree>& trees);

}  // namespace lockstep
