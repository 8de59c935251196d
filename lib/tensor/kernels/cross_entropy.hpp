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

/// The losses alone, and whether the label has the largest logit: hits[r] is 1, of other rows 0.
template <class M>
void cross_entropy_loss(const M* logits, const std::int32_t* labels, std::int64_t rows, std::int64_t vocabulary,
                        double* losses, double* hits);

/// The same in two steps, where logits are columns [first, first + columns) of a row and other ranks have the rest.
/// What these columns know of a row:
struct RowStatistics {
  double largest = 0, sum = 0;  // Σ e^(logit − largest)
  double at_label = 0;          // the logit there; −∞ if it is another rank's, or the label does not count
};
template <class M>
void row_statistics(const M* logits, const std::int32_t* labels, std::int64_t rows, std::int64_t first,
                    std::int64_t columns, RowStatistics* statistics);
/// Of the whole row the first two are known: derivative (rows, columns) as above. A sum of 0 stands for a label that
/// does not count. `derivative` may be `logits`.
template <class T>
void cross_entropy_derivative(const Math<T>* logits, const std::int32_t* labels, std::int64_t rows, std::int64_t first,
                              std::int64_t columns, const RowStatistics* whole, T* derivative);

}  // namespace lockstep
