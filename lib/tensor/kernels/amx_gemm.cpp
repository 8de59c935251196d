#include "tensor/kernels/amx_gemm.hpp"

#include "base/rounding.hpp"
#include "tensor/kernels/amx_packing.hpp"
#include "tensor/kernels/amx_tiles.hpp"
#include "tensor/kernels/scratch.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <type_traits>

#ifdef LOCKSTEP_AMX

#include <cpuid.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep {

namespace {

using namespace amx;

constexpr std::int64_t widest_strip = 384;  // columns (or rows) of the larger factor that a thread packs at once
constexpr std::int64_t little_elements = std::int64_t{128}
                                         << 10;  // packed ones that are read again from a core's own cache
constexpr std::int64_t streamed_bytes = std::int64_t{2} << 20;  // results from this size on bypass the cache

/// Depth of packed panels that a block runs over at once: two pairs fit the first-level cache.
template <class T>
constexpr std::int64_t depth_step = 384 / parts_of<T>;
/// Up to here a block runs over all of the depth: keeping its sums between steps would cost more.
template <class T>
constexpr std::int64_t depth_at_once = std::is_same_v<T, float> ? 256 : 384;
/// Packed elements of the smaller factor, shared by all threads.
template <class T>
constexpr std::int64_t kept_elements = (std::int64_t{2} << 20) / parts_of<T>;

// ---- what becomes of a finished block (contracts in the header)
// ------------------------------------------------------------------------

LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE __m512 widened(__mmask16 mask, const Bf16* values) {
  if (values == nullptr) return _mm512_setzero_ps();
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, values)), 16));
}

LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE __m512 widened(__mmask16 mask, const float* values) {
  return values == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, values);
}

enum class Store { cached, streamed };

template <class T>
struct Add {
  ProductSum<T> sum;
  Store store;

  LOCKSTEP_MATRIX_UNIT void operator()(const float* block, std::int64_t row, std::int64_t column, std::int64_t rows,
                                       std::int64_t columns) const {
    const __m512 scale = _mm512_set1_ps(sum.alpha), keep = _mm512_set1_ps(sum.beta);
    for (std::int64_t j = 0; j < columns; j += 16) {
      const __mmask16 mask = first_lanes(columns - j);
      const __m512 shift = widened(mask, sum.bias ? sum.bias + column + j : nullptr);
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t place = (row + r) * sum.stride + column + j;
        __m512 value = _mm512_fmadd_ps(scale, _mm512_load_ps(block + r * block_side + j), shift);
        if (sum.base) value = _mm512_fmadd_ps(keep, _mm512_maskz_loadu_ps(mask, sum.base + place), value);
        float* const target = sum.y + place;
        if (store == Store::streamed && mask == 0xffff && reinterpret_cast<std::uintptr_t>(target) % 64 == 0) {
          _mm512_stream_ps(target, value);
        } else {
          _mm512_mask_storeu_ps(target, mask, value);
        }
      }
    }
  }
};

struct Round {
  const Bf16* bias;
  Bf16* y;
  std::int64_t stride;

  LOCKSTEP_MATRIX_UNIT void operator()(const float* block, std::int64_t row, std::int64_t column, std::int64_t rows,
                                       std::int64_t columns) const {
    for (std::int64_t j = 0; j < columns; j += 16) {
      const __mmask16 mask = first_lanes(columns - j);
      const __m512 shift = widened(mask, bias ? bias + column + j : nullptr);
      for (std::int64_t r = 0; r < rows; ++r) {
        const __m512 value = _mm512_add_ps(_mm512_load_ps(block + r * block_side + j), shift);
        _mm256_mask_storeu_epi16(y + (row + r) * stride + column + j, mask,
                                 reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(value)));
      }
    }
  }
};

// ---- the product
// ------------------------------------------------------------------------------------------------------------------------

/// The larger factor is cut into strips, one thread each, packed when their turn comes; the smaller one is packed first
/// and shared.
template <class T>
struct Plan {
  Side<T> shared, stripped;
  std::int64_t depth;
  std::int64_t strip;        // of the larger factor's outer dimension
  std::int64_t chunk;        // of the smaller one's, packed at once
  std::int64_t depth_chunk;  // of the depth, packed at once; sums go through memory between chunks
  int threads;
};

int threads_for(std::int64_t m, std::int64_t n, std::int64_t k) {
#ifdef _OPENMP
  constexpr std::int64_t worth_another = std::int64_t{1} << 20;  // multiplications
  if (omp_in_parallel()) return 1;
  return static_cast<int>(std::clamp<std::int64_t>(m * n * k / worth_another, 1, omp_get_max_threads()));
#else
  static_cast<void>(m), static_cast<void>(n), static_cast<void>(k);
  return 1;
#endif
}

constexpr std::int64_t least_chunk = 256;
template <class T>
std::int64_t longest_depth(std::int64_t shared_outer) {
  return rounded_up(kept_elements<T> / std::min(shared_outer, least_chunk), tile_depth);
}

template <class T>
Plan<T> plan_of(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b) {
  const Side<T> rows{a, m, Side<T>::Packs::rows}, columns{b, n, Side<T>::Packs::columns};
  Plan<T> plan{n >= m ? rows : columns, n >= m ? columns : rows, k, 0, 0, 0, threads_for(m, n, k)};
  plan.depth_chunk = std::min(k, longest_depth<T>(plan.shared.outer));
  const std::int64_t share = ceil_div(plan.stripped.outer, plan.threads);
  // Every strip reads all of the smaller factor again; where that is little, more strips let a thread that is ahead
  // take another.
  const std::int64_t least_strips = plan.shared.outer * plan.depth_chunk * parts_of<T> <= little_elements ? 3 : 1;
  plan.strip = rounded_up(ceil_div(share, std::max(least_strips, ceil_div(share, widest_strip))), block_side);
  plan.chunk = std::max(least_chunk, kept_elements<T> / plan.depth_chunk / block_side * block_side);
  return plan;
}

/// Sums of one strip with the packed chunk [first, first + count) of the shared side, over the depth [begin, end).
template <class T, class Finish>
void multiply_strip(const Plan<T>& plan, const Bf16* shared, std::int64_t first, std::int64_t count,
                    std::int64_t strip_first, std::int64_t begin, std::int64_t end, const Finish& finish) {
  thread_local Scratch<Bf16> packed;
  thread_local Scratch<float> sums;
  const bool rows_shared = plan.shared.packs == Side<T>::Packs::rows;
  const std::int64_t strip = std::min(plan.strip, plan.stripped.outer - strip_first);
  const std::int64_t strip_panels = 2 * ceil_div(strip, block_side), shared_blocks = ceil_div(count, block_side);
  const std::int64_t shared_panel = ceil_div(end - begin, tile_depth) * place_elements<T>;
  const bool at_once = end - begin <= depth_at_once<T>;
  const std::int64_t advance = at_once ? end - begin : depth_step<T>;
  float* const blocks = sums.upto(at_once ? block_values : shared_blocks * strip_panels / 2 * block_values);
  for (std::int64_t depth = begin; depth < end; depth += advance) {
    const std::int64_t stop = std::min(end, depth + advance), steps = ceil_div(stop - depth, tile_depth),
                       panel = steps * place_elements<T>;
    Bf16* const strips = packed.upto(strip_panels * panel);
    pack_panels(plan.stripped, strip_first, strip_panels, depth, stop, strips, panel);
    for (std::int64_t s = 0; s < shared_blocks; ++s) {
      const Panels mine{shared + 2 * s * shared_panel + (depth - begin) / tile_depth * place_elements<T>, shared_panel};
      for (std::int64_t p = 0; p < strip_panels; p += 2) {
        float* const block = at_once ? blocks : blocks + (s * (strip_panels / 2) + p / 2) * block_values;
        const Panels theirs{strips + p * panel, panel};
        sum_block<T>(rows_shared ? mine : theirs, rows_shared ? theirs : mine, steps,
                     depth == begin ? Sums::started : Sums::continued, block);
        if (stop < end) continue;
        const std::int64_t shared_at = first + s * block_side, strip_at = strip_first + p * tile_rows;
        const std::int64_t shared_count = std::min(block_side, count - s * block_side);
        const std::int64_t strip_count = std::min(block_side, strip - p * tile_rows);
        if (rows_shared)
          finish(block, shared_at, strip_at, shared_count, strip_count);
        else
          finish(block, strip_at, shared_at, strip_count, shared_count);
      }
    }
  }
}

template <class T, class Finish>
void multiply_chunk(const Plan<T>& plan, std::int64_t first, std::int64_t begin, std::int64_t end,
                    const Finish& finish) {
  thread_local Scratch<Bf16> packed;
  const std::int64_t count = std::min(plan.chunk, plan.shared.outer - first), panels = 2 * ceil_div(count, block_side);
  const std::int64_t panel = ceil_div(end - begin, tile_depth) * place_elements<T>;
  Bf16* const shared = packed.upto(panels * panel);
  const std::int64_t strips = ceil_div(plan.stripped.outer, plan.strip);
  RegionFailure failure;
#ifdef _OPENMP
#pragma omp parallel num_threads(plan.threads)
#endif
  {
    const MatrixUnit unit;
#ifdef _OPENMP
#pragma omp for schedule(static)
#endif
    for (std::int64_t p = 0; p < panels; ++p)
      pack_panels(plan.shared, first + p * tile_rows, 1, begin, end, shared + p * panel, panel);
#ifdef _OPENMP
#pragma omp for schedule(dynamic) nowait
#endif
    for (std::int64_t s = 0; s < strips; ++s)
      failure.attempt([&] { multiply_strip(plan, shared, first, count, s * plan.strip, begin, end, finish); });
    _mm_sfence();
  }
  failure.rethrow();
}

}  // namespace

bool has_matrix_unit() {
  static const bool granted = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned tile_and_bf16 = (1u << 24) | (1u << 22);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tile_and_bf16) != tile_and_bf16) return false;
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512bf16") ||
        !__builtin_cpu_supports("avx512vl"))
      return false;
    constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  }();
  return granted;
}

template <class T>
void amx_gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b,
              const ProductSum<T>& sum) {
  const Plan<T> plan = plan_of(m, n, k, a, b);
  const std::int64_t bytes = m * n * static_cast<std::int64_t>(sizeof(float));
  const bool replaces = sum.base == nullptr && plan.depth_chunk == k;
  Add<T> finish{sum, replaces && bytes >= streamed_bytes ? Store::streamed : Store::cached};
  for (std::int64_t depth = 0; depth < k; depth += plan.depth_chunk) {
    const std::int64_t end = std::min(k, depth + plan.depth_chunk);
    for (std::int64_t first = 0; first < plan.shared.outer; first += plan.chunk)
      multiply_chunk(plan, first, depth, end, finish);
    finish.sum = {.alpha = sum.alpha, .beta = 1, .base = sum.y, .bias = nullptr, .y = sum.y, .stride = sum.stride};
  }
}

template void amx_gemm<Bf16>(std::int64_t, std::int64_t, std::int64_t, MatrixView<Bf16>, MatrixView<Bf16>,
                             const ProductSum<Bf16>&);
template void amx_gemm<float>(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>,
                              const ProductSum<float>&);

std::int64_t amx_longest_depth(std::int64_t m, std::int64_t n) { return longest_depth<Bf16>(std::min(m, n)); }

void amx_gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<Bf16> a, MatrixView<Bf16> b,
                      const Bf16* bias, Bf16* y, std::int64_t y_stride) {
  const Plan<Bf16> plan = plan_of(m, n, k, a, b);
  for (std::int64_t first = 0; first < plan.shared.outer; first += plan.chunk)
    multiply_chunk(plan, first, 0, k, Round{bias, y, y_stride});
}

}  // namespace lockstep

#else

namespace lockstep {

bool has_matrix_unit() { return false; }
template <class T>
void amx_gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<T>, MatrixView<T>, const ProductSum<T>&) {
  std::abort();
}
template void amx_gemm<Bf16>(std::int64_t, std::int64_t, std::int64_t, MatrixView<Bf16>, MatrixView<Bf16>,
                             const ProductSum<Bf16>&);
template void amx_gemm<float>(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>,
                              const ProductSum<float>&);
std::int64_t amx_longest_depth(std::int64_t, std::int64_t) { return 0; }
void amx_gemm_rounded(std::int64_t, std::int64_t, std::int64_t, MatrixView<Bf16>, MatrixView<Bf16>, const Bf16*, Bf16*,
                      std::int64_t) {
  std::abort();
}

}  // namespace lockstep

#endif
