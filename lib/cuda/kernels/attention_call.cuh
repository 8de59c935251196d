// The arguments of the kernels of attention, and the sizes of their tiles in shared memory.
#pragma once

#include "cuda/kernels/attention_walk.cuh"

#include <cstdint>

namespace lockstep::cuda {

/// Stored rows of heads.
template <class M>
struct HeadMatrix {
  StoredValues<M> in;
  std::int64_t width;             // of a row
  std::int64_t first;             // column of the first head
  const std::int32_t* positions;  // of all rows

  __device__ HeadRows<M> rows(const TileRows& tile, std::int64_t head, int size, Rotation<M> rotation, M scale) const {
    return {in,       tile.row * width + first + head * size,           width, tile.count, size,
            rotation, rotation.cosine ? positions + tile.row : nullptr, scale};
  }
};

/// The arguments of attention in one batch, or in one step of a ring.
template <class M>
struct AttentionCall {
  AttentionShape shape;
  RowParts query_parts, key_parts;
  const std::int64_t *query_tiles, *key_tiles;  // tiles before each part
  HeadMatrix<M> queries, keys, values;
  Rotation<M> rotation;
  DrawnDropout dropout;
  M scale;  // of queries

  __device__ int size() const { return static_cast<int>(shape.head_size); }
  __device__ HeadRows<M> query_rows(const TileRows& tile, std::int64_t head) const {
    return queries.rows(tile, head, size(), rotation, scale);
  }
  __device__ HeadRows<M> key_rows(const TileRows& tile, std::int64_t head) const {
    return keys.rows(tile, head, size(), rotation, 1);
  }
  __device__ HeadRows<M> value_rows(const TileRows& tile, std::int64_t head) const {
    return values.rows(tile, head, size(), {}, 1);
  }
  /// The first key that a tile of queries sees.
  __device__ std::int64_t first_key(const TilePlace& place) const {
    return shape.window == 0 ? 0 : place.index - shape.window + 1;
  }
};

/// Values of M in a tile of rows with these columns, and in one of scores.
template <class M, int R>
__host__ __device__ constexpr int row_tile_size(int columns) {
  return tile_side * R * tile_stride<M>(columns);
}
template <class M, int R>
__host__ __device__ constexpr int score_tile_size() {
  return tile_side * R * tile_stride<M>(tile_side * R);
}

}  // namespace lockstep::cuda
