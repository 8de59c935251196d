#include "cuda/kernels/grouped_products.hpp"

#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/numbers.cuh"

namespace lockstep::cuda {

namespace {

constexpr int tile = 64, depth = 16;         // of the result, and of a step of the sums
constexpr int side = 16, own = tile / side;  // a thread has own × own elements of a tile
constexpr unsigned threads = side * side;
constexpr std::int64_t blocks = 528;  // go on from tile to tile: the host does not know the rows

/// Both factors of a step, in the math type: [depth][tile].
template <class M>
struct Factors {
  M* a;
  M* b;
};

/// sums[i][j] += Σ over the step of a[·][rows of the thread] · b[·][columns of the thread]
template <class M>
__device__ void add_step(const Factors<M>& factors, M (&sums)[own][own]) {
  const int row = static_cast<int>(threadIdx.x) / side, column = static_cast<int>(threadIdx.x) % side;
  for (int step = 0; step < depth; ++step) {
    M a[own], b[own];
#pragma unroll
    for (int i = 0; i < own; ++i) a[i] = factors.a[step * tile + row + i * side];
#pragma unroll
    for (int i = 0; i < own; ++i) b[i] = factors.b[step * tile + column + i * side];
#pragma unroll
    for (int i = 0; i < own; ++i)
#pragma unroll
      for (int j = 0; j < own; ++j) sums[i][j] += a[i] * b[j];
  }
}

/// A matrix (rows, columns), whose elements lie `row_stride` and `column_stride` apart; beyond its borders it is zero.
template <class T>
struct Source {
  const T* data;
  std::int64_t rows, columns;
  std::int64_t row_stride, column_stride;

  __device__ Math<T> at(std::int64_t row, std::int64_t column) const {
    return row < rows && column < columns ? widened(data[row * row_stride + column * column_stride]) : Math<T>{0};
  }
};

/// to[step][i] = source(first + step, begin + i)
template <class T>
__device__ void load_step(const Source<T>& source, std::int64_t first, std::int64_t begin, Math<T>* to) {
  const bool along_rows = source.row_stride == 1;  // neighbouring threads read neighbouring elements
  for (int i = static_cast<int>(threadIdx.x); i < depth * tile; i += static_cast<int>(threads)) {
    const int step = along_rows ? i % depth : i / tile, place = along_rows ? i / depth : i % tile;
    to[step * tile + place] = source.at(first + step, begin + place);
  }
}

/// sums = the tile at (top, left) of aᵀ · b, for a (length, …) and b (length, …).
template <class T>
__device__ void sum_tile(const Source<T>& a, const Source<T>& b, std::int64_t length, std::int64_t top,
                         std::int64_t left, const Factors<Math<T>>& factors, Math<T> (&sums)[own][own]) {
  for (std::int64_t first = 0; first < length; first += depth) {
    load_step(a, first, top, factors.a);
    load_step(b, first, left, factors.b);
    __syncthreads();
    add_step(factors, sums);
    __syncthreads();  // the next step may write
  }
}

__device__ std::int64_t tiles_of(std::int64_t length) { return (length + tile - 1) / tile; }

template <class T>
__global__ void __launch_bounds__(threads) product_kernel(RowGroups groups, std::int64_t n, std::int64_t k, const T* x,
                                                          const T* weights, bool transposed, T* y) {
  using M = Math<T>;
  LOCKSTEP_SHARED(M, of_a, depth * tile);
  LOCKSTEP_SHARED(M, of_b, depth * tile);
  const std::int64_t tiles_a_row = tiles_of(n);
  std::int64_t group = 0, before = 0;  // tiles of earlier groups
  for (std::int64_t next = blockIdx.x; group < groups.count; next += gridDim.x) {
    std::int64_t rows = 0;
    for (; group < groups.count; ++group) {
      rows = groups.offsets[group + 1] - groups.offsets[group];
      const std::int64_t tiles = tiles_of(rows) * tiles_a_row;
      if (next < before + tiles) break;
      before += tiles;
    }
    if (group == groups.count) return;
    const std::int64_t top = (next - before) / tiles_a_row * tile, left = (next - before) % tiles_a_row * tile;
    const std::int64_t begin = groups.offsets[group];
    M sums[own][own] = {};
    sum_tile<T>({x + begin * k, k, rows, 1, k}, {weights + group * n * k, k, n, transposed ? 1 : n, transposed ? k : 1},
                k, top, left, {of_a, of_b}, sums);
    const int row = static_cast<int>(threadIdx.x) / side, column = static_cast<int>(threadIdx.x) % side;
#pragma unroll
    for (int i = 0; i < own; ++i)
#pragma unroll
      for (int j = 0; j < own; ++j) {
        const std::int64_t r = top + row + i * side, c = left + column + j * side;
        if (r < rows && c < n) narrow(sums[i][j], y[(begin + r) * n + c]);
      }
  }
}

template <class T>
__global__ void __launch_bounds__(threads) weight_kernel(RowGroups groups, std::int64_t n, std::int64_t k, const T* dy,
                                                         const T* x, Math<T> beta, Math<T>* dweights) {
  using M = Math<T>;
  LOCKSTEP_SHARED(M, of_a, depth * tile);
  LOCKSTEP_SHARED(M, of_b, depth * tile);
  const std::int64_t tiles_a_row = tiles_of(k), tiles = tiles_of(n) * tiles_a_row;
  for (std::int64_t next = blockIdx.x; next < groups.count * tiles; next += gridDim.x) {
    const std::int64_t group = next / tiles;
    const std::int64_t top = next % tiles / tiles_a_row * tile, left = next % tiles % tiles_a_row * tile;
    const std::int64_t begin = groups.offsets[group], rows = groups.offsets[group + 1] - begin;
    M sums[own][own] = {};
    sum_tile<T>({dy + begin * n, rows, n, n, 1}, {x + begin * k, rows, k, k, 1}, rows, top, left, {of_a, of_b}, sums);
    const int row = static_cast<int>(threadIdx.x) / side, column = static_cast<int>(threadIdx.x) % side;
#pragma unroll
    for (int i = 0; i < own; ++i)
#pragma unroll
      for (int j = 0; j < own; ++j) {
        const std::int64_t r = top + row + i * side, c = left + column + j * side;
        if (r >= n || c >= k) continue;
        M& place = dweights[(group * n + r) * k + c];
        place = beta == 0 ? sums[i][j] : sums[i][j] + beta * place;
      }
  }
}

}  // namespace

template <class T>
void grouped_gemm_rounded(const RowGroups& groups, std::int64_t n, std::int64_t k, const T* x, const T* weights,
                          Trans trans, T* y) {
  if (n == 0) return;
  launch(product_kernel<T>, blocks, threads, 0, groups, n, k, x, weights, trans == Trans::yes, y);
}

template <class T>
void grouped_weight_gemm(const RowGroups& groups, std::int64_t n, std::int64_t k, const T* dy, const T* x, double beta,
                         Math<T>* dweights) {
  launch(weight_kernel<T>, blocks, threads, 0, groups, n, k, dy, x, static_cast<Math<T>>(beta), dweights);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                       \
  template void grouped_gemm_rounded<T>(const RowGroups&, std::int64_t, std::int64_t, const T*, const T*, Trans, T*); \
  template void grouped_weight_gemm<T>(const RowGroups&, std::int64_t, std::int64_t, const T*, const T*, double,      \
                                       Math<T>*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
