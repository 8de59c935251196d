#include "tensor/kernels/attention_kernel.hpp"

#include "tensor/gemm.hpp"
#include "tensor/kernels/causal_products.hpp"
#include "tensor/kernels/causal_softmax.hpp"
#include "tensor/kernels/wide.hpp"
#include "tensor/live_memory.hpp"
#include "tensor/parallel.hpp"

#include <cstdint>
#include <type_traits>

namespace lockstep {

namespace {

constexpr std::int64_t vector_keys = 16;  // scores of a row stand in whole vectors
constexpr std::int64_t tile_rows = 64;    // queries whose scores against all earlier keys are held at once

#ifdef LOCKSTEP_INTRINSICS
/// `to` (rows, columns) = from · scale, rounded where it is bf16.
template <class From, class To>
LOCKSTEP_WIDE void scale_wide(const From* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                              float scale, To* to, std::int64_t to_stride) {
  for (std::int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    for (std::int64_t c = 0; c < columns; c += wide_lanes) {
      const __mmask16 lanes = lanes_of(columns - c);
      store_wide(to + c, lanes, _mm512_mul_ps(load_wide(from + c, lanes), _mm512_set1_ps(scale)));
    }
  }
}
#else
template <class From, class To>
void scale_wide(const From*, std::int64_t, std::int64_t, std::int64_t, float, To*, std::int64_t) {}
#endif

/// One head of one segment as a matrix (length, D) in the math type, scaled and, with a rotation, turned.
template <class T>
LOCKSTEP_CLONES void pack_rows(const T* rows, std::int64_t stride, std::int64_t length, std::int64_t head_size,
                               Rotation<Math<T>> rotation, const std::int32_t* positions, Math<T> scale, Math<T>* out) {
  using M = Math<T>;
  const std::int64_t half = head_size / 2;
  for (std::int64_t r = 0; r < length; ++r) {
    const T* in = rows + r * stride;
    M* target = out + r * head_size;
    if (rotation.cosine) {
      const M* cosine = rotation.cosine + positions[r] * half;
      const M* sine = rotation.sine + positions[r] * half;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const M first = load(in[i]) * scale, second = load(in[i + half]) * scale;
        target[i] = first * cosine[i] - second * sine[i];
        target[i + half] = second * cosine[i] + first * sine[i];
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < head_size; ++i) target[i] = load(in[i]) * scale;
    }
  }
}

/// The inverse way for gradients: turned back, scaled, rounded to T.
template <class T>
LOCKSTEP_CLONES void unpack_rows(const Math<T>* in, std::int64_t length, std::int64_t head_size,
                                 Rotation<Math<T>> rotation, const std::int32_t* positions, Math<T> scale, T* rows,
                                 std::int64_t stride) {
  using M = Math<T>;
  const std::int64_t half = head_size / 2;
  for (std::int64_t r = 0; r < length; ++r) {
    const M* source = in + r * head_size;
    T* out = rows + r * stride;
    if (rotation.cosine) {
      const M* cosine = rotation.cosine + positions[r] * half;
      const M* sine = rotation.sine + positions[r] * half;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const M first = source[i] * scale, second = source[i + half] * scale;
        store(out[i], first * cosine[i] + second * sine[i]);
        store(out[i + half], second * cosine[i] - first * sine[i]);
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < head_size; ++i) store(out[i], source[i] * scale);
    }
  }
}

template <class T>
void pack_head(const T* rows, std::int64_t stride, std::int64_t length, std::int64_t head_size,
               Rotation<Math<T>> rotation, const std::int32_t* positions, Math<T> scale, Math<T>* out) {
  if constexpr (std::is_same_v<Math<T>, float>) {
    if (!rotation.cosine && is_wide()) return scale_wide(rows, stride, length, head_size, scale, out, head_size);
  }
  pack_rows<T>(rows, stride, length, head_size, rotation, positions, scale, out);
}

template <class T>
void unpack_head(const Math<T>* in, std::int64_t length, std::int64_t head_size, Rotation<Math<T>> rotation,
                 const std::int32_t* positions, Math<T> scale, T* rows, std::int64_t stride) {
  if constexpr (std::is_same_v<Math<T>, float>) {
    if (!rotation.cosine && is_wide()) return scale_wide(in, head_size, length, head_size, scale, rows, stride);
  }
  unpack_rows<T>(in, length, head_size, rotation, positions, scale, rows, stride);
}

template <class T>
LOCKSTEP_CLONES void store_rows(const Math<T>* in, const Math<T>* scales, std::int64_t rows, std::int64_t columns,
                                T* out, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) store(out[r * stride + c], in[r * columns + c] * scales[r]);
  }
}

constexpr std::int64_t stride_of(std::int64_t width) { return (width + vector_keys - 1) / vector_keys * vector_keys; }

/// The place of one (segment, key head) in the batch.
struct Task {
  std::int64_t begin, length, kv_head;
};

Task task_at(std::int64_t index, const AttentionShape& shape, Segments segments) {
  const std::int64_t segment = index / shape.kv_heads;
  return {segments.starts[segment], segments.starts[segment + 1] - segments.starts[segment], index % shape.kv_heads};
}

/// The queries [first, first + rows) of a segment and the keys that they see, from `begin` on: whole vectors that lie
/// before all their windows are left out.
struct Seen {
  Seen(std::int64_t first, std::int64_t rows, const AttentionShape& shape)
      : window(shape.window > 0 ? shape.window : all_keys),
        begin(hidden_keys(first, window) / vector_keys * vector_keys),
        width(first + rows - begin),
        tile{first - begin, rows, shape.head_size, stride_of(width), window} {}
  CausalRows rows() const { return {tile.first, tile.rows, width, tile.score_stride, window}; }
  std::int64_t window, begin, width;
  CausalTile tile;
};

std::int64_t longest(Segments segments) {
  std::int64_t length = 0;
  for (std::int64_t s = 0; s < segments.count; ++s)
    length = std::max(length, segments.starts[s + 1] - segments.starts[s]);
  return length;
}

template <class M>
class Workspace {  // one thread's scratch memory for segments up to `length`
 public:
  static std::int64_t elements(std::int64_t length, std::int64_t head_size) {
    return 2 * (length + tile_rows) * head_size + tile_rows * (stride_of(length) + 1);
  }
  Workspace(std::int64_t length, std::int64_t head_size)
      : keys(size(length, head_size)),
        values(keys.size()),
        queries(size(tile_rows, head_size)),
        outputs(queries.size()),
        scores(size(tile_rows, stride_of(length))),
        sums(tile_rows) {}
  static std::size_t size(std::int64_t rows, std::int64_t columns) { return static_cast<std::size_t>(rows * columns); }
  ScratchVector<M> keys, values, queries, outputs, scores, sums;
};

/// Of TileProducts, where they turn their factor.
std::int64_t turned_bytes(std::int64_t length, std::int64_t head_size, std::int64_t number_bytes) {
  if (number_bytes != sizeof(float) || !fills_vectors(head_size)) return 0;
  return turned_elements(length, head_size) * number_bytes + turned_alignment;
}

/// Products of tiles with one factor (length, D) of a head, its keys or its values: by vectors where the processor has
/// them, else of whole tiles.
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
  // Of the factor's rows from `begin`, a multiple of 16, which is the first of the tile's keys.
  /// scores = x · factorᵀ, where they are visible.
  void score(const CausalTile& tile, std::int64_t begin, const M* x, M* scores) const {
    if constexpr (std::is_same_v<M, float>) {
      if (turned_) return causal_scores(tile, x, turned_ + begin * head_size_, scores);
    }
    gemm(tile.rows, tile.first + tile.rows, head_size_, 1, MatrixView<M>{x, head_size_},
         MatrixView<M>{matrix_ + begin * head_size_, head_size_, Trans::yes}, 0, scores, tile.score_stride);
  }
  /// y = p · factor.
  void combine(const CausalTile& tile, std::int64_t begin, const M* p, M* y) const {
    const M* const matrix = matrix_ + begin * head_size_;
    if constexpr (std::is_same_v<M, float>) {
      if (turned_) return causal_combine(tile, p, matrix, y);
    }
    gemm(tile.rows, head_size_, tile.first + tile.rows, 1, MatrixView<M>{p, tile.score_stride},
         MatrixView<M>{matrix, head_size_}, 0, y, head_size_);
  }
  /// y += pᵀ · x: the gradient of the factor.
  void spread(const CausalTile& tile, std::int64_t begin, const M* p, const M* x, M* factor_gradient) const {
    M* const y = factor_gradient + begin * head_size_;
    if constexpr (std::is_same_v<M, float>) {
      if (turned_) return causal_spread(tile, p, x, y);
    }
    gemm(tile.first + tile.rows, head_size_, tile.rows, 1, MatrixView<M>{p, tile.score_stride, Trans::yes},
         MatrixView<M>{x, head_size_}, 1, y, head_size_);
  }

 private:
  std::int64_t head_size_;
  const M* matrix_ = nullptr;
  ScratchVector<M> memory_;
  M* turned_ = nullptr;  // in it, aligned; nullptr: products of whole tiles
};

/// Drops from a tile of scores (queries first, first + 1, … of a segment), of one head.
template <class M>
void drop(const AttentionDropout& dropout, const Task& task, std::int64_t first, const Seen& seen, std::int64_t head,
          M* scores) {
  if (!dropout.mask) return;
  const Place* const places = dropout.places + task.begin;
  for (std::int64_t r = 0; r < seen.tile.rows; ++r) {
    const std::int64_t query = first + r, key = std::max(seen.begin, hidden_keys(query, seen.window));
    const auto index = static_cast<std::int64_t>(static_cast<std::uint32_t>(places[0])) + key;
    dropout_keys(dropout.mask, places[query], dropout.first_head + head, index, query + 1 - key,
                 scores + r * seen.tile.score_stride + key - seen.begin);
  }
}

template <class T>
void attend(const Task& task, const T* qkv, const AttentionShape& shape, Rotation<Math<T>> rotation,
            const std::int32_t* positions, T* y, Math<T>* log_sums, Workspace<Math<T>>& work,
            TileProducts<Math<T>>& keys, TileProducts<Math<T>>& values, const AttentionDropout& dropout) {
  using M = Math<T>;
  const std::int64_t size = shape.head_size, stride = shape.width(), group = shape.heads / shape.kv_heads;
  const T* const tokens = qkv + task.begin * stride;
  const std::int32_t* const places = rotation.cosine ? positions + task.begin : nullptr;
  pack_head<T>(tokens + (shape.heads + task.kv_head) * size, stride, task.length, size, rotation, places, M{1},
               work.keys.data());
  pack_head<T>(tokens + (shape.heads + shape.kv_heads + task.kv_head) * size, stride, task.length, size, {}, nullptr,
               M{1}, work.values.data());
  keys.set(work.keys.data(), task.length);
  values.set(work.values.data(), task.length);
  const M scale = static_cast<M>(1 / std::sqrt(static_cast<double>(size)));
  for (std::int64_t head = task.kv_head * group; head < (task.kv_head + 1) * group; ++head) {
    for (std::int64_t first = 0; first < task.length; first += tile_rows) {
      const std::int64_t rows = std::min(tile_rows, task.length - first);
      pack_head<T>(tokens + first * stride + head * size, stride, rows, size, rotation,
                   places ? places + first : nullptr, scale, work.queries.data());
      const Seen seen(first, rows, shape);
      keys.score(seen.tile, seen.begin, work.queries.data(), work.scores.data());
      causal_softmax<M>(seen.rows(), work.scores.data(), work.sums.data(),
                        log_sums + (task.begin + first) * shape.heads + head, shape.heads);
      drop(dropout, task, first, seen, head, work.scores.data());
      values.combine(seen.tile, seen.begin, work.scores.data(), work.outputs.data());
      store_rows<T>(work.outputs.data(), work.sums.data(), rows, size,
                    y + (task.begin + first) * shape.heads * size + head * size, shape.heads * size);
    }
  }
}

template <class T>
void differentiate(const Task& task, const T* dy, const T* qkv, const Math<T>* log_sums, const AttentionShape& shape,
                   Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv, Workspace<Math<T>>& work,
                   Workspace<Math<T>>& gradient, TileProducts<Math<T>>& keys, TileProducts<Math<T>>& values,
                   const AttentionDropout& dropout) {
  using M = Math<T>;
  const std::int64_t size = shape.head_size, stride = shape.width(), group = shape.heads / shape.kv_heads;
  const std::int64_t key_offset = (shape.heads + task.kv_head) * size,
                     value_offset = key_offset + shape.kv_heads * size;
  const T* const tokens = qkv + task.begin * stride;
  T* const dtokens = dqkv + task.begin * stride;
  const std::int32_t* const places = rotation.cosine ? positions + task.begin : nullptr;
  pack_head<T>(tokens + key_offset, stride, task.length, size, rotation, places, M{1}, work.keys.data());
  pack_head<T>(tokens + value_offset, stride, task.length, size, {}, nullptr, M{1}, work.values.data());
  keys.set(work.keys.data(), task.length);
  values.set(work.values.data(), task.length);
  std::fill_n(gradient.keys.begin(), task.length * size, M{0});
  std::fill_n(gradient.values.begin(), task.length * size, M{0});
  const M scale = static_cast<M>(1 / std::sqrt(static_cast<double>(size)));
  for (std::int64_t head = task.kv_head * group; head < (task.kv_head + 1) * group; ++head) {
    for (std::int64_t first = 0; first < task.length; first += tile_rows) {
      const std::int64_t rows = std::min(tile_rows, task.length - first);
      const std::int32_t* const tile_places = places ? places + first : nullptr;
      M* const scores = work.scores.data();
      M* const dscores = gradient.scores.data();
      pack_head<T>(tokens + first * stride + head * size, stride, rows, size, rotation, tile_places, scale,
                   work.queries.data());
      pack_head<T>(dy + (task.begin + first) * shape.heads * size + head * size, shape.heads * size, rows, size, {},
                   nullptr, M{1}, gradient.outputs.data());
      const Seen seen(first, rows, shape);
      keys.score(seen.tile, seen.begin, work.queries.data(), scores);
      values.score(seen.tile, seen.begin, gradient.outputs.data(), dscores);
      drop(dropout, task, first, seen, head, dscores);
      causal_softmax_backward<M>(seen.rows(), scores, dscores, log_sums + (task.begin + first) * shape.heads + head,
                                 shape.heads);
      drop(dropout, task, first, seen, head, scores);
      values.spread(seen.tile, seen.begin, scores, gradient.outputs.data(), gradient.values.data());
      keys.spread(seen.tile, seen.begin, dscores, work.queries.data(), gradient.keys.data());
      keys.combine(seen.tile, seen.begin, dscores, gradient.queries.data());
      unpack_head<T>(gradient.queries.data(), rows, size, rotation, tile_places, scale,
                     dtokens + first * stride + head * size, stride);
    }
  }
  unpack_head<T>(gradient.keys.data(), task.length, size, rotation, places, M{1}, dtokens + key_offset, stride);
  unpack_head<T>(gradient.values.data(), task.length, size, {}, nullptr, M{1}, dtokens + value_offset, stride);
}

}  // namespace

std::int64_t attention_forward_scratch_bytes(std::int64_t length, std::int64_t head_size, std::int64_t number_bytes) {
  return number_bytes * Workspace<float>::elements(length, head_size) +
         2 * turned_bytes(length, head_size, number_bytes);
}

std::int64_t attention_backward_scratch_bytes(std::int64_t length, std::int64_t head_size, std::int64_t number_bytes) {
  return number_bytes * 2 * Workspace<float>::elements(length, head_size) +
         2 * turned_bytes(length, head_size, number_bytes);
}

template <class T>
void attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<Math<T>> rotation,
                       const std::int32_t* positions, T* y, Math<T>* log_sums, const AttentionDropout& dropout) {
  const std::int64_t length = longest(segments);
  parallel_for(segments.count * shape.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    Workspace<Math<T>> work(length, shape.head_size);
    TileProducts<Math<T>> keys(length, shape.head_size), values(length, shape.head_size);
    for (std::int64_t t = begin; t < end; ++t)
      attend<T>(task_at(t, shape, segments), qkv, shape, rotation, positions, y, log_sums, work, keys, values, dropout);
  });
}

template <class T>
void attention_backward(const T* dy, const T* qkv, const Math<T>* log_sums, const AttentionShape& shape,
                        Segments segments, Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                        const AttentionDropout& dropout) {
  const std::int64_t length = longest(segments);
  parallel_for(segments.count * shape.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    Workspace<Math<T>> work(length, shape.head_size), gradient(length, shape.head_size);
    TileProducts<Math<T>> keys(length, shape.head_size), values(length, shape.head_size);
    for (std::int64_t t = begin; t < end; ++t) {
      differentiate<T>(task_at(t, shape, segments), dy, qkv, log_sums, shape, rotation, positions, dqkv, work, gradient,
                       keys, values, dropout);
    }
  });
}

#define LOCKSTEP_INSTANTIATE(T)                                                                            \
  template void attention_forward<T>(const T*, const AttentionShape&, Segments, Rotation<Math<T>>,         \
                                     const std::int32_t*, T*, Math<T>*, const AttentionDropout&);          \
  template void attention_backward<T>(const T*, const T*, const Math<T>*, const AttentionShape&, Segments, \
                                      Rotation<Math<T>>, const std::int32_t*, T*, const AttentionDropout&);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
