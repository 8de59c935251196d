// The average of the weights of several sources, as a state to be written: what else there is, is that of the first
// one.
#pragma once

#include "reshard/state_source.hpp"

#include <memory>
#include <vector>

namespace lockstep {

/// Floating tensors of 16 bits and more of the component model are read in fp64, summed in the order of the sources and
/// divided by their number. The manifest is that of the first one, without the metrics and the evaluation, which tell
/// of its own weights; its document made_from names all. Layouts, meshes and all components but model may differ.
/// Throws Error(usage) naming the first tensor of model that is not in all of them with one shape and type, or that
/// cannot be averaged and is not equal in all. Pure.
std::unique_ptr<StateSource> average_of(std::vector<std::unique_ptr<StateSource>> sources);

}  // namespace lockstep
