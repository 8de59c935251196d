#include "cuda/kernels/losses.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/over_rows.cuh"
#include "cuda/kernels/reductions.cuh"

namespace lockstep::cuda {

namespace {

constexpr int loss_threads = 1024;

/// Some columns of a row of logits. `label` is relative to the first of them, and may lie elsewhere.
template <class M>
struct LogitRow {
  static constexpr int lanes = lanes_of_access<M>;
  const M* logits;
  std::int64_t columns, label;
  bool packed;

  __device__ bool has_label() const { return label >= 0 && label < columns; }

  /// The statistics of these columns, by all threads of a block, in one pass over them: a thread multiplies its sum
  /// when it meets a larger logit. A NaN stays in the sum.
  __device__ RowStatistics statistics(TargetDistribution target) const {
    constexpr M nothing = -std::numeric_limits<M>::infinity();
    M largest[1] = {nothing}, sum[1] = {};
    double all = 0;  // Σ logit
    for (std::int64_t c = threadIdx.x * lanes; c < columns; c += blockDim.x * lanes) {
      M more[lanes];
      const int count = lanes_left<lanes>(columns - c);
      load_values(logits + c, count, packed, more);
      M greatest = largest[0];
#pragma unroll
      for (int i = 0; i < lanes; ++i) greatest = i < count && more[i] > greatest ? more[i] : greatest;
      sum[0] *= change_of(largest[0], greatest);
      largest[0] = greatest;
#pragma unroll
      for (int i = 0; i < lanes; ++i) {
        if (i >= count) continue;
        if (more[i] != nothing) sum[0] += exp(more[i] - greatest);
        if (target.everywhere != 0) all += static_cast<double>(more[i]);
      }
    }
    const M own = largest[0];
    block_reduce(largest, nothing, WarpMax<M>{});
    sum[0] *= change_of(own, largest[0]);
    block_sums(sum);
    double wanted = has_label() ? target.at_label * static_cast<double>(logits[label]) : 0;
    if (target.everywhere != 0) wanted += target.everywhere * block_sum(all);
    return {static_cast<double>(largest[0]), static_cast<double>(sum[0]), wanted};
  }
  /// The factor of a sum when the largest logit changes.
  static __device__ M change_of(M from, M to) { return from == to ? M{1} : exp(from - to); }
};

__device__ inline bool counted(std::int32_t label, std::int64_t vocabulary) { return label >= 0 && label < vocabulary; }
__device__ inline double loss_of(const RowStatistics& row) { return log(row.sum) + (row.largest - row.wanted); }

/// One pack of a derivative: softmax − target.
template <class T>
struct Derive {
  static constexpr int lanes = lanes_of_access<Math<T>>;
  const Math<T>* logits;
  std::int64_t label;  // among these columns, or outside
  Math<T> largest, scale, everywhere, at_label;
  bool packed;
  T* derivative;

  __device__ void operator()(std::int64_t column, int count) const {
    Math<T> values[lanes];
    load_values(logits + column, count, packed, values);
#pragma unroll
    for (int i = 0; i < lanes; ++i)
      values[i] = exp(values[i] - largest) * scale - (column + i == label ? at_label : everywhere);
    store_values(values, count, packed, derivative + column);
  }
};

/// Zeroes the padding of a row, by all threads of a block.
template <class T>
__device__ void clear_padding(LogitRows rows, T* row) {
  for (std::int64_t c = rows.columns + threadIdx.x; c < rows.stride; c += blockDim.x) narrow(Math<T>{0}, row[c]);
}

/// A block has a row: its statistics, then its derivative.
template <class T>
__global__ void __launch_bounds__(loss_threads)
    loss_and_derivative(const Math<T>* logits, const std::int32_t* labels, LogitRows rows, bool packed,
                        TargetDistribution target, double* losses, T* derivative) {
  using M = Math<T>;
  constexpr int lanes = lanes_of_access<M>;
  const std::int64_t row = blockIdx.x, step = std::int64_t{blockDim.x} * lanes;
  logits += row * rows.stride;
  derivative += row * rows.stride;
  const std::int32_t label = labels[row];
  if (!counted(label, rows.columns)) {
    if (threadIdx.x == 0) losses[row] = 0;
    constexpr M zeros[lanes] = {};
    for (std::int64_t c = threadIdx.x * lanes; c < rows.stride; c += step)
      store_values(zeros, lanes_left<lanes>(rows.stride - c), packed, derivative + c);
    return;
  }
  const RowStatistics of_row = LogitRow<M>{logits, rows.columns, label, packed}.statistics(target);
  if (threadIdx.x == 0) losses[row] = loss_of(of_row);
  __syncthreads();  // the label's logit is read; from here on its place may be overwritten
  const Derive<T> derive{logits,
                         label,
                         static_cast<M>(of_row.largest),
                         1 / static_cast<M>(of_row.sum),
                         static_cast<M>(target.everywhere),
                         static_cast<M>(target.everywhere + target.at_label),
                         packed,
                         derivative};
  for (std::int64_t c = threadIdx.x * lanes; c < rows.columns; c += step)
    derive(c, lanes_left<lanes>(rows.columns - c));
  clear_padding(rows, derivative);
}

template <class M>
__global__ void __launch_bounds__(loss_threads)
    loss_and_correct(const M* logits, const std::int32_t* labels, LogitRows rows, bool packed,
                     TargetDistribution target, double* losses, double* correct) {
  const std::int64_t row = blockIdx.x;
  const std::int32_t label = labels[row];
  if (!counted(label, rows.columns)) {
    if (threadIdx.x == 0) losses[row] = correct[row] = 0;
    return;
  }
  const M* const own = logits + row * rows.stride;
  const RowStatistics of_row = LogitRow<M>{own, rows.columns, label, packed}.statistics(target);
  if (threadIdx.x != 0) return;
  losses[row] = loss_of(of_row);
  correct[row] = static_cast<double>(own[label]) == of_row.largest ? 1 : 0;
}

template <class M>
__global__ void __launch_bounds__(loss_threads)
    statistics_of_rows(const M* logits, const std::int32_t* labels, LogitRows rows, std::int64_t first, bool packed,
                       TargetDistribution target, RowStatistics* statistics) {
  const std::int64_t row = blockIdx.x;
  const LogitRow<M> own{logits + row * rows.stride, rows.columns, std::int64_t{labels[row]} - first, packed};
  const RowStatistics of_row = own.statistics(target);
  if (threadIdx.x == 0) statistics[row] = of_row;
}

struct CombineRow {
  static constexpr int lanes = 1;
  const RowStatistics* of_ranks;
  std::int64_t ranks, rows;
  const std::int32_t* labels;
  std::int64_t vocabulary;
  RowStatistics* whole;
  double *losses, *correct;

  __device__ void operator()(std::int64_t, std::int64_t r, int) const {
    RowStatistics row{-std::numeric_limits<double>::infinity(), 0, 0};
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      row.largest = std::max(row.largest, of_ranks[rank * rows + r].largest);
      row.wanted += of_ranks[rank * rows + r].wanted;
    }
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const RowStatistics& part = of_ranks[rank * rows + r];
      row.sum += part.sum * exp(part.largest - row.largest);
    }
    const bool counts = counted(labels[r], vocabulary);
    losses[r] = counts ? loss_of(row) : 0;
    if (correct) correct[r] = counts && row.wanted == row.largest ? 1 : 0;  // without smoothing: the label's logit
    whole[r] = counts ? row : RowStatistics{0, 0, 0};
  }
};

template <class T>
struct DeriveRows {
  static constexpr int lanes = Derive<T>::lanes;
  const Math<T>* logits;
  const std::int32_t* labels;
  LogitRows rows;
  std::int64_t first;
  Math<T> everywhere, at_label;
  const RowStatistics* whole;
  bool packed;
  T* derivative;

  /// The column may lie in the padding.
  __device__ void operator()(std::int64_t row, std::int64_t column, int count) const {
    using M = Math<T>;
    T* const out = derivative + row * rows.stride;
    if (whole[row].sum == 0) {
      constexpr M zeros[lanes] = {};
      return store_values(zeros, count, packed, out + column);
    }
    const Derive<T> derive{logits + row * rows.stride,
                           std::int64_t{labels[row]} - first,
                           static_cast<M>(whole[row].largest),
                           static_cast<M>(1 / whole[row].sum),
                           everywhere,
                           at_label,
                           packed,
                           out};
    const std::int64_t end = column + count;
    if (column < rows.columns) derive(column, lanes_left<lanes>(std::min(end, rows.columns) - column));
    for (std::int64_t c = std::max(column, rows.columns); c < end; ++c) narrow(M{0}, out[c]);
  }
};

/// Threads of a block for a row: few for a short row.
template <class M>
unsigned threads_for(std::int64_t columns) {
  const std::int64_t packs = (columns + lanes_of_access<M> - 1) / lanes_of_access<M>;
  return static_cast<unsigned>(std::clamp<std::int64_t>((packs + 31) / 32 * 32, 32, loss_threads));
}

}  // namespace

template <class T>
void cross_entropy(const Math<T>* logits, const std::int32_t* labels, LogitRows rows, TargetDistribution target,
                   double* losses, T* derivative) {
  const bool packed = packable(rows.stride, lanes_of_access<Math<T>>, {logits, derivative});
  launch(loss_and_derivative<T>, rows.count, threads_for<Math<T>>(rows.columns), 0, logits, labels, rows, packed,
         target, losses, derivative);
}

template <class M>
void cross_entropy_loss(const M* logits, const std::int32_t* labels, LogitRows rows, TargetDistribution target,
                        double* losses, double* correct) {
  launch(loss_and_correct<M>, rows.count, threads_for<M>(rows.columns), 0, logits, labels, rows,
         packable(rows.stride, lanes_of_access<M>, {logits}), target, losses, correct);
}

template <class M>
void row_statistics(const M* logits, const std::int32_t* labels, LogitRows rows, std::int64_t first,
                    TargetDistribution target, RowStatistics* statistics) {
  launch(statistics_of_rows<M>, rows.count, threads_for<M>(rows.columns), 0, logits, labels, rows, first,
         packable(rows.stride, lanes_of_access<M>, {logits}), target, statistics);
}

void combine_statistics(const RowStatistics* of_ranks, std::int64_t ranks, std::int64_t rows,
                        const std::int32_t* labels, std::int64_t vocabulary, RowStatistics* whole, double* losses,
                        double* correct) {
  over_rows(1, rows, CombineRow{of_ranks, ranks, rows, labels, vocabulary, whole, losses, correct});
}

template <class T>
void cross_entropy_derivative(const Math<T>* logits, const std::int32_t* labels, LogitRows rows, std::int64_t first,
                              TargetDistribution target, const RowStatistics* whole, T* derivative) {
  using M = Math<T>;
  const bool packed = packable(rows.stride, lanes_of_access<M>, {logits, derivative});
  over_rows(rows.count, rows.stride,
            DeriveRows<T>{logits, labels, rows, first, static_cast<M>(target.everywhere),
                          static_cast<M>(target.everywhere + target.at_label), whole, packed, derivative});
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

}  // namespace lockstep::cuda
