#include "tensor/kernels/cross_entropy.hpp"

#include "tensor/kernels/row_grain.hpp"
#include "tensor/parallel.hpp"

#include <limits>

namespace lockstep {

namespace {

template <class M>
struct Normaliser {
  M largest;  // of the row
  M sum;      // Σ e^(logit − largest)
};

template <class M>
LOCKSTEP_INLINE Normaliser<M> normaliser_of(const M* row, std::int64_t vocabulary) {
  M largest = -std::numeric_limits<M>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::int64_t v = 0; v < vocabulary; ++v) largest = row[v] > largest ? row[v] : largest;
  M sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t v = 0; v < vocabulary; ++v) sum += exp(row[v] - largest);
  return {largest, sum};
}

/// Σ target · logit over some columns, of which `label` may be one.
template <class M>
LOCKSTEP_INLINE double wanted_of(const M* row, std::int64_t label, std::int64_t columns, TargetDistribution target) {
  const double wanted = label >= 0 && label < columns ? target.at_label * static_cast<double>(row[label]) : 0;
  if (target.everywhere == 0) return wanted;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t v = 0; v < columns; ++v) sum += static_cast<double>(row[v]);
  return wanted + target.everywhere * sum;
}

template <class M>
LOCKSTEP_INLINE double loss_of(double wanted, const Normaliser<M>& normaliser) {
  return std::log(static_cast<double>(normaliser.sum)) + (static_cast<double>(normaliser.largest) - wanted);
}

bool counts(std::int32_t label, std::int64_t vocabulary) { return label >= 0 && label < vocabulary; }

/// Zeroes the padding of a row.
template <class T>
LOCKSTEP_INLINE void clear_padding(LogitRows rows, T* row) {
  for (std::int64_t v = rows.columns; v < rows.stride; ++v) store(row[v], Math<T>{0});
}

template <class T>
LOCKSTEP_CLONES void rows_backward(const Math<T>* logits, const std::int32_t* labels, std::int64_t begin,
                                   std::int64_t end, LogitRows rows, TargetDistribution target, double* losses,
                                   T* derivative) {
  using M = Math<T>;
  const M everywhere = static_cast<M>(target.everywhere), wanted = static_cast<M>(target.everywhere + target.at_label);
  for (std::int64_t r = begin; r < end; ++r) {
    const M* row = logits + r * rows.stride;
    T* out = derivative + r * rows.stride;
    if (!counts(labels[r], rows.columns)) {
      losses[r] = 0;
      for (std::int64_t v = 0; v < rows.stride; ++v) store(out[v], M{0});
      continue;
    }
    const Normaliser<M> normaliser = normaliser_of(row, rows.columns);
    losses[r] = loss_of(wanted_of(row, labels[r], rows.columns, target), normaliser);
    const M scale = 1 / normaliser.sum;
    const M largest = normaliser.largest;
    const M at_label = exp(row[labels[r]] - largest) * scale - wanted;
#pragma omp simd
    for (std::int64_t v = 0; v < rows.columns; ++v) store(out[v], exp(row[v] - largest) * scale - everywhere);
    store(out[labels[r]], at_label);
    clear_padding(rows, out);
  }
}

template <class M>
LOCKSTEP_CLONES void loss_rows(const M* logits, const std::int32_t* labels, std::int64_t begin, std::int64_t end,
                               LogitRows rows, TargetDistribution target, double* losses, double* correct) {
  for (std::int64_t r = begin; r < end; ++r) {
    const M* row = logits + r * rows.stride;
    losses[r] = correct[r] = 0;
    if (!counts(labels[r], rows.columns)) continue;
    const Normaliser<M> normaliser = normaliser_of(row, rows.columns);
    losses[r] = loss_of(wanted_of(row, labels[r], rows.columns, target), normaliser);
    correct[r] = row[labels[r]] == normaliser.largest ? 1 : 0;
  }
}

template <class M>
LOCKSTEP_CLONES void statistics_of_rows(const M* logits, const std::int32_t* labels, std::int64_t begin,
                                        std::int64_t end, LogitRows rows, std::int64_t first, TargetDistribution target,
                                        RowStatistics* statistics) {
  for (std::int64_t r = begin; r < end; ++r) {
    const M* row = logits + r * rows.stride;
    const Normaliser<M> normaliser = normaliser_of(row, rows.columns);
    statistics[r] = {normaliser.largest, normaliser.sum, wanted_of(row, labels[r] - first, rows.columns, target)};
  }
}

template <class T>
LOCKSTEP_CLONES void derivative_of_rows(const Math<T>* logits, const std::int32_t* labels, std::int64_t begin,
                                        std::int64_t end, LogitRows rows, std::int64_t first, TargetDistribution target,
                                        const RowStatistics* whole, T* derivative) {
  using M = Math<T>;
  const M everywhere = static_cast<M>(target.everywhere), wanted = static_cast<M>(target.everywhere + target.at_label);
  for (std::int64_t r = begin; r < end; ++r) {
    const M* row = logits + r * rows.stride;
    T* out = derivative + r * rows.stride;
    if (whole[r].sum == 0) {
      for (std::int64_t v = 0; v < rows.stride; ++v) store(out[v], M{0});
      continue;
    }
    const M scale = static_cast<M>(1 / whole[r].sum);
    const M largest = static_cast<M>(whole[r].largest);
    const std::int64_t label = labels[r] - first;
    const bool is_here = label >= 0 && label < rows.columns;
    const M at_label = is_here ? exp(row[label] - largest) * scale - wanted : M{0};
#pragma omp simd
    for (std::int64_t v = 0; v < rows.columns; ++v) store(out[v], exp(row[v] - largest) * scale - everywhere);
    if (is_here) store(out[label], at_label);
    clear_padding(rows, out);
  }
}

constexpr std::int64_t values_per_thread = 8192;

}  // namespace

template <class T>
void cross_entropy(const Math<T>* logits, const std::int32_t* labels, LogitRows rows, TargetDistribution target,
                   double* losses, T* derivative) {
  parallel_for(rows.count, row_grain(rows.columns, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
    rows_backward<T>(logits, labels, begin, end, rows, target, losses, derivative);
  });
}

template <class M>
void cross_entropy_loss(const M* logits, const std::int32_t* labels, LogitRows rows, TargetDistribution target,
                        double* losses, double* correct) {
  parallel_for(rows.count, row_grain(rows.columns, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
    loss_rows<M>(logits, labels, begin, end, rows, target, losses, correct);
  });
}

template <class M>
void row_statistics(const M* logits, const std::int32_t* labels, LogitRows rows, std::int64_t first,
                    TargetDistribution target, RowStatistics* statistics) {
  parallel_for(rows.count, row_grain(rows.columns, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
    statistics_of_rows<M>(logits, labels, begin, end, rows, first, target, statistics);
  });
}

void combine_statistics(const RowStatistics* of_ranks, std::int64_t ranks, std::int64_t rows,
                        const std::int32_t* labels, std::int64_t vocabulary, RowStatistics* whole, double* losses,
                        double* correct) {
  for (std::int64_t r = 0; r < rows; ++r) {
    RowStatistics row{.largest = -std::numeric_limits<double>::infinity()};
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      row.largest = std::max(row.largest, of_ranks[rank * rows + r].largest);
      row.wanted += of_ranks[rank * rows + r].wanted;
    }
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const RowStatistics& part = of_ranks[rank * rows + r];
      row.sum += part.sum * std::exp(part.largest - row.largest);
    }
    const bool counts = labels[r] >= 0 && labels[r] < vocabulary;
    losses[r] = counts ? std::log(row.sum) + (row.largest - row.wanted) : 0;
    if (correct != nullptr)
      correct[r] = counts && row.wanted == row.largest ? 1 : 0;  // without smoothing: the label's logit
    whole[r] = counts ? row : RowStatistics{};
  }
}

template <class T>
void cross_entropy_derivative(const Math<T>* logits, const std::int32_t* labels, LogitRows rows, std::int64_t first,
                              TargetDistribution target, const RowStatistics* whole, T* derivative) {
  parallel_for(rows.count, row_grain(rows.columns, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
    derivative_of_rows<T>(logits, labels, begin, end, rows, first, target, whole, derivative);
  });
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                    \
  template void cross_entropy<T>(const Math<T>*, const std::int32_t*, LogitRows, TargetDistribution, double*, T*); \
  template void cross_entropy_derivative<T>(const Math<T>*, const std::int32_t*, LogitRows, std::int64_t,          \
                                            TargetDistribution, const RowStatistics*, T*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE
#define LOCKSTEP_INSTANTIATE(M)                                                                                        \
  template void cross_entropy_loss<M>(const M*, const std::int32_t*, LogitRows, TargetDistribution, double*, double*); \
  template void row_statistics<M>(const M*, const std::int32_t*, LogitRows, std::int64_t, TargetDistribution,          \
                                  RowStatistics*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
