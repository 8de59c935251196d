// The average of the weights of several sources, presented as one source. All other state comes from the first source.
// The interface of sources: reshard/state_source.hpp.
#pragma once

#include "reshard/state_source.hpp"

#include <memory>
#include <vector>

namespace lockstep {

/// Averages the floating tensors of 16 bits or more in component model: reads them, sums them in fp64 in the order of
/// the sources, and divides by the number of sources. The manifest is that of the first source without its metrics and
/// evaluation, which describe other weights; its document made_from names all sources. Layouts, meshes and all
/// components except model may differ. Throws Error(usage) if a source has no model, or naming the first tensor of
/// model that is not in all sources with one shape and type, or that cannot be averaged and differs. Pure.
std::unique_ptr<StateSource> average_of(std::vector<std::unique_ptr<StateSource>> sources);

}  // namespace lockstep
