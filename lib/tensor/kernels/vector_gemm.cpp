#include "tensor/kernels/vector_gemm.hpp"

#include "base/rounding.hpp"
#include "tensor/kernels/scratch.hpp"
#include "tensor/kernels/store_mode.hpp"
#include "tensor/kernels/wide.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#ifdef LOCKSTEP_INTRINSICS

#define LOCKSTEP_DOTS __attribute__((target("avx512f,avx512vl,avx512bw,avx512bf16")))

namespace lockstep {

namespace {

// Factors are read in words of 32 bits: one fp32 number, or two bf16 numbers that follow each other in the depth.
using Word = std::uint32_t;
template <class T>
constexpr std::int64_t word_depth = sizeof(Word) / sizeof(T);

constexpr std::int64_t tile_rows = 8;                           // whose sums are in registers at once, with
constexpr std::int64_t most_vectors = 3;                        // vectors of 16 columns: 24 of 32 registers hold sums
constexpr std::int64_t longest_panel = 384;                     // words of depth that a panel has at once
constexpr std::int64_t packed_words = std::int64_t{128} << 10;  // of the left factor, in a core's own cache
constexpr std::int64_t least_chunk = 128;                       // rows of it, for each of which panels are packed

/// Rows of the left factor, in bytes between them and between the words of one.
struct Left {
  const std::byte* first;
  std::int64_t row_step, depth_step;
};

template <class T>
LOCKSTEP_DOTS LOCKSTEP_INLINE __m512 multiply_add(__m512i left, __m512i right, __m512 sum) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(left), reinterpret_cast<__m512bh>(right));
  } else {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(left), _mm512_castsi512_ps(right), sum);
  }
}

// ---- what becomes of a finished tile (contracts in the header)

/// Sums of up to 8 rows and 3 vectors of columns, where they belong in the result.
struct Tile {
  std::int64_t row, rows, column, columns, vectors;

  bool is_full() const { return rows == tile_rows && columns == vectors * wide_lanes; }
};

template <class T>
struct Add {
  ProductSum<T> sum;

  /// Where the sums of a tile are the result.
  float* place(const Tile& tile) const {
    const bool plain = sum.alpha == 1 && sum.base == nullptr && sum.bias == nullptr;
    return plain && tile.is_full() ? sum.y + tile.row * sum.stride + tile.column : nullptr;
  }
  std::int64_t stride() const { return sum.stride; }
  void expect(const Tile& tile) const {
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      for (std::int64_t v = 0; v < tile.vectors; ++v)
        __builtin_prefetch(sum.y + (tile.row + r) * sum.stride + tile.column + v * wide_lanes, 1);
    }
  }
  LOCKSTEP_DOTS void operator()(const Tile& tile, const float* sums) const {
    const __m512 scale = _mm512_set1_ps(sum.alpha), keep = _mm512_set1_ps(sum.beta);
    for (std::int64_t v = 0; v < tile.vectors; ++v) {
      const __mmask16 lanes = lanes_of(tile.columns - v * wide_lanes);
      const std::int64_t column = tile.column + v * wide_lanes;
      const __m512 shift = sum.bias ? load_wide(sum.bias + column, lanes) : _mm512_setzero_ps();
      for (std::int64_t r = 0; r < tile.rows; ++r) {
        const std::int64_t at = (tile.row + r) * sum.stride + column;
        __m512 value = _mm512_fmadd_ps(scale, _mm512_load_ps(sums + (r * tile.vectors + v) * wide_lanes), shift);
        if (sum.base) value = _mm512_fmadd_ps(keep, load_wide(sum.base + at, lanes), value);
        store_wide(sum.y + at, lanes, value);
      }
    }
  }
};

struct Round {
  const Bf16* bias;
  Bf16* y;
  std::int64_t y_stride;

  static float* place(const Tile&) { return nullptr; }
  static std::int64_t stride() { return 0; }
  void expect(const Tile& tile) const {
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      for (std::int64_t v = 0; v < tile.vectors; v += 2)
        __builtin_prefetch(y + (tile.row + r) * y_stride + tile.column + v * wide_lanes, 1);
    }
  }
  LOCKSTEP_DOTS void operator()(const Tile& tile, const float* sums) const {
    for (std::int64_t v = 0; v < tile.vectors; ++v) {
      const __mmask16 lanes = lanes_of(tile.columns - v * wide_lanes);
      const std::int64_t column = tile.column + v * wide_lanes;
      const __m512 shift = bias ? load_wide(bias + column, lanes) : _mm512_setzero_ps();
      for (std::int64_t r = 0; r < tile.rows; ++r) {
        const __m512 value = _mm512_add_ps(_mm512_load_ps(sums + (r * tile.vectors + v) * wide_lanes), shift);
        _mm256_mask_storeu_epi16(y + (tile.row + r) * y_stride + column, lanes,
                                 reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(value)));
      }
    }
  }
};

// ---- the product of one tile

/// A panel of the right factor: for each word of the depth its columns side by side.
struct Panel {
  const Word* words;
  std::int64_t steps;
};
/// Sums of 8 rows, `stride` between them.
struct Sums {
  float* first;
  std::int64_t stride;
};

/// sums (8, vectors · 16) = left · panel, or what they were and these.
template <class T, int vectors>
LOCKSTEP_DOTS void multiply_tile(const Left& left, std::int64_t rows, const Panel& panel, const Sums& sums,
                                 StoreMode mode) {
  const std::byte* from[tile_rows];
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) from[r] = left.first + std::min<std::int64_t>(r, rows - 1) * left.row_step;
  __m512 sum[tile_rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  const Word* right = panel.words;
  const std::int64_t end = panel.steps * left.depth_step;
  for (std::int64_t at = 0; at < end; at += left.depth_step, right += vectors * wide_lanes) {
    __m512i column[vectors];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) column[v] = _mm512_load_si512(right + v * wide_lanes);
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) {
      int word;
      std::memcpy(&word, from[r] + at, sizeof word);
      const __m512i value = _mm512_set1_epi32(word);
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) sum[r][v] = multiply_add<T>(value, column[v], sum[r][v]);
    }
  }
  if (mode == StoreMode::add) {
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v)
        sum[r][v] = _mm512_add_ps(_mm512_loadu_ps(sums.first + r * sums.stride + v * wide_lanes), sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) _mm512_storeu_ps(sums.first + r * sums.stride + v * wide_lanes, sum[r][v]);
  }
}

// ---- packing

constexpr std::int64_t rows_ahead = 16;  // what is packed is asked for early

template <class T>
LOCKSTEP_INLINE void ask_for(const T* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 64 / static_cast<std::int64_t>(sizeof(T))) __builtin_prefetch(from + i);
}

/// The words of up to 16 columns of op(b) at one place of the depth, of which `left` elements are left.
LOCKSTEP_DOTS LOCKSTEP_INLINE __m512i row_words(const float* from, std::int64_t, std::int64_t, __mmask16 lanes) {
  return _mm512_maskz_loadu_epi32(lanes, from);
}
LOCKSTEP_DOTS LOCKSTEP_INLINE __m512i row_words(const Bf16* from, std::int64_t stride, std::int64_t left,
                                                __mmask16 lanes) {
  const __m256i even = _mm256_maskz_loadu_epi16(lanes, from);
  const __m256i odd = left > 1 ? _mm256_maskz_loadu_epi16(lanes, from + stride) : _mm256_setzero_si256();
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

/// Up to 16 words of depth of one column that is stored side by side.
LOCKSTEP_DOTS LOCKSTEP_INLINE __m512i depth_words(const float* from, std::int64_t left) {
  return _mm512_maskz_loadu_epi32(lanes_of(left), from);
}
LOCKSTEP_DOTS LOCKSTEP_INLINE __m512i depth_words(const Bf16* from, std::int64_t left) {
  return _mm512_maskz_loadu_epi16(left >= 32 ? 0xffffffffu : (std::uint32_t{1} << left) - 1, from);
}

/// `vectors` vectors of columns of op(b) from `column`, over the words [begin, end) of the depth: for each word the
/// columns side by side, zeros beyond.
template <class T>
LOCKSTEP_DOTS void pack_panel(MatrixView<T> b, std::int64_t column, std::int64_t columns, std::int64_t vectors,
                              std::int64_t depth, std::int64_t begin, std::int64_t end, Word* words) {
  constexpr std::int64_t deep = word_depth<T>;
  const std::int64_t width = vectors * wide_lanes;
  if (b.trans == Trans::no) {
    for (std::int64_t step = begin; step < end; ++step, words += width) {
      const T* const row = b.data + step * deep * b.stride + column;
      for (std::int64_t v = 0; v < vectors; ++v) {
        const T* const from = row + v * wide_lanes;
        _mm512_store_si512(words + v * wide_lanes,
                           row_words(from, b.stride, depth - step * deep, lanes_of(columns - v * wide_lanes)));
      }
      for (std::int64_t d = 0; d < deep; ++d) ask_for(row + ((rows_ahead + d) * b.stride), width);
    }
    return;
  }
  for (std::int64_t v = 0; v < vectors; ++v) {
    const std::int64_t count = std::clamp<std::int64_t>(columns - v * wide_lanes, 0, wide_lanes);
    const T* const first = b.data + (column + v * wide_lanes) * b.stride;
    for (std::int64_t step = begin; step < end; step += wide_lanes) {
      __m512i in[wide_lanes], out[wide_lanes];
      for (std::int64_t c = 0; c < wide_lanes; ++c) {
        const T* const from = first + c * b.stride + step * deep;
        in[c] = c < count ? depth_words(from, depth - step * deep) : _mm512_setzero_si512();
        if (c < count) _mm_prefetch(reinterpret_cast<const char*>(from + wide_lanes * b.stride), _MM_HINT_T1);
      }
      transpose_wide(in, out);
      for (std::int64_t s = 0; s < std::min(wide_lanes, end - step); ++s)
        _mm512_store_si512(words + (step - begin + s) * width + v * wide_lanes, out[s]);
    }
  }
}

/// Rows [first, first + rows) of a transposed left factor in groups of 8, in each for every word of the depth its rows
/// side by side.
template <class T>
LOCKSTEP_DOTS void pack_rows(MatrixView<T> a, std::int64_t first, std::int64_t rows, std::int64_t depth, Word* words) {
  constexpr std::int64_t deep = word_depth<T>;
  const std::int64_t steps = ceil_div(depth, deep);
  for (std::int64_t r = 0; r < rows; r += wide_lanes) {
    const __mmask16 lanes = lanes_of(rows - r);
    Word* const upper = words + r * steps;
    Word* const lower = upper + tile_rows * steps;
    for (std::int64_t step = 0; step < steps; ++step) {
      const T* const from = a.data + step * deep * a.stride + first + r;
      for (std::int64_t d = 0; d < deep; ++d) ask_for(from + (rows_ahead + d) * a.stride, 1);
      const __m512i values = row_words(from, a.stride, depth - step * deep, lanes);
      _mm256_store_si256(reinterpret_cast<__m256i*>(upper + step * tile_rows), _mm512_castsi512_si256(values));
      if (rows - r > tile_rows)
        _mm256_store_si256(reinterpret_cast<__m256i*>(lower + step * tile_rows), _mm512_extracti64x4_epi64(values, 1));
    }
  }
}

// ---- the product

template <class T>
void multiply_tile(std::int64_t vectors, const Left& left, std::int64_t rows, const Panel& panel, const Sums& sums,
                   StoreMode mode) {
  switch (vectors) {
    case 1: return multiply_tile<T, 1>(left, rows, panel, sums, mode);
    case 2: return multiply_tile<T, 2>(left, rows, panel, sums, mode);
    default: return multiply_tile<T, 3>(left, rows, panel, sums, mode);
  }
}

/// An odd depth ends within a word: the panel's last, with a left factor that is 0 beyond its rows.
void add_half_word(std::int64_t vectors, MatrixView<Bf16> a, std::int64_t row, std::int64_t rows, std::int64_t k,
                   const Word* last, const Sums& sums) {
  std::array<Word, tile_rows> halves{};
  for (std::int64_t r = 0; r < rows; ++r)
    halves[static_cast<std::size_t>(r)] = a.data[(row + r) * a.stride + k - 1].bits;
  multiply_tile<Bf16>(vectors, {reinterpret_cast<const std::byte*>(halves.data()), sizeof(Word), sizeof(Word)}, rows,
                      {last, 1}, sums, StoreMode::add);
}

template <class T, class Finish>
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const Finish& finish) {
  thread_local Scratch<Word> packed_rows, packed_panel;
  thread_local Scratch<float> tiles;
  constexpr std::int64_t deep = word_depth<T>, word = sizeof(Word);
  const std::int64_t steps = ceil_div(k, deep), advance = ceil_div(steps, ceil_div(steps, longest_panel));
  const bool in_place = a.trans == Trans::no, half = in_place && k % deep != 0;
  const std::int64_t chunk = in_place ? m : std::max(least_chunk, packed_words / steps / wide_lanes * wide_lanes);
  Word* const panel = packed_panel.upto(advance * most_vectors * wide_lanes);
  for (std::int64_t first = 0; first < m; first += chunk) {
    const std::int64_t rows = std::min(chunk, m - first);
    Word* const words = in_place ? nullptr : packed_rows.upto(rounded_up(rows, tile_rows) * steps);
    if (!in_place) pack_rows<T>(a, first, rows, k, words);
    const std::int64_t stride = a.stride * static_cast<std::int64_t>(sizeof(T));
    const Left left = in_place ? Left{reinterpret_cast<const std::byte*>(a.data) + first * stride, stride, word}
                               : Left{reinterpret_cast<const std::byte*>(words), word, tile_rows * word};
    const std::int64_t group_step = in_place ? tile_rows * stride : steps * tile_rows * word;
    for (std::int64_t column = 0, width = 0; column < n; column += width) {
      const std::int64_t rest = ceil_div(n - column, wide_lanes);
      const std::int64_t vectors = rest == 4 ? 2 : std::min(rest, most_vectors);  // two and two, not three and one
      width = vectors * wide_lanes;
      const std::int64_t columns = std::min(width, n - column), tile_values = tile_rows * width;
      float* const kept = tiles.upto(steps > advance ? ceil_div(rows, tile_rows) * tile_values : tile_values);
      for (std::int64_t begin = 0; begin < steps; begin += advance) {
        const std::int64_t end = std::min(steps, begin + advance);
        const bool last = end == steps;
        pack_panel<T>(b, column, columns, vectors, k, begin, end, panel);
        Left group{left.first + begin * left.depth_step, left.row_step, left.depth_step};
        for (std::int64_t r = 0; r < rows; r += tile_rows, group.first += group_step) {
          const Tile tile{first + r, std::min(tile_rows, rows - r), column, columns, vectors};
          float* const place = finish.place(tile);
          const Sums sums = place ? Sums{place, finish.stride()}
                                  : Sums{kept + (steps > advance ? r / tile_rows * tile_values : 0), width};
          if (last) finish.expect(tile);
          multiply_tile<T>(vectors, group, tile.rows, {panel, end - begin - (last && half ? 1 : 0)}, sums,
                           begin == 0 ? StoreMode::overwrite : StoreMode::add);
          if constexpr (std::is_same_v<T, Bf16>) {
            if (last && half)
              add_half_word(vectors, a, tile.row, tile.rows, k, panel + (end - begin - 1) * width, sums);
          }
          if (last && !place) finish(tile, sums.first);
        }
      }
    }
  }
}

}  // namespace

bool has_vector_gemm() {
  static const bool supported = is_wide() && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd");
  return supported;
}

template <class T>
void vector_gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b,
                 const ProductSum<T>& sum) {
  multiply<T>(m, n, k, a, b, Add<T>{sum});
}

void vector_gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<Bf16> a, MatrixView<Bf16> b,
                         const Bf16* bias, Bf16* y, std::int64_t y_stride) {
  multiply<Bf16>(m, n, k, a, b, Round{bias, y, y_stride});
}

}  // namespace lockstep

#else

namespace lockstep {

bool has_vector_gemm() { return false; }
template <class T>
void vector_gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<T>, MatrixView<T>, const ProductSum<T>&) {
  std::abort();
}
void vector_gemm_rounded(std::int64_t, std::int64_t, std::int64_t, MatrixView<Bf16>, MatrixView<Bf16>, const Bf16*,
                         Bf16*, std::int64_t) {
  std::abort();
}

}  // namespace lockstep

#endif

namespace lockstep {

template void vector_gemm<Bf16>(std::int64_t, std::int64_t, std::int64_t, MatrixView<Bf16>, MatrixView<Bf16>,
                                const ProductSum<Bf16>&);
template void vector_gemm<float>(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>,
                                 const ProductSum<float>&);

}  // namespace lockstep
