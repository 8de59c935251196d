// Registers and instructions of Intel AMX: tiles 0 to 3 hold sums, 4 and 5 rows of the left factor, 6 and 7 columns of
// the right one. Used by: tensor/kernels/amx_gemm.cpp. LOCKSTEP_AMX is defined if this compiler supports them.
#pragma once

#include "base/vector_intrinsics.hpp"
#include "tensor/kernels/number.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#if defined(LOCKSTEP_INTRINSICS) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_AMX
#endif

#ifdef LOCKSTEP_AMX

#define LOCKSTEP_MATRIX_UNIT __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace lockstep::amx {

constexpr std::int64_t tile_rows = 16;   // also its columns of 32-bit elements
constexpr std::int64_t tile_depth = 32;  // bf16 elements of a tile's row, the depth of one instruction
constexpr std::int64_t tile_elements = tile_rows * tile_depth;
constexpr std::int64_t block_side = 32;  // 2 × 2 tiles of sums in registers
constexpr std::int64_t block_values = block_side * block_side;

/// bf16 numbers that represent one value of T. Each has a tile of its own; the tiles of a place are adjacent.
template <class T>
constexpr std::int64_t parts_of = std::is_same_v<T, float> ? 3 : 1;
template <class T>
constexpr std::int64_t place_elements = parts_of<T> * tile_elements;

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

class MatrixUnit {  // configures the unit for this thread while the object lives
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

/// block (32, 32) = sums over `steps` tiles of two row panels and two column panels; with Sums::continued they are
/// added to the block.
template <class T>
void sum_block(Panels rows, Panels columns, std::int64_t steps, Sums sums, float* block);

template <>
inline void sum_block<Bf16>(Panels rows, Panels columns, std::int64_t steps, Sums sums, float* block) {
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

// The three smallest of the nine products of parts lie below the last place of fp32 and are left out. The others are
// summed from small to large. With Sums::continued their total is added once.
template <>
LOCKSTEP_MATRIX_UNIT inline void sum_block<float>(Panels rows, Panels columns, std::int64_t steps, Sums sums,
                                                  float* block) {
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
  for (std::int64_t i = 0; i < block_values; i += 16)
    _mm512_store_ps(block + i, _mm512_add_ps(_mm512_load_ps(block + i), _mm512_load_ps(fresh + i)));
}

}  // namespace lockstep::amx

#endif
