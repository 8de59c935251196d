// Soft-max cross entropy over rows of logits: plain functions.
#pragma once

#include "tensor/kernels/number.hpp"

namespace lockstep {

/// For each row r of logits (rows, vocabulary) whose label is in [0, vocabulary): losses[r] = −log soft-max(row)[label]
/// and derivative (rows, vocabulary) = soft-max − one-hot(label), unscaled. Other labels: loss 0, derivative 0.
/// `derivative` may be `logits`.
template <class T>
void cross_entropy(const Math<T>* logits, const std::int32_t* labels, std::int64_t rows, std::int64_t vocabulary,
                   double* losses, T* derivative);

/// The losses alone.
template <class M>
void cross_entropy_loss(const M* logits, const std::int32_t* labels, std::int64_t rows, std::int64_t vocabulary,
                        double* losses);

}  // namespace lockstep
