// Initial values of tensors when nothing is loaded. They depend on (seed, name, element) alone: any rank can fill any
// box of a tensor, and all layouts get the same model.
#pragma once

#include "architecture/architecture.hpp"

#include <cstdint>
#include <span>

namespace lockstep {

/// Fills `out` with the initial values of `box` of the tensor, row-major; out.size() = elements(box). The fp32 values
/// are the fp64 ones rounded. Local; pure; calls for disjoint boxes may run in parallel. Throws Error(bug) for a box
/// outside the tensor.
void initialise(const LogicalTensor& tensor, std::uint64_t seed, const Box& box, std::span<float> out);
void initialise(const LogicalTensor& tensor, std::uint64_t seed, const Box& box, std::span<double> out);

}  // namespace lockstep
