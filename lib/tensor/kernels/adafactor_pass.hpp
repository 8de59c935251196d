// The update of a unit by Adafactor in three passes over raw pointers, between which ranks add up their sums. The
// formulas: optim/adafactor.hpp. The arithmetic of a row: tensor/kernels/adafactor_kernel.hpp.
#pragma once

#include "layout/box_runs.hpp"
#include "layout/shape.hpp"
#include "tensor/kernels/update_kernel.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace lockstep {

/// The part of a parameter that this rank has: some rows of its matrices, one behind the other, and of each the same
/// columns. A vector is one row, whose columns have second moments of their own.
struct AdafactorPart {
  Shape matrix;                             // of each matrix, or the length of the vector
  std::int64_t matrices = 1;                // whose means this rank keeps
  std::int64_t first_row = 0;               // of these
  std::int64_t rows = 0;                    // that it has,
  std::int64_t columns = 0;                 // of each so many elements,
  std::vector<BoxRun> runs = {};            // in_a: the column; in_b: where that lies in a row that it has
  std::int64_t sums_a_matrix = 0;           // in the first sums
  std::int64_t first = 0, second = 0;       // where its sums lie
  std::int64_t factors = 0;                 // where its factors lie
  std::int64_t offset = 0;                  // where its elements lie in buffers of the unit
  std::array<std::int64_t, 3> states = {};  // where its state lies in each buffer
  double toward = 1;                        // how far means go towards those of this step
  double eps = 0, least_scale = 0, clip = 1;
  double rate = 0;      // of a step of 1
  double decay = 0;     // rate · weight decay
  double momentum = 0;  // 0: no average is kept
  bool scales = false;  // the rate is multiplied by the root mean square of the weights

  std::int64_t matrix_of(std::int64_t row) const { return matrix.size() < 2 ? 0 : (first_row + row) / matrix[0]; }
  std::int64_t row_in_matrix(std::int64_t row) const { return (first_row + row) % matrix[0]; }
};

/// The parts of a unit and its flat buffers. `first` and `second` are zero before the first pass.
template <class M>
struct AdafactorPass {
  std::vector<AdafactorPart> parts;
  bool factored = true;  // matrices: second moments are kept by rows and columns
  M scale = 1;           // of gradients: the clip factor
  UpdatedWeights<M> weights = {};
  const M* gradient = nullptr;
  std::array<M*, 3> states = {};  // in declaration order; nullptr: none
  double *first = nullptr, *second = nullptr;
  M* factors = nullptr;
};

/// First pass. Matrices: `first` gets sums of squares of gradients and weights. Vectors: it follows the second moments,
/// and `first` gets sums of squares of weights and steps.
template <class M>
void adafactor_sums(const AdafactorPass<M>& pass);
/// Second pass, of matrices: follows the second moments; `second` gets sums of squares of steps.
template <class M>
void adafactor_means(const AdafactorPass<M>& pass);
/// Last pass: updates the weights.
template <class M>
void adafactor_follow(const AdafactorPass<M>& pass);

}  // namespace lockstep
