// The kernels around the products of Muon's iteration (tensor/kernels/orthogonalise_kernel.hpp) on the device.
#pragma once

#include <cstdint>

namespace lockstep::cuda {

/// to (cols, rows) = fromᵀ for from (rows, cols), both row-major. M is float or double.
template <class M>
void transpose(const M* from, std::int64_t rows, std::int64_t cols, M* to);

/// values *= 1/max(√*square_sum, least), rounded to M before it multiplies.
template <class M>
void divide_by_norm(M* values, std::int64_t count, const double* square_sum, double least);

}  // namespace lockstep::cuda
