// How kernels of attention go through queries and keys. A block has a tile of rows of one segment and goes through the
// tiles that these rows see. Rows of a segment lie in one part, or in two if ranks of a ring share it. Parts lie in
// device memory, so the host launches as many blocks as there could be tiles.
#pragma once

#include "cuda/kernels/head_tiles.cuh"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/philox.cuh"
#include "layout/sequence.hpp"

#include <algorithm>
#include <cstdint>

namespace lockstep::cuda {

/// The parts of rows that one rank has of each segment: starts of segments, which have one part, or parts, two each.
struct RowParts {
  const std::int64_t* starts = nullptr;
  const SequencePart* parts = nullptr;
  std::int64_t count = 0;  // of parts
  std::int64_t each = 1;   // parts of a segment

  __device__ SequencePart operator[](std::int64_t i) const {
    if (parts != nullptr) return {parts[i].row, parts[i].length, parts[i].first};
    return {starts[i], starts[i + 1] - starts[i], 0};
  }
};

/// tiles_before (count + 1) = the tiles of earlier parts. One block.
static __global__ void __launch_bounds__(256, 1) count_tiles(RowParts parts, int side, std::int64_t* tiles_before) {
  LOCKSTEP_SHARED(std::int64_t, of_threads, 256);
  const std::int64_t each = (parts.count + 255) / 256, first = threadIdx.x * each;
  const std::int64_t last = std::min(parts.count, first + each);
  std::int64_t tiles = 0;
  for (std::int64_t i = first; i < last; ++i) tiles += (parts[i].length + side - 1) / side;
  of_threads[threadIdx.x] = tiles;
  __syncthreads();
  std::int64_t before = 0;
  for (unsigned t = 0; t < threadIdx.x; ++t) before += of_threads[t];
  for (std::int64_t i = first; i < last; ++i) {
    tiles_before[i] = before;
    before += (parts[i].length + side - 1) / side;
  }
  if (threadIdx.x == 255) tiles_before[parts.count] = before;
}

/// A tile of rows: where they lie, and their indices in their segment.
struct TilePlace {
  std::int64_t row = 0, index = 0, segment = 0;
  int count = 0;  // 0: there is no such tile

  __device__ TilePlace(const RowParts& parts, const std::int64_t* tiles_before, std::int64_t tile, int side) {
    if (tile >= tiles_before[parts.count]) return;
    std::int64_t low = 0, high = parts.count - 1;  // the last part with no more tiles before it
    while (low < high) {
      const std::int64_t middle = (low + high + 1) / 2;
      if (tiles_before[middle] <= tile)
        low = middle;
      else
        high = middle - 1;
    }
    const SequencePart part = parts[low];
    const std::int64_t at = (tile - tiles_before[low]) * side;
    row = part.row + at;
    index = part.first + at;
    segment = low / parts.each;
    count = static_cast<int>(std::min<std::int64_t>(side, part.length - at));
  }
};

/// Rows [row, row + count) that begin at an index of their segment.
struct TileRows {
  std::int64_t row, index;
  int count;
};

/// Calls body(tile) for the tiles of a segment's parts with indices [begin, end).
template <class Body>
__device__ void over_tiles(const RowParts& parts, std::int64_t segment, std::int64_t begin, std::int64_t end, int side,
                           const Body& body) {
  for (std::int64_t i = segment * parts.each; i < (segment + 1) * parts.each; ++i) {
    const SequencePart part = parts[i];
    const std::int64_t last = std::min(end, part.first + part.length);
    for (std::int64_t index = std::max(begin, part.first); index < last; index += side)
      body(
          TileRows{part.row + index - part.first, index, static_cast<int>(std::min<std::int64_t>(side, last - index))});
  }
}

/// Queries and keys that meet in a pair of tiles.
struct TilePair {
  TileRows queries, keys;
  std::int64_t window;

  __device__ bool sees(int row, int column) const {
    const std::int64_t distance = queries.index + row - (keys.index + column);
    return row < queries.count && column < keys.count && distance >= 0 && (window == 0 || distance < window);
  }
};

/// Dropout of probabilities.
struct DrawnDropout {
  DrawnMask mask;
  const Place* places;  // of queries
  std::int64_t first_head;

  __device__ bool drops() const { return mask.threshold != 0; }
};

/// The factors of dropout in a pair of tiles of one head, as bits in shared memory.
template <int R>
struct DropBits {
  static constexpr int side = tile_side * R, blocks = side / 8 + 1;
  static constexpr int bytes = side * blocks;
  unsigned char* bits;
  int offset;  // of the first key in the first block of 8

  /// Draws the bits. A barrier must follow.
  __device__ void draw(const DrawnDropout& dropout, const TilePair& pair, std::int64_t head) {
    // Keys of a segment are consecutive in their row, and the place of a query is that of the key beside it.
    const std::int64_t index = index_in_row(dropout.places[pair.queries.row]) - pair.queries.index + pair.keys.index;
    offset = static_cast<int>(index % 8);
    for (int i = static_cast<int>(threadIdx.x); i < bytes; i += tile_threads) {
      const int row = i / blocks, block = i % blocks;
      const Place place = row < pair.queries.count ? dropout.places[pair.queries.row + row] : -1;
      const std::uint32_t kept =
          place < 0 ? 0xffu : dropout.mask.kept(place, dropout.first_head + head, index / 8 + block);
      bits[i] = static_cast<unsigned char>(kept);
    }
  }
  /// The number that a probability is multiplied with.
  template <class M>
  __device__ M factor(const DrawnDropout& dropout, const TilePair& pair, int row, int column) const {
    if (row >= pair.queries.count || dropout.places[pair.queries.row + row] < 0) return 1;
    const int at = offset + column;
    return (bits[row * blocks + at / 8] >> (at % 8) & 1) != 0 ? static_cast<M>(dropout.mask.scale) : M{0};
  }
};

}  // namespace lockstep::cuda
