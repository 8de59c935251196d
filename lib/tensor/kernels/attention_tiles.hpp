// Attention on tiles of one head, by one thread: packing and unpacking rows of a head, and products of a tile of
// queries with keys and values. Shared by the attention kernels of this folder.
#pragma once

#include "architecture/attention_scratch.hpp"
#include "tensor/gemm.hpp"
#include "tensor/kernels/attention_kernel.hpp"
#include "tensor/kernels/causal_products.hpp"
#include "tensor/kernels/causal_softmax.hpp"
#include "tensor/live_memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lockstep {

/// Packs one head of `length` rows, `stride` elements apart, to a matrix (length, D) in the math type, scaled and, with
/// a rotation, rotated.
template <class T>
void pack_head(const T* rows, std::int64_t stride, std::int64_t length, std::int64_t head_size,
               Rotation<Math<T>> rotation, const std::int32_t* positions, Math<T> scale, Math<T>* out);
/// The inverse for gradients: rotated back, scaled, rounded to T.
template <class T>
void unpack_head(const Math<T>* in, std::int64_t length, std::int64_t head_size, Rotation<Math<T>> rotation,
                 const std::int32_t* positions, Math<T> scale, T* rows, std::int64_t stride);
/// out (rows, columns) = in times the scale of each row, rounded to T.
template <class T>
void store_rows(const Math<T>* in, const Math<T>* scales, std::int64_t rows, std::int64_t columns, T* out,
                std::int64_t stride);

/// A tile of queries and the keys that they attend to. `first` is the index of its first query, counted from the first
/// of `keys` consecutive keys. Keys before `begin` lie outside all windows of the tile and are skipped; `begin` is a
/// multiple of a vector's length.
struct VisibleKeys {
  VisibleKeys(std::int64_t first, std::int64_t rows, std::int64_t keys, const AttentionShape& shape)
      : window(shape.window > 0 ? shape.window : all_keys),
        begin(std::min(hidden_keys(first, window), keys) / vector_keys * vector_keys),
        width(std::min(first + rows, keys) - begin),
        tile{first - begin, rows, shape.head_size, stride_of(width), window, width} {}
  CausalRows rows() const { return {tile.first, tile.rows, width, tile.score_stride, window}; }
  std::int64_t window, begin, width;
  CausalTile tile;
};

/// Scratch memory of one thread for up to `length` keys; attention_scratch knows its size.
template <class M>
class AttentionWorkspace {
 public:
  AttentionWorkspace(std::int64_t length, std::int64_t head_size)
      : keys(size(length, head_size)),
        values(keys.size()),
        queries(size(tile_rows, head_size)),
        outputs(queries.size()),
        scores(size(tile_rows, stride_of(length))),
        sums(tile_rows) {}
  static std::size_t size(std::int64_t rows, std::int64_t columns) { return static_cast<std::size_t>(rows * columns); }
  ScratchVector<M> keys, values, queries, outputs, scores, sums;
};

/// Products of tiles with one factor (length, D) of a head, its keys or its values: by AVX-512 kernels if the processor
/// has them, else of whole tiles.
template <class M>
class TileProducts {
 public:
  TileProducts(std::int64_t length, std::int64_t head_size) : head_size_(head_size) {
    if constexpr (std::is_same_v<M, float>) {
      if (!has_causal_products(head_size)) return;
      constexpr std::size_t granule = turned_alignment / sizeof(float);
      memory_.resize(static_cast<std::size_t>(turned_bytes(length, head_size, sizeof(float))) / sizeof(float));
      const auto past = reinterpret_cast<std::uintptr_t>(memory_.data()) % turned_alignment / sizeof(float);
      turned_ = memory_.data() + (granule - past) % granule;
    }
  }
  TileProducts(const TileProducts&) = delete;
  TileProducts& operator=(const TileProducts&) = delete;

  void set(const M* matrix, std::int64_t length) {
    matrix_ = matrix;
    if constexpr (std::is_same_v<M, float>) {
      if (turned_) turn_rows(matrix, length, head_size_, turned_);
    }
  }
  // These use the factor's rows from `begin`, a multiple of 16, which is the first key of the tile.
  /// scores = x · factorᵀ at visible positions.
  void score(const CausalTile& tile, std::int64_t begin, const M* x, M* scores) const {
    if constexpr (std::is_same_v<M, float>) {
      if (turned_) return causal_scores(tile, x, turned_ + begin * head_size_, scores);
    }
    gemm(tile.rows, tile.width(), head_size_, 1, MatrixView<M>{x, head_size_},
         MatrixView<M>{matrix_ + begin * head_size_, head_size_, Trans::yes}, 0, scores, tile.score_stride);
  }
  /// y = p · factor.
  void combine(const CausalTile& tile, std::int64_t begin, const M* p, M* y) const {
    const M* const matrix = matrix_ + begin * head_size_;
    if constexpr (std::is_same_v<M, float>) {
      if (turned_) return causal_combine(tile, p, matrix, y);
    }
    gemm(tile.rows, head_size_, tile.width(), 1, MatrixView<M>{p, tile.score_stride}, MatrixView<M>{matrix, head_size_},
         0, y, head_size_);
  }
  /// y += pᵀ · x: the gradient of the factor.
  void spread(const CausalTile& tile, std::int64_t begin, const M* p, const M* x, M* factor_gradient) const {
    M* const y = factor_gradient + begin * head_size_;
    if constexpr (std::is_same_v<M, float>) {
      if (turned_) return causal_spread(tile, p, x, y);
    }
    gemm(tile.width(), head_size_, tile.rows, 1, MatrixView<M>{p, tile.score_stride, Trans::yes},
         MatrixView<M>{x, head_size_}, 1, y, head_size_);
  }

 private:
  std::int64_t head_size_;
  const M* matrix_ = nullptr;
  ScratchVector<M> memory_;
  M* turned_ = nullptr;  // aligned, within memory_; nullptr: products of whole tiles
};

/// Applies dropout to a tile of scores of one head, for queries at `places`. `key` is the index of the tile's first key
/// in the row of the sample.
template <class M>
void drop_scores(const AttentionDropout& dropout, const Place* places, std::int64_t key, const VisibleKeys& seen,
                 std::int64_t head, M* scores) {
  if (!dropout.mask) return;
  for (std::int64_t r = 0; r < seen.tile.rows; ++r) {
    const std::int64_t hidden = std::min(hidden_keys(seen.tile.first + r, seen.window), seen.width);
    const std::int64_t end = std::min(seen.tile.first + r + 1, seen.width);
    dropout_keys(dropout.mask, places[r], dropout.first_head + head, key + hidden, end - hidden,
                 scores + r * seen.tile.score_stride + hidden);
  }
}

}  // namespace lockstep
