// The arithmetic of Adafactor on raw pointers, for one row of a tensor at a time: plain functions. Sums are in fp64,
// and their order depends only on the length of the row.
#pragma once

#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

/// Σ (scale · x[i])².
template <class M>
double sum_squares(std::int64_t count, const M* x, M scale);
/// Σ (scale · x[i] · factors[i])².
template <class M>
double sum_squares(std::int64_t count, const M* x, M scale, const M* factors);
/// sums[i] += (scale · x[i])².
template <class M>
void add_squares(std::int64_t count, const M* x, M scale, double* sums);

/// Factors of a row in one step.
template <class M>
struct AdafactorFactors {
  M scale;     // clip factor times the row's common factor
  M rate;      // movement of the weights for a step of 1
  M keep;      // 1 − lr · weight decay
  M momentum;  // decay rate of the average
};

/// Updates the weights of a row by steps scale · gradient[i] · factors[i], or by their `average` unless that is
/// nullptr; `compute` is the rounded copy, or nullptr.
template <class M>
void adafactor_update(const AdafactorFactors<M>& row, std::int64_t count, const M* gradient, const M* factors,
                      M* weight, M* average, Bf16* compute);

}  // namespace lockstep
