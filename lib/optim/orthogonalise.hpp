// The nearest orthogonal matrix, roughly: what Muon makes of a direction (Jordan et al., 2024, "Muon: An optimizer for
// hidden layers in neural networks"). All singular values come near 1, by a fixed number of steps of a quintic
// iteration of Newton and Schulz whose coefficients were chosen for speed: they end between 0.7 and 1.2, not at 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep {

/// In which type the products of an iteration have their factors; sums are those of the matrix.
enum class IterationType { of_matrix, bf16 };

/// Memory of iterations, kept from one to the next.
class Orthogonaliser {
 public:
  Orthogonaliser();
  ~Orthogonaliser();
  Orthogonaliser(Orthogonaliser&&) noexcept;
  Orthogonaliser& operator=(Orthogonaliser&&) noexcept;

  /// In place: matrix (rows, cols) fp32 or fp64, row-major. With X = matrix/max(‖matrix‖, 1e-7), transposed if it has
  /// more rows than columns, `steps` times A = XXᵀ, X = 3.4445·X + (−4.7750·A + 2.0315·A²)·X. The result does not
  /// depend on the number of threads. bf16 is for fp32. Local.
  template <class M>
  void run(M* matrix, std::int64_t rows, std::int64_t cols, std::int64_t steps, IterationType type);

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

/// What the memory comes to for a matrix (rows, cols) of elements of so many bytes. Pure.
std::int64_t orthogonaliser_bytes(std::int64_t rows, std::int64_t cols, std::int64_t element_bytes);

}  // namespace lockstep
