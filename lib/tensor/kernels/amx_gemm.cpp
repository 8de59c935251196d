#include "tensor/kernels/amx_gemm.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_AMX
#endif

#ifdef LOCKSTEP_AMX

// GCC 12 takes the deliberately undefined operands inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <cpuid.h>
#include <immintrin.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep {

namespace {

#define LOCKSTEP_MATRIX_UNIT __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

constexpr std::int64_t tile_rows = 16;          // also its columns of 32-bit elements
constexpr std::int64_t tile_depth = 32;         // bf16 elements of a tile's row: what one instruction sums over
constexpr std::int64_t tile_elements = tile_rows * tile_depth;
constexpr std::int64_t block_side = 32;         // 2 × 2 tiles of sums in registers
constexpr std::int64_t block_values = block_side * block_side;
constexpr std::int64_t widest_strip = 384;      // columns (or rows) of the larger factor that a thread packs at once
constexpr std::int64_t little_elements = std::int64_t{128} << 10;   // packed ones that are read again from a core's own cache
constexpr std::int64_t streamed_bytes = std::int64_t{2} << 20;  // results from this size on bypass the cache

constexpr std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }
constexpr std::int64_t rounded_up(std::int64_t value, std::int64_t granule) { return divided_up(value, granule) * granule; }

/// bf16 numbers that make up one of T, each in a tile of its own, the tiles of a place side by side.
template <class T>
constexpr std::int64_t parts_of = std::is_same_v<T, float> ? 3 : 1;
template <class T>
constexpr std::int64_t place_elements = parts_of<T> * tile_elements;
/// Depth of packed panels that a block runs over at once: two pairs fit the first-level cache.
template <class T>
constexpr std::int64_t depth_step = 384 / parts_of<T>;
/// Up to here a block runs over all of the depth: keeping its sums between steps would cost more.
template <class T>
constexpr std::int64_t depth_at_once = std::is_same_v<T, float> ? 256 : 384;
/// Packed elements of the smaller factor, shared by all threads.
template <class T>
constexpr std::int64_t kept_elements = (std::int64_t{2} << 20) / parts_of<T>;

// ---- the matrix unit: tiles 0 to 3 hold sums, 4 and 5 rows of the left factor, 6 and 7 columns of the right one ------------------------

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

class MatrixUnit {   // of this thread, while it lives
 public:
  MatrixUnit() {
    TileShapes shapes;
    std::fill_n(shapes.row_bytes, 8, std::uint16_t{64});
    std::fill_n(shapes.rows, 8, static_cast<std::uint8_t>(tile_rows));
    asm volatile("ldtilecfg %0" ::"m"(shapes));
  }
  ~MatrixUnit() { asm volatile("tilerelease"); }
  MatrixUnit(const MatrixUnit&) = delete;
  MatrixUnit& operator=(const MatrixUnit&) = delete;
};

template <int tile>
LOCKSTEP_INLINE void load_tile(const void* from, std::int64_t stride_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride_bytes), "i"(tile) : "memory");
}
template <int tile>
LOCKSTEP_INLINE void store_tile(void* to, std::int64_t stride_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride_bytes), "i"(tile) : "memory");
}
template <int tile>
LOCKSTEP_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(tile));
}
template <int sum, int left, int right>
LOCKSTEP_INLINE void multiply_add() {
  asm volatile("tdpbf16ps %%tmm%c0, %%tmm%c1, %%tmm%c2" ::"i"(right), "i"(left), "i"(sum));
}

enum class Sums { started, continued };

/// Two packed panels, `distance` elements apart.
struct Panels {
  const Bf16* first;
  std::int64_t distance;
};

constexpr std::int64_t tile_stride = 64, block_stride = block_side * sizeof(float);

LOCKSTEP_INLINE void zero_sums() {
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
}
LOCKSTEP_INLINE void store_sums(float* block) {
  store_tile<0>(block, block_stride);
  store_tile<1>(block + 16, block_stride);
  store_tile<2>(block + 16 * block_side, block_stride);
  store_tile<3>(block + 16 * block_side + 16, block_stride);
}

/// block (32, 32) = sums over `steps` tiles of two row panels and two column panels, or what it was and these.
template <class T>
void sum_block(Panels rows, Panels columns, std::int64_t steps, Sums sums, float* block);

template <>
void sum_block<Bf16>(Panels rows, Panels columns, std::int64_t steps, Sums sums, float* block) {
  if (sums == Sums::continued) {
    load_tile<0>(block, block_stride);
    load_tile<1>(block + 16, block_stride);
    load_tile<2>(block + 16 * block_side, block_stride);
    load_tile<3>(block + 16 * block_side + 16, block_stride);
  } else {
    zero_sums();
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    const Bf16* const row = rows.first + step * tile_elements;
    const Bf16* const column = columns.first + step * tile_elements;
    load_tile<4>(row, tile_stride);
    load_tile<6>(column, tile_stride);
    multiply_add<0, 4, 6>();
    load_tile<7>(column + columns.distance, tile_stride);
    multiply_add<1, 4, 7>();
    load_tile<5>(row + rows.distance, tile_stride);
    multiply_add<2, 5, 6>();
    multiply_add<3, 5, 7>();
  }
  store_sums(block);
}

template <int tile>
LOCKSTEP_INLINE void load_pair(Panels panels, std::int64_t step, int part) {
  const Bf16* const from = panels.first + step * place_elements<float> + part * tile_elements;
  load_tile<tile>(from, tile_stride);
  load_tile<tile + 1>(from + panels.distance, tile_stride);
}
LOCKSTEP_INLINE void multiply_pairs() {
  multiply_add<0, 4, 6>();
  multiply_add<1, 4, 7>();
  multiply_add<2, 5, 6>();
  multiply_add<3, 5, 7>();
}

// Of the nine products of parts the three smallest lie below fp32's last place. The others are summed from small to large, and sums that go
// on are added as a whole.
template <>
LOCKSTEP_MATRIX_UNIT void sum_block<float>(Panels rows, Panels columns, std::int64_t steps, Sums sums, float* block) {
  constexpr int high = 0, middle = 1, low = 2;
  alignas(64) float fresh[block_values];
  zero_sums();
  for (std::int64_t step = 0; step < steps; ++step) {
    load_pair<4>(rows, step, low);
    load_pair<6>(columns, step, high);
    multiply_pairs();
    load_pair<4>(rows, step, middle);
    multiply_pairs();
    load_pair<6>(columns, step, middle);
    multiply_pairs();
    load_pair<4>(rows, step, high);
    multiply_pairs();
    load_pair<6>(columns, step, low);
    multiply_pairs();
    load_pair<6>(columns, step, high);
    multiply_pairs();
  }
  if (sums == Sums::started) return store_sums(block);
  store_sums(fresh);
  for (std::int64_t i = 0; i < block_values; i += 16) _mm512_store_ps(block + i, _mm512_add_ps(_mm512_load_ps(block + i), _mm512_load_ps(fresh + i)));
}

// ---- packing --------------------------------------------------------------------------------------------------------------------------

LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE void transpose(const __m512i* in, Bf16* tile) {
  __m512i pairs[16], quads[16];
  for (int i = 0; i < 8; ++i) {
    pairs[2 * i] = _mm512_unpacklo_epi32(in[2 * i], in[2 * i + 1]);
    pairs[2 * i + 1] = _mm512_unpackhi_epi32(in[2 * i], in[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    for (int half = 0; half < 2; ++half) {
      quads[4 * i + 2 * half] = _mm512_unpacklo_epi64(pairs[4 * i + half], pairs[4 * i + 2 + half]);
      quads[4 * i + 2 * half + 1] = _mm512_unpackhi_epi64(pairs[4 * i + half], pairs[4 * i + 2 + half]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i even_low = _mm512_shuffle_i32x4(quads[i], quads[4 + i], 0x88);
    const __m512i even_high = _mm512_shuffle_i32x4(quads[8 + i], quads[12 + i], 0x88);
    const __m512i odd_low = _mm512_shuffle_i32x4(quads[i], quads[4 + i], 0xdd);
    const __m512i odd_high = _mm512_shuffle_i32x4(quads[8 + i], quads[12 + i], 0xdd);
    _mm512_store_si512(tile + tile_depth * i, _mm512_shuffle_i32x4(even_low, even_high, 0x88));
    _mm512_store_si512(tile + tile_depth * (4 + i), _mm512_shuffle_i32x4(odd_low, odd_high, 0x88));
    _mm512_store_si512(tile + tile_depth * (8 + i), _mm512_shuffle_i32x4(even_low, even_high, 0xdd));
    _mm512_store_si512(tile + tile_depth * (12 + i), _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd));
  }
}

LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE __mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffu : count <= 0 ? 0u : (1u << count) - 1);
}

alignas(64) constexpr auto upper_halves = [] {   // numbers of the odd ones of 64 elements
  std::array<std::uint16_t, 32> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint16_t>(2 * i + 1);
  return numbers;
}();

/// Sixteen vectors for each part of T: the rows of a tile, or of its transpose.
template <class T>
struct Rows {
  __m512i of[parts_of<T>][tile_rows];
};

/// The rest of fp32 values when the nearest bf16 value is taken away, which goes to the upper half of each lane of `part`. Exact, because the
/// rest has 16 bits and the rest of the rest 8 (Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype For
/// Higher-Precision Computations, ARITH 2019). Infinity leaves NaN.
LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE __m512 take_part(__m512 values, __m512i& part) {
  const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  part = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(values), half), upper);
  return _mm512_sub_ps(values, _mm512_castsi512_ps(part));
}

/// 16 stored rows of up to 32 elements, zeros beyond `rows` and `columns`.
LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE void read_rows(const Bf16* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, Rows<Bf16>& out) {
  const __mmask32 mask = columns >= 32 ? 0xffffffffu : (std::uint32_t{1} << columns) - 1;
  for (std::int64_t r = 0; r < 16; ++r) out.of[0][r] = r < rows ? _mm512_maskz_loadu_epi16(mask, from + r * stride) : _mm512_setzero_si512();
}
LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE void read_rows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, Rows<float>& out) {
  const __mmask16 masks[2] = {first_lanes(columns), first_lanes(columns - 16)};
  const __m512i take_upper = _mm512_load_si512(upper_halves.data());
  for (std::int64_t r = 0; r < 16; ++r) {
    __m512 rest[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    if (r < rows) {
      rest[0] = _mm512_maskz_loadu_ps(masks[0], from + r * stride);
      rest[1] = _mm512_maskz_loadu_ps(masks[1], from + r * stride + 16);
    }
    for (int part = 0; part < 3; ++part) {
      __m512i first, second;
      rest[0] = take_part(rest[0], first);
      rest[1] = take_part(rest[1], second);
      out.of[part][r] = _mm512_permutex2var_epi16(first, take_upper, second);
    }
  }
}

/// 16 pairs of stored rows, the elements of a pair side by side; zeros beyond.
LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE void read_pairs(const Bf16* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, Rows<Bf16>& out) {
  const __mmask16 mask = first_lanes(columns);
  for (std::int64_t r = 0; r < 16; ++r) {
    const __m256i even = 2 * r < rows ? _mm256_maskz_loadu_epi16(mask, from + 2 * r * stride) : _mm256_setzero_si256();
    const __m256i odd = 2 * r + 1 < rows ? _mm256_maskz_loadu_epi16(mask, from + (2 * r + 1) * stride) : _mm256_setzero_si256();
    out.of[0][r] = _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
  }
}
LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE void read_pairs(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, Rows<float>& out) {
  const __mmask16 mask = first_lanes(columns);
  for (std::int64_t r = 0; r < 16; ++r) {
    __m512 even = 2 * r < rows ? _mm512_maskz_loadu_ps(mask, from + 2 * r * stride) : _mm512_setzero_ps();
    __m512 odd = 2 * r + 1 < rows ? _mm512_maskz_loadu_ps(mask, from + (2 * r + 1) * stride) : _mm512_setzero_ps();
    for (int part = 0; part < 3; ++part) {
      __m512i first, second;
      even = take_part(even, first);
      odd = take_part(odd, second);
      out.of[part][r] = _mm512_or_si512(_mm512_srli_epi32(first, 16), second);
    }
  }
}

/// A factor seen from the product: `outer` counts rows of op(a) or columns of op(b), the depth what is summed over.
template <class T>
struct Side {
  Factor<T> factor;
  std::int64_t outer;
  enum class Packs { rows, columns } packs;                  // which of the two operands of the matrix unit it becomes
  bool depth_is_contiguous() const { return (packs == Packs::rows) == (factor.form == Form::plain); }
};

/// The tiles of one place: 16 of the outer dimension from `first`, 32 of the depth from `depth`.
template <class T>
LOCKSTEP_MATRIX_UNIT void pack_place(const Side<T>& side, std::int64_t first, std::int64_t depth, std::int64_t depth_end, Bf16* tiles) {
  const std::int64_t count = std::clamp<std::int64_t>(side.outer - first, 0, 16), length = std::min(depth_end - depth, tile_depth);
  Rows<T> rows;
  const std::int64_t stride = side.factor.stride;
  if (side.depth_is_contiguous()) {
    read_rows(side.factor.data + first * stride + depth, stride, count, length, rows);
  } else {
    read_pairs(side.factor.data + depth * stride + first, stride, length, count, rows);
  }
  for (std::int64_t part = 0; part < parts_of<T>; ++part, tiles += tile_elements) {
    if (side.depth_is_contiguous() == (side.packs == Side<T>::Packs::rows)) {
      for (int r = 0; r < 16; ++r) _mm512_store_si512(tiles + tile_depth * r, rows.of[part][r]);
    } else {
      transpose(rows.of[part], tiles);
    }
  }
}

/// Asks for `rows` stored rows of `count` elements that will be read soon.
template <class T>
LOCKSTEP_INLINE void ask_for(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t count) {
  constexpr std::int64_t line = 64 / sizeof(T);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < count; i += line) __builtin_prefetch(from + row * stride + i);
  }
}

/// `panels` panels of 16 of the outer dimension from `first` over the depth [begin, end), `distance` elements apart. Goes along what is
/// stored side by side, and asks for what comes next.
template <class T>
void pack_panels(const Side<T>& side, std::int64_t first, std::int64_t panels, std::int64_t begin, std::int64_t end, Bf16* packed,
                 std::int64_t distance) {
  const std::int64_t stride = side.factor.stride;
  const auto tiles_at = [&](std::int64_t panel, std::int64_t depth) { return packed + panel * distance + (depth - begin) / tile_depth * place_elements<T>; };
  if (side.depth_is_contiguous()) {
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t row = first + p * tile_rows;
      for (std::int64_t depth = begin; depth < end; depth += tile_depth) {
        const bool turns = depth + tile_depth >= end;
        const std::int64_t next_row = turns ? row + tile_rows : row, next_depth = turns ? begin : depth + tile_depth;
        ask_for(side.factor.data + next_row * stride + next_depth, stride, std::clamp<std::int64_t>(side.outer - next_row, 0, tile_rows), tile_depth);
        pack_place(side, row, depth, end, tiles_at(p, depth));
      }
    }
  } else {
    for (std::int64_t depth = begin; depth < end; depth += tile_depth) {
      const std::int64_t next = depth + tile_depth;
      for (std::int64_t p = 0; p < panels; ++p) {
        const std::int64_t column = first + p * tile_rows;
        ask_for(side.factor.data + next * stride + column, stride, std::clamp<std::int64_t>(end - next, 0, tile_depth),
                std::min(tile_rows, side.outer - column));
        pack_place(side, column, depth, end, tiles_at(p, depth));
      }
    }
  }
}

/// Memory for packed tiles and sums that a thread keeps from product to product.
template <class T>
class Scratch {
 public:
  T* upto(std::int64_t count) {
    if (count > count_) {
      constexpr std::int64_t huge_page = std::int64_t{2} << 20;
      const auto bytes = static_cast<std::size_t>(rounded_up(count * static_cast<std::int64_t>(sizeof(T)), huge_page));
      values_.reset(static_cast<T*>(std::aligned_alloc(huge_page, bytes)));
      if (!values_) throw std::bad_alloc();
      ::madvise(values_.get(), bytes, MADV_HUGEPAGE);
      count_ = count;
    }
    return values_.get();
  }

 private:
  struct Free {
    void operator()(T* values) const { std::free(values); }
  };
  std::unique_ptr<T, Free> values_;
  std::int64_t count_ = 0;
};

// ---- what becomes of a finished block (contracts in the header) ------------------------------------------------------------------------

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
  AmxSum<T> sum;
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
        _mm256_mask_storeu_epi16(y + (row + r) * stride + column + j, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(value)));
      }
    }
  }
};

// ---- the product ------------------------------------------------------------------------------------------------------------------------

/// The larger factor is cut into strips, one thread each, packed when their turn comes; the smaller one is packed first and shared.
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
  constexpr std::int64_t worth_another = std::int64_t{1} << 20;   // multiplications
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
Plan<T> plan_of(std::int64_t m, std::int64_t n, std::int64_t k, Factor<T> a, Factor<T> b) {
  const Side<T> rows{a, m, Side<T>::Packs::rows}, columns{b, n, Side<T>::Packs::columns};
  Plan<T> plan{n >= m ? rows : columns, n >= m ? columns : rows, k, 0, 0, 0, threads_for(m, n, k)};
  plan.depth_chunk = std::min(k, longest_depth<T>(plan.shared.outer));
  const std::int64_t share = divided_up(plan.stripped.outer, plan.threads);
  // Every strip reads all of the smaller factor again; where that is little, more strips let a thread that is ahead take another.
  const std::int64_t least_strips = plan.shared.outer * plan.depth_chunk * parts_of<T> <= little_elements ? 3 : 1;
  plan.strip = rounded_up(divided_up(share, std::max(least_strips, divided_up(share, widest_strip))), block_side);
  plan.chunk = std::max(least_chunk, kept_elements<T> / plan.depth_chunk / block_side * block_side);
  return plan;
}

/// Sums of one strip with the packed chunk [first, first + count) of the shared side, over the depth [begin, end).
template <class T, class Finish>
void multiply_strip(const Plan<T>& plan, const Bf16* shared, std::int64_t first, std::int64_t count, std::int64_t strip_first, std::int64_t begin,
                    std::int64_t end, const Finish& finish) {
  thread_local Scratch<Bf16> packed;
  thread_local Scratch<float> sums;
  const bool rows_shared = plan.shared.packs == Side<T>::Packs::rows;
  const std::int64_t strip = std::min(plan.strip, plan.stripped.outer - strip_first);
  const std::int64_t strip_panels = 2 * divided_up(strip, block_side), shared_blocks = divided_up(count, block_side);
  const std::int64_t shared_panel = divided_up(end - begin, tile_depth) * place_elements<T>;
  const bool at_once = end - begin <= depth_at_once<T>;
  const std::int64_t advance = at_once ? end - begin : depth_step<T>;
  float* const blocks = sums.upto(at_once ? block_values : shared_blocks * strip_panels / 2 * block_values);
  for (std::int64_t depth = begin; depth < end; depth += advance) {
    const std::int64_t stop = std::min(end, depth + advance), steps = divided_up(stop - depth, tile_depth), panel = steps * place_elements<T>;
    Bf16* const strips = packed.upto(strip_panels * panel);
    pack_panels(plan.stripped, strip_first, strip_panels, depth, stop, strips, panel);
    for (std::int64_t s = 0; s < shared_blocks; ++s) {
      const Panels mine{shared + 2 * s * shared_panel + (depth - begin) / tile_depth * place_elements<T>, shared_panel};
      for (std::int64_t p = 0; p < strip_panels; p += 2) {
        float* const block = at_once ? blocks : blocks + (s * (strip_panels / 2) + p / 2) * block_values;
        const Panels theirs{strips + p * panel, panel};
        sum_block<T>(rows_shared ? mine : theirs, rows_shared ? theirs : mine, steps, depth == begin ? Sums::started : Sums::continued, block);
        if (stop < end) continue;
        const std::int64_t shared_at = first + s * block_side, strip_at = strip_first + p * tile_rows;
        const std::int64_t shared_count = std::min(block_side, count - s * block_side);
        const std::int64_t strip_count = std::min(block_side, strip - p * tile_rows);
        if (rows_shared) finish(block, shared_at, strip_at, shared_count, strip_count);
        else finish(block, strip_at, shared_at, strip_count, shared_count);
      }
    }
  }
}

template <class T, class Finish>
void multiply_chunk(const Plan<T>& plan, std::int64_t first, std::int64_t begin, std::int64_t end, const Finish& finish) {
  thread_local Scratch<Bf16> packed;
  const std::int64_t count = std::min(plan.chunk, plan.shared.outer - first), panels = 2 * divided_up(count, block_side);
  const std::int64_t panel = divided_up(end - begin, tile_depth) * place_elements<T>;
  Bf16* const shared = packed.upto(panels * panel);
  const std::int64_t strips = divided_up(plan.stripped.outer, plan.strip);
#ifdef _OPENMP
#pragma omp parallel num_threads(plan.threads)
#endif
  {
    const MatrixUnit unit;
#ifdef _OPENMP
#pragma omp for schedule(static)
#endif
    for (std::int64_t p = 0; p < panels; ++p) pack_panels(plan.shared, first + p * tile_rows, 1, begin, end, shared + p * panel, panel);
#ifdef _OPENMP
#pragma omp for schedule(dynamic) nowait
#endif
    for (std::int64_t s = 0; s < strips; ++s) multiply_strip(plan, shared, first, count, s * plan.strip, begin, end, finish);
    _mm_sfence();
  }
}

}  // namespace

bool has_matrix_unit() {
  static const bool granted = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned tile_and_bf16 = (1u << 24) | (1u << 22);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tile_and_bf16) != tile_and_bf16) return false;
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vl")) return false;
    constexpr long request_permission = 0x1023, tile_data = 18;   // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  }();
  return granted;
}

template <class T>
void amx_gemm(std::int64_t m, std::int64_t n, std::int64_t k, Factor<T> a, Factor<T> b, const AmxSum<T>& sum) {
  const Plan<T> plan = plan_of(m, n, k, a, b);
  const std::int64_t bytes = m * n * static_cast<std::int64_t>(sizeof(float));
  const bool replaces = sum.base == nullptr && plan.depth_chunk == k;
  Add<T> finish{sum, replaces && bytes >= streamed_bytes ? Store::streamed : Store::cached};
  for (std::int64_t depth = 0; depth < k; depth += plan.depth_chunk) {
    const std::int64_t end = std::min(k, depth + plan.depth_chunk);
    for (std::int64_t first = 0; first < plan.shared.outer; first += plan.chunk) multiply_chunk(plan, first, depth, end, finish);
    finish.sum = {.alpha = sum.alpha, .beta = 1, .base = sum.y, .bias = nullptr, .y = sum.y, .stride = sum.stride};
  }
}

template void amx_gemm<Bf16>(std::int64_t, std::int64_t, std::int64_t, Factor<Bf16>, Factor<Bf16>, const AmxSum<Bf16>&);
template void amx_gemm<float>(std::int64_t, std::int64_t, std::int64_t, Factor<float>, Factor<float>, const AmxSum<float>&);

std::int64_t amx_longest_depth(std::int64_t m, std::int64_t n) { return longest_depth<Bf16>(std::min(m, n)); }

void amx_gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, Factor<Bf16> a, Factor<Bf16> b, const Bf16* bias, Bf16* y,
                      std::int64_t y_stride) {
  const Plan<Bf16> plan = plan_of(m, n, k, a, b);
  for (std::int64_t first = 0; first < plan.shared.outer; first += plan.chunk) multiply_chunk(plan, first, 0, k, Round{bias, y, y_stride});
}

}  // namespace lockstep

#else

namespace lockstep {

bool has_matrix_unit() { return false; }
template <class T>
void amx_gemm(std::int64_t, std::int64_t, std::int64_t, Factor<T>, Factor<T>, const AmxSum<T>&) {
  std::abort();
}
template void amx_gemm<Bf16>(std::int64_t, std::int64_t, std::int64_t, Factor<Bf16>, Factor<Bf16>, const AmxSum<Bf16>&);
template void amx_gemm<float>(std::int64_t, std::int64_t, std::int64_t, Factor<float>, Factor<float>, const AmxSum<float>&);
std::int64_t amx_longest_depth(std::int64_t, std::int64_t) { return 0; }
void amx_gemm_rounded(std::int64_t, std::int64_t, std::int64_t, Factor<Bf16>, Factor<Bf16>, const Bf16*, Bf16*, std::int64_t) { std::abort(); }

}  // namespace lockstep

#endif
