#include "tensor/kernels/causal_products.hpp"

#include "base/error.hpp"
#include "tensor/kernels/store_mode.hpp"
#include "tensor/kernels/wide.hpp"

#include <algorithm>

namespace lockstep {

#ifdef LOCKSTEP_INTRINSICS

namespace {

constexpr std::int64_t lanes = wide_lanes;
constexpr std::int64_t group_rows = 8;   // whose sums are in registers at once, with
constexpr std::int64_t most_panels = 3;  // panels of 16 columns: 24 of 32 registers hold sums

/// The left factor: elements between its rows, and between what is summed over.
struct Left {
  const float* first;
  std::int64_t row_step, depth_step;
};
/// The right one: between panels of 16 columns, and between what is summed over.
struct Right {
  const float* first;
  std::int64_t panel_step, depth_step;
};
struct Target {
  float* first;
  std::int64_t stride;
};
template <int panels>
LOCKSTEP_WIDE void multiply_panels(std::int64_t rows, std::int64_t depth, const Left& left, const Right& right,
                                   const Target& target, StoreMode mode) {
  const float* row[group_rows];
#pragma GCC unroll 8
  for (int r = 0; r < group_rows; ++r) row[r] = left.first + std::min<std::int64_t>(r, rows - 1) * left.row_step;
  __m512 sum[group_rows][panels], column[panels];
#pragma GCC unroll 8
  for (int r = 0; r < group_rows; ++r) {
#pragma GCC unroll 3
    for (int p = 0; p < panels; ++p) sum[r][p] = _mm512_setzero_ps();
  }
  const float* from = right.first;
  for (std::int64_t at = 0; at < depth * left.depth_step; at += left.depth_step, from += right.depth_step) {
#pragma GCC unroll 3
    for (int p = 0; p < panels; ++p) column[p] = _mm512_loadu_ps(from + p * right.panel_step);
#pragma GCC unroll 8
    for (int r = 0; r < group_rows; ++r) {
      const __m512 value = _mm512_set1_ps(row[r][at]);
#pragma GCC unroll 3
      for (int p = 0; p < panels; ++p) sum[r][p] = _mm512_fmadd_ps(value, column[p], sum[r][p]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < group_rows; ++r) {
    if (r < rows) {
      float* const to = target.first + r * target.stride;
#pragma GCC unroll 3
      for (int p = 0; p < panels; ++p) {
        const __m512 before = mode == StoreMode::add ? _mm512_loadu_ps(to + p * lanes) : _mm512_setzero_ps();
        _mm512_storeu_ps(to + p * lanes, _mm512_add_ps(before, sum[r][p]));
      }
    }
  }
}

/// Up to 8 rows and any number of columns in whole panels.
void multiply_rows(std::int64_t rows, std::int64_t columns, std::int64_t depth, const Left& left, Right right,
                   Target target, StoreMode mode) {
  for (std::int64_t left_panels = columns / lanes, panels = 0; left_panels > 0; left_panels -= panels) {
    // Three, but two and two rather than three and one.
    panels = left_panels == 4 ? 2 : std::min(left_panels, most_panels);
    switch (panels) {
      case 1: multiply_panels<1>(rows, depth, left, right, target, mode); break;
      case 2: multiply_panels<2>(rows, depth, left, right, target, mode); break;
      default: multiply_panels<3>(rows, depth, left, right, target, mode);
    }
    right.first += panels * right.panel_step;
    target.first += panels * lanes;
  }
}

/// to (16, 16) = the transpose of `rows` rows of 16 elements, and zeros.
LOCKSTEP_WIDE void turn_square(const float* from, std::int64_t stride, std::int64_t rows, float* to) {
  __m512i row[lanes], column[lanes];
  for (int r = 0; r < lanes; ++r) row[r] = r < rows ? _mm512_loadu_si512(from + r * stride) : _mm512_setzero_si512();
  transpose_wide(row, column);
  for (int r = 0; r < lanes; ++r) _mm512_store_si512(to + lanes * r, column[r]);
}

}  // namespace

bool has_causal_products(std::int64_t head_size) { return is_wide() && fills_vectors(head_size); }

void turn_rows(const float* matrix, std::int64_t length, std::int64_t head_size, float* turned) {
  for (std::int64_t row = 0; row < length; row += lanes) {
    for (std::int64_t column = 0; column < head_size; column += lanes, turned += lanes * lanes)
      turn_square(matrix + row * head_size + column, head_size, length - row, turned);
  }
}

void causal_scores(const CausalTile& tile, const float* x, const float* turned, float* scores) {
  for (std::int64_t r = 0; r < tile.rows; r += group_rows) {
    const std::int64_t rows = std::min(group_rows, tile.rows - r);
    const std::int64_t begin = hidden_keys(tile.first + r, tile.window) / lanes * lanes;
    const std::int64_t end = (std::min(tile.first + r + rows, tile.keys) + lanes - 1) / lanes * lanes;
    if (end <= begin) continue;
    multiply_rows(rows, end - begin, tile.head_size, {x + r * tile.head_size, tile.head_size, 1},
                  {turned + begin * tile.head_size, lanes * tile.head_size, lanes},
                  {scores + r * tile.score_stride + begin, tile.score_stride}, StoreMode::overwrite);
  }
}

void causal_combine(const CausalTile& tile, const float* p, const float* matrix, float* y) {
  for (std::int64_t r = 0; r < tile.rows; r += group_rows) {
    const std::int64_t rows = std::min(group_rows, tile.rows - r);
    const std::int64_t end = std::min(tile.first + r + rows, tile.keys);
    const std::int64_t begin = std::min(hidden_keys(tile.first + r, tile.window), end);
    multiply_rows(rows, tile.head_size, end - begin, {p + r * tile.score_stride + begin, tile.score_stride, 1},
                  {matrix + begin * tile.head_size, lanes, tile.head_size}, {y + r * tile.head_size, tile.head_size},
                  StoreMode::overwrite);
  }
}

void causal_spread(const CausalTile& tile, const float* p, const float* x, float* y) {
  const std::int64_t width = tile.width();
  for (std::int64_t key = 0; key < width; key += group_rows) {
    const std::int64_t keys = std::min(group_rows, width - key);
    const std::int64_t query = std::max<std::int64_t>(0, key - tile.first);                   // the first that sees it
    const std::int64_t end = std::min(tile.rows, key + keys - tile.first - 1 + tile.window);  // behind the last one
    if (end <= query) continue;
    multiply_rows(keys, tile.head_size, end - query, {p + query * tile.score_stride + key, 1, tile.score_stride},
                  {x + query * tile.head_size, lanes, tile.head_size}, {y + key * tile.head_size, tile.head_size},
                  StoreMode::add);
  }
}

#else

namespace {
[[noreturn]] void missing() { throw Error(ExitCode::bug, "this build has no causal products"); }
}  // namespace

bool has_causal_products(std::int64_t) { return false; }
void turn_rows(const float*, std::int64_t, std::int64_t, float*) { missing(); }
void causal_scores(const CausalTile&, const float*, const float*, float*) { missing(); }
void causal_combine(const CausalTile&, const float*, const float*, float*) { missing(); }
void causal_spread(const CausalTile&, const float*, const float*, float*) { missing(); }

#endif

}  // namespace lockstep
