// What ranks hold alike, compared apart from a save, and made equal again where most of them agree. A save compares for
// itself: checkpoint/save.hpp; this is for who wants to go on all the same.
#pragma once

#include "comm/communicator.hpp"
#include "store/component.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// What differs between ranks of a cell, as a save would tell it, as deeply as the components say, of rolling ones the
/// share; nothing if all are equal. `before` runs first on each rank, within the agreement. Collective over `ranks`.
/// Throws what a save throws before it compares.
std::optional<std::string> compare_replicas(Communicator& ranks, const World& world,
                                            const std::vector<Component>& components, const RollingShare& share,
                                            const std::function<void()>& before);

/// The same, after which all hold what most of them held: of each box and each component's values that of the majority,
/// of three or more; values are given back by `restore`. Returns what differed and who took over from whom; nothing if
/// all were equal. Collective over `ranks`. Throws Error(verdict) on all ranks, with the difference and the reason, and
/// then nothing has changed, where a box or values have no majority, or a rank lacks what others hold; also where
/// values differ still that no `restore` takes.
std::optional<std::string> repair_replicas(Communicator& ranks, const World& world,
                                           const std::vector<Component>& components, const RollingShare& share,
                                           const std::function<void()>& before);

}  // namespace lockstep
