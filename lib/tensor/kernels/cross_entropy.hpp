// Softmax cross entropy over rows of logits: plain functions.
#pragma once

#include "tensor/kernels/number.hpp"

namespace lockstep {

/// Target distribution of a row: one-hot at the label or, with label smoothing, partly spread evenly over the
/// vocabulary.
struct TargetDistribution {
  double everywhere = 0;  // of each token
  double at_label = 1;    // added at the label
};

/// Rows of logits in memory: the first `columns` of each `stride` values. The others are padding: it is not read, and
/// becomes 0 in a derivative, which has the same rows.
struct LogitRows {
  std::int64_t count = 0, columns = 0;
  std::int64_t stride = columns;
};

/// For each row r of logits with a label in [0, columns): losses[r] = −Σ target · log softmax(row) and derivative =
/// softmax − target, unscaled. Rows with other labels get loss 0 and derivative 0. `derivative` may be `logits`.
template <class T>
void cross_entropy(const Math<T>* logits, const std::int32_t* labels, LogitRows rows, TargetDistribution target,
                   double* losses, T* derivative);

/// Computes only the losses and the correct: correct[r] is 1 if the label has the largest logit, else 0.
template <class M>
void cross_entropy_loss(const M* logits, const std::int32_t* labels, LogitRows rows, TargetDistribution target,
                        double* losses, double* correct);

/// Vocabulary-parallel cross entropy runs in two steps: logits are columns [first, first + columns) of a row, and other
/// ranks have the rest. These are the statistics of one row over the columns of this rank.
struct RowStatistics {
  double largest = 0, sum = 0;  // Σ e^(logit − largest)
  double wanted = 0;            // Σ target · logit
};
template <class M>
void row_statistics(const M* logits, const std::int32_t* labels, LogitRows rows, std::int64_t first,
                    TargetDistribution target, RowStatistics* statistics);
/// Between both: whole[r] = the statistics of a row over all columns, from those of `ranks` ranks, (ranks, rows).
/// losses[r] and, unless nullptr, correct[r] are as above. A label outside [0, vocabulary) does not count.
void combine_statistics(const RowStatistics* of_ranks, std::int64_t ranks, std::int64_t rows,
                        const std::int32_t* labels, std::int64_t vocabulary, RowStatistics* whole, double* losses,
                        double* correct);
/// Second step: the derivative as above. `whole` has `largest` and `sum` over the whole row; a sum of 0
/// marks a label that does not count. `derivative` may be `logits`.
template <class T>
void cross_entropy_derivative(const Math<T>* logits, const std::int32_t* labels, LogitRows rows, std::int64_t first,
                              TargetDistribution target, const RowStatistics* whole, T* derivative);

}  // namespace lockstep
