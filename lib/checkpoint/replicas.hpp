// Compares replicated state outside of a save, and can repair it by majority vote. A save does its own comparison
// (checkpoint/save.hpp); these functions are for callers that want to continue after a difference.
#pragma once

#include "comm/communicator.hpp"
#include "store/component.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Compares the ranks of each cell as deeply as the components declare; `share` selects the part for
/// Validation::rolling. Returns the message that a save would give, or nothing if all are equal. `before` runs first on
/// each rank, within the agreement. Collective over `ranks`. Throws the errors of a save up to its comparison.
std::optional<std::string> compare_replicas(Communicator& ranks, const World& world,
                                            const std::vector<Component>& components, const RollingShare& share,
                                            const std::function<void()>& before);

/// Compares in the same way, then repairs: each box and each component's values are replaced by the copy of the
/// majority of three or more replicas. Values are returned through `restore`. Returns a message about the differences
/// and the ranks that took over data, or nothing if all were equal. Collective over `ranks`. Throws Error(verdict) on
/// all ranks, before anything has changed, if a box or values have no majority or a rank lacks data that others hold;
/// and after the repair if replicas still differ, for example in values that no `restore` takes.
std::optional<std::string> repair_replicas(Communicator& ranks, const World& world,
                                           const std::vector<Component>& components, const RollingShare& share,
                                           const std::function<void()>& before);

}  // namespace lockstep
