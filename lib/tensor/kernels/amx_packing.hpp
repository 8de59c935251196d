// Packing of the factors of a product into tiles of the matrix unit: bf16 as it is, fp32 as three parts. The left
// factor is packed by rows, the right one by columns.
#pragma once

#include "tensor/kernels/amx_tiles.hpp"
#include "tensor/kernels/matrix_view.hpp"
#include "tensor/kernels/wide.hpp"

#include <array>

#ifdef LOCKSTEP_AMX

namespace lockstep::amx {

LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE __mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffu : count <= 0 ? 0u : (1u << count) - 1);
}

alignas(64) inline constexpr auto upper_halves = [] {  // indices of the odd ones of 64 elements
  std::array<std::uint16_t, 32> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint16_t>(2 * i + 1);
  return numbers;
}();

/// Sixteen vectors for each part of T: the rows of a tile, or of its transpose.
template <class T>
struct Rows {
  __m512i of[parts_of<T>][tile_rows];
};

/// Splits fp32 values: stores the nearest bf16 values in the upper half of each lane of `part`, and returns the
/// remainder. Exact, because the first remainder has 16 bits and the second 8 (Henry, Tang, Heinecke: Leveraging the
/// bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations, ARITH 2019). For infinity the remainder
/// is NaN.
LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE __m512 take_part(__m512 values, __m512i& part) {
  const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  part = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(values), half), upper);
  return _mm512_sub_ps(values, _mm512_castsi512_ps(part));
}

/// Reads 16 stored rows of up to 32 elements, with zeros beyond `rows` and `columns`.
LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE void read_rows(const Bf16* from, std::int64_t stride, std::int64_t rows,
                                                    std::int64_t columns, Rows<Bf16>& out) {
  const __mmask32 mask = columns >= 32 ? 0xffffffffu : (std::uint32_t{1} << columns) - 1;
  for (std::int64_t r = 0; r < 16; ++r)
    out.of[0][r] = r < rows ? _mm512_maskz_loadu_epi16(mask, from + r * stride) : _mm512_setzero_si512();
}
LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE void read_rows(const float* from, std::int64_t stride, std::int64_t rows,
                                                    std::int64_t columns, Rows<float>& out) {
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

/// Reads 16 pairs of stored rows and interleaves the elements of a pair, with zeros beyond `rows` and `columns`.
LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE void read_pairs(const Bf16* from, std::int64_t stride, std::int64_t rows,
                                                     std::int64_t columns, Rows<Bf16>& out) {
  const __mmask16 mask = first_lanes(columns);
  for (std::int64_t r = 0; r < 16; ++r) {
    const __m256i even = 2 * r < rows ? _mm256_maskz_loadu_epi16(mask, from + 2 * r * stride) : _mm256_setzero_si256();
    const __m256i odd =
        2 * r + 1 < rows ? _mm256_maskz_loadu_epi16(mask, from + (2 * r + 1) * stride) : _mm256_setzero_si256();
    out.of[0][r] = _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
  }
}
LOCKSTEP_MATRIX_UNIT LOCKSTEP_INLINE void read_pairs(const float* from, std::int64_t stride, std::int64_t rows,
                                                     std::int64_t columns, Rows<float>& out) {
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

/// One factor of a product. `outer` is the number of rows of op(a) or columns of op(b); the depth is the dimension that
/// is summed over.
template <class T>
struct Side {
  MatrixView<T> factor;
  std::int64_t outer;
  enum class Packs { rows, columns } packs;  // the operand of the matrix unit that it becomes
  bool depth_is_contiguous() const { return (packs == Packs::rows) == (factor.trans == Trans::no); }
};

/// Packs the tiles of one place: 16 of the outer dimension from `first`, 32 of the depth from `depth`.
template <class T>
LOCKSTEP_MATRIX_UNIT void pack_place(const Side<T>& side, std::int64_t first, std::int64_t depth,
                                     std::int64_t depth_end, Bf16* tiles) {
  const std::int64_t count = std::clamp<std::int64_t>(side.outer - first, 0, 16),
                     length = std::min(depth_end - depth, tile_depth);
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
      __m512i columns[tile_rows];
      transpose_wide(rows.of[part], columns);
      for (int r = 0; r < tile_rows; ++r) _mm512_store_si512(tiles + tile_depth * r, columns[r]);
    }
  }
}

/// Prefetches `rows` stored rows of `count` elements.
template <class T>
LOCKSTEP_INLINE void ask_for(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t count) {
  constexpr std::int64_t line = 64 / sizeof(T);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < count; i += line) __builtin_prefetch(from + row * stride + i);
  }
}

/// Packs `panels` panels of 16 of the outer dimension from `first` over the depth [begin, end), `distance` elements
/// apart. Follows the stored order and prefetches the next elements.
template <class T>
void pack_panels(const Side<T>& side, std::int64_t first, std::int64_t panels, std::int64_t begin, std::int64_t end,
                 Bf16* packed, std::int64_t distance) {
  const std::int64_t stride = side.factor.stride;
  const auto tiles_at = [&](std::int64_t panel, std::int64_t depth) {
    return packed + panel * distance + (depth - begin) / tile_depth * place_elements<T>;
  };
  if (side.depth_is_contiguous()) {
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t row = first + p * tile_rows;
      for (std::int64_t depth = begin; depth < end; depth += tile_depth) {
        const bool turns = depth + tile_depth >= end;
        const std::int64_t next_row = turns ? row + tile_rows : row, next_depth = turns ? begin : depth + tile_depth;
        ask_for(side.factor.data + next_row * stride + next_depth, stride,
                std::clamp<std::int64_t>(side.outer - next_row, 0, tile_rows), tile_depth);
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

}  // namespace lockstep::amx

#endif
