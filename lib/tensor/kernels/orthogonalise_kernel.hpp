// Approximate orthogonalisation of a matrix, as Muon applies it to a direction (Jordan et al., 2024, "Muon: An
// optimizer for hidden layers in neural networks"). A fixed number of steps of a quintic Newton-Schulz iteration brings
// all singular values near 1. Its coefficients were chosen for speed: the values end between 0.7 and 1.2, not at 1.
#pragma once

#include <cstdint>

namespace lockstep {

/// The type of the factors of an iteration's products; sums have the type of the matrix.
enum class IterationType { of_matrix, bf16 };

/// Orthogonalises matrix (rows, cols) fp32 or fp64, row-major, in place. X = matrix/max(‖matrix‖, 1e-7), transposed if
/// it has more rows than columns; then `steps` times A = XXᵀ, X = 3.4445·X + (−4.7750·A + 2.0315·A²)·X. The result does
/// not depend on the number of threads. IterationType::bf16 is for fp32. The calling thread keeps the memory of the
/// iterations.
template <class M>
void orthogonalise(M* matrix, std::int64_t rows, std::int64_t cols, std::int64_t steps, IterationType type);

/// Bytes of that memory for a matrix (rows, cols) of elements of element_bytes. Pure.
std::int64_t orthogonaliser_bytes(std::int64_t rows, std::int64_t cols, std::int64_t element_bytes);

}  // namespace lockstep
