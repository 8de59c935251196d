// The arithmetic of Muon around the orthogonalisation (tensor/kernels/orthogonalise_kernel.hpp), on raw pointers: plain
// functions.
#pragma once

#include "tensor/kernels/number.hpp"
#include "tensor/kernels/update_kernel.hpp"

#include <cstdint>

namespace lockstep {

/// The direction of elements [0, count): g = scale · gradient; average ← average + (1 − momentum)(g − average), stored
/// as S; the direction is g + momentum · (average − g) if the momentum looks ahead, else the average. `average`
/// nullptr: g itself.
template <class M, class S>
void muon_lead(std::int64_t count, M scale, M momentum, bool looks_ahead, const M* gradient, S* average, M* directions);

/// weight = weight · keep − step · direction for elements [offset, offset + count) of a unit; directions begin at that
/// element.
template <class M>
void muon_follow(std::int64_t offset, std::int64_t count, M keep, M step, const UpdatedWeights<M>& weights,
                 const M* directions);

}  // namespace lockstep
