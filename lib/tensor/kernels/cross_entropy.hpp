// Soft-max cross entropy over rows of logits: plain functions.
#pragma once

#include "tensor/kernels/number.hpp"

namespace lockstep {

/// The distribution that a row should have: the one-hot of its label, or, with smoothed labels, a part of it and the
/// rest spread evenly over the vocabulary.
struct TargetDistribution {
  double everywhere = 0;  // of each token
  double at_label = 1;    // of the label, besides
};

/// For each row r of logits (rows, vocabulary) whose label is in [0, vocabulary): losses[r] = −Σ target · log
/// soft-max(row) and derivative (rows, vocabulary) = soft-max − target, unscaled. Other labels: loss 0, derivative 0.
/// `derivative` may be `logits`.
template <class T>
void cross_entropy(const Math<T>* logits, const std::int32_t* labels, std::int64_t rows, std::int64_t vocabulary,
                   TargetDistribution target, double* losses, T* derivative);

/// The losses alone, and whether the label has the largest logit: hits[r] is 1, of other rows 0.
template <class M>
void cross_entropy_loss(const M* logits, const std::int32_t* labels, std::int64_t rows, std::int64_t vocabulary,
                        TargetDistribution target, double* losses, double* hits);

/// The same in two steps, where logits are columns [first, first + columns) of a row and other ranks have the rest.
/// What these columns know of a row:
struct RowStatistics {
  double largest = 0, sum = 0;  // Σ e^(logit − largest)
  double wanted = 0;            // Σ target · logit
};
template <class M>
void row_statistics(const M* logits, const std::int32_t* labels, std::int64_t rows, std::int64_t first,
                    std::int64_t columns, TargetDistribution target, RowStatistics* statistics);
/// Of the whole row the first two are known: derivative (rows, columns) as above. A sum of 0 stands for a label that
/// does not count. `derivative` may be `logits`.
template <class T>
void cross_entropy_derivative(const Math<T>* logits, const std::int32_t* labels, std::int64_t rows, std::int64_t first,
                              std::int64_t columns, TargetDistribution target, const RowStatistics* whole,
                              T* derivative);

}  // namespace lockstep
