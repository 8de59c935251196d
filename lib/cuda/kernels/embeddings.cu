#include "cuda/kernels/embeddings.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/over_rows.cuh"
#include "cuda/kernels/reductions.cuh"

namespace lockstep::cuda {

namespace {

struct IndexOfPart {
  static constexpr int lanes = 1;
  const std::int32_t* indices;
  std::int32_t first, entries;
  std::int32_t* own;

  __device__ void operator()(std::int64_t, std::int64_t i, int) const {
    const std::int64_t index = std::int64_t{indices[i]} - first;
    own[i] = indices[i] >= first && index < entries ? static_cast<std::int32_t>(index) : -1;
  }
};

template <class T>
struct Lookup {
  static constexpr int lanes = lanes_of_access<Math<T>>;
  const T* table;
  const std::int32_t* indices;
  std::int64_t channels;
  bool adds, packed;
  Math<T>* y;

  __device__ void operator()(std::int64_t row, std::int64_t column, int count) const {
    const std::int64_t index = indices[row];
    Math<T> values[lanes] = {}, old[lanes] = {};
    Math<T>* const out = y + row * channels + column;
    if (index < 0 && adds) return;
    if (index >= 0) load_values(table + index * channels + column, count, packed, values);
    if (adds) load_values(out, count, packed, old);
#pragma unroll
    for (int i = 0; i < lanes; ++i) values[i] += old[i];
    store_values(values, count, packed, out);
  }
};

// Backward: a block has some entries of the table and some columns. It looks through all indices for its entries, sorts
// the rows that it finds by entry, and adds them up in their order. So no two blocks write one value.
constexpr int scatter_threads = 256, scatter_entries = 64;
constexpr int scatter_scan = 4 * scatter_threads;   // indices that a block reads at once
constexpr int scatter_capacity = 2 * scatter_scan;  // rows that it holds

struct FoundRow {
  std::int32_t row, entry;  // entry: within the block's
};

/// sorted = the rows of `found` by entry, each in its order; starts: where those of an entry begin.
__device__ inline void sort_by_entry(const FoundRow* found, int count, std::int32_t* sorted, int* starts) {
  const int entry = static_cast<int>(threadIdx.x);
  if (entry < scatter_entries) {
    int own = 0;
    for (int i = 0; i < count; ++i) own += found[i].entry == entry ? 1 : 0;
    starts[entry + 1] = own;
  }
  __syncthreads();
  if (entry == 0) {
    starts[0] = 0;
    for (int e = 0; e < scatter_entries; ++e) starts[e + 1] += starts[e];
  }
  __syncthreads();
  if (entry < scatter_entries) {
    int at = starts[entry];
    for (int i = 0; i < count; ++i) {
      if (found[i].entry == entry) sorted[at++] = found[i].row;
    }
  }
  __syncthreads();
}

template <class M>
__global__ void __launch_bounds__(scatter_threads)
    scatter_rows(const M* dy, const std::int32_t* indices, std::int64_t rows, std::int64_t channels,
                 std::int64_t entries, M beta, bool packed, unsigned tiles, M* dtable) {
  constexpr int lanes = lanes_of_access<M>;
  LOCKSTEP_SHARED(FoundRow, found, scatter_capacity);
  LOCKSTEP_SHARED(std::int32_t, sorted, scatter_capacity);
  LOCKSTEP_SHARED(int, starts, scatter_entries + 1);
  const std::int64_t first = std::int64_t{blockIdx.x / tiles} * scatter_entries;
  const std::int64_t own_entries = std::min<std::int64_t>(scatter_entries, entries - first);
  const std::int64_t column = (std::int64_t{blockIdx.x % tiles} * scatter_threads + threadIdx.x) * lanes;
  const int count = lanes_left<lanes>(channels - column);
  M* const own = dtable + first * channels + column;
  if (beta != 1) {
    for (std::int64_t e = 0; e < own_entries; ++e) {
      M values[lanes] = {};
      if (beta != 0) load_values(own + e * channels, count, packed, values);
#pragma unroll
      for (int i = 0; i < lanes; ++i) values[i] *= beta;
      store_values(values, count, packed, own + e * channels);
    }
  }
  int held = 0;
  for (std::int64_t base = 0; base < rows; base += scatter_scan) {
    const std::int64_t row = base + 4 * threadIdx.x;
    std::int64_t entry[4];
    int hits = 0, all_hits = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      entry[i] = row + i < rows ? indices[row + i] - first : -1;
      if (entry[i] >= 0 && entry[i] < own_entries) ++hits;
    }
    int at = held + sum_before(hits, all_hits);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (entry[i] >= 0 && entry[i] < own_entries)
        found[at++] = {static_cast<std::int32_t>(row + i), static_cast<std::int32_t>(entry[i])};
    }
    held += all_hits;
    if (held == 0 || (held <= scatter_capacity - scatter_scan && base + scatter_scan < rows)) continue;
    __syncthreads();
    sort_by_entry(found, held, sorted, starts);
    for (std::int64_t e = 0; e < own_entries; ++e) {
      const int begin = starts[e], end = starts[e + 1];
      if (begin == end) continue;
      M sums[lanes];
      load_values(own + e * channels, count, packed, sums);
#pragma unroll 4
      for (int i = begin; i < end; ++i) {
        M more[lanes];
        load_values(dy + sorted[i] * channels + column, count, packed, more);
#pragma unroll
        for (int k = 0; k < lanes; ++k) sums[k] += more[k];
      }
      store_values(sums, count, packed, own + e * channels);
    }
    held = 0;  // the barriers of the next sum keep threads from overwriting rows that others read
  }
}

}  // namespace

void indices_of_part(const std::int32_t* indices, std::int64_t count, std::int32_t first, std::int32_t entries,
                     std::int32_t* own) {
  over_rows(1, count, IndexOfPart{indices, first, entries, own});
}

template <class T>
void embedding_forward(const T* table, const std::int32_t* indices, std::int64_t rows, std::int64_t channels,
                       StoreMode mode, Math<T>* y) {
  const bool packed = packable(channels, Lookup<T>::lanes, {table, y});
  over_rows(rows, channels, Lookup<T>{table, indices, channels, mode == StoreMode::add, packed, y});
}

template <class M>
void embedding_backward(const M* dy, const std::int32_t* indices, std::int64_t rows, std::int64_t channels,
                        std::int64_t entries, double beta, M* dtable) {
  constexpr std::int64_t width = scatter_threads * lanes_of_access<M>;
  const std::int64_t tiles = (channels + width - 1) / width, groups = (entries + scatter_entries - 1) / scatter_entries;
  launch(scatter_rows<M>, groups * tiles, scatter_threads, 0, dy, indices, rows, channels, entries,
         static_cast<M>(beta), packable(channels, lanes_of_access<M>, {dy, dtable}), static_cast<unsigned>(tiles),
         dtable);
}

template void embedding_forward<float>(const float*, const std::int32_t*, std::int64_t, std::int64_t, StoreMode,
                                       float*);
template void embedding_forward<double>(const double*, const std::int32_t*, std::int64_t, std::int64_t, StoreMode,
                                        double*);
template void embedding_forward<Bf16>(const Bf16*, const std::int32_t*, std::int64_t, std::int64_t, StoreMode, float*);
template void embedding_forward<Fp16>(const Fp16*, const std::int32_t*, std::int64_t, std::int64_t, StoreMode, float*);
template void embedding_backward<float>(const float*, const std::int32_t*, std::int64_t, std::int64_t, std::int64_t,
                                        double, float*);
template void embedding_backward<double>(const double*, const std::int32_t*, std::int64_t, std::int64_t, std::int64_t,
                                         double, double*);

}  // namespace lockstep::cuda
