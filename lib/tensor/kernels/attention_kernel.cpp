#include "tensor/kernels/attention_kernel.hpp"

#include "tensor/kernels/attention_tiles.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lockstep {

namespace {

/// The place of one (segment, key head) in the batch.
struct Task {
  std::int64_t begin, length, kv_head;
};

Task task_at(std::int64_t index, const AttentionShape& shape, Segments segments) {
  const std::int64_t segment = index / shape.kv_heads;
  return {segments.starts[segment], segments.starts[segment + 1] - segments.starts[segment], index % shape.kv_heads};
}

std::int64_t longest(Segments segments) {
  std::int64_t length = 0;
  for (std::int64_t s = 0; s < segments.count; ++s)
    length = std::max(length, segments.starts[s + 1] - segments.starts[s]);
  return length;
}

/// Of the tile of queries from `first` on.
template <class M>
void drop(const AttentionDropout& dropout, const Task& task, std::int64_t first, const VisibleKeys& seen,
          std::int64_t head, M* scores) {
  if (!dropout.mask) return;
  const Place* const places = dropout.places + task.begin;
  drop_scores(dropout, places + first, index_in_row(places[0]) + seen.begin, seen, head, scores);
}

template <class T>
void attend(const Task& task, const T* qkv, const AttentionShape& shape, Rotation<Math<T>> rotation,
            const std::int32_t* positions, T* y, Math<T>* log_sums, AttentionWorkspace<Math<T>>& work,
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
      const VisibleKeys seen(first, rows, task.length, shape);
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
                   Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                   AttentionWorkspace<Math<T>>& work, AttentionWorkspace<Math<T>>& gradient,
                   TileProducts<Math<T>>& keys, TileProducts<Math<T>>& values, const AttentionDropout& dropout) {
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
      const VisibleKeys seen(first, rows, task.length, shape);
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

template <class T>
void attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<Math<T>> rotation,
                       const std::int32_t* positions, T* y, Math<T>* log_sums, const AttentionDropout& dropout) {
  const std::int64_t length = longest(segments);
  parallel_for(segments.count * shape.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    AttentionWorkspace<Math<T>> work(length, shape.head_size);
    TileProducts<Math<T>> keys(length, shape.head_size), values(length, shape.head_size);
    for (std::int64_t t = begin; t < end; ++t)
      attend<T>(task_at(t, shape, segments), qkv, shape, rotation, positions, y, log_sums, work, keys, values, dropout);
  });
}

template <class T>
void attention_backward(const T* dy, const T* qkv, const T*, const Math<T>* log_sums, const AttentionShape& shape,
                        Segments segments, Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                        const AttentionDropout& dropout) {
  const std::int64_t length = longest(segments);
  parallel_for(segments.count * shape.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    AttentionWorkspace<Math<T>> work(length, shape.head_size), gradient(length, shape.head_size);
    TileProducts<Math<T>> keys(length, shape.head_size), values(length, shape.head_size);
    for (std::int64_t t = begin; t < end; ++t) {
      differentiate<T>(task_at(t, shape, segments), dy, qkv, log_sums, shape, rotation, positions, dqkv, work, gradient,
                       keys, values, dropout);
    }
  });
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                      \
  template void attention_forward<T>(const T*, const AttentionShape&, Segments, Rotation<Math<T>>,                   \
                                     const std::int32_t*, T*, Math<T>*, const AttentionDropout&);                    \
  template void attention_backward<T>(const T*, const T*, const T*, const Math<T>*, const AttentionShape&, Segments, \
                                      Rotation<Math<T>>, const std::int32_t*, T*, const AttentionDropout&);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
