// The arithmetic of Adafactor on raw pointers, of one row of a tensor at a time: plain functions. Sums are in fp64, in
// an order that hangs on the length of the row alone.
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

/// One step's factors of a row.
template <class M>
struct AdafactorFactors {
  M scale;     // of gradients: the clip factor, and what all of the row are multiplied with
  M rate;      // what weights move by, of a step of 1
  M keep;      // 1 − lr · weight decay
  M momentum;  // share of the average that stays
};

/// Updates weights of a row from steps scale · gradient[i] · factors[i], or from their `average` unless that is null;
/// `compute` is the rounded copy, or null.
template <class M>
void adafactor_update(const AdafactorFactors<M>& row, std::int64_t count, const M* gradient, const M* factors,
                      M* weight, M* average, Bf16* compute);

}  // namespace lockstep
