#include "cuda/kernels/causal_attention.hpp"

#include "cuda/kernels/attend.cuh"
#include "cuda/kernels/attend_backward.cuh"
#include "cuda/kernels/ring_steps.hpp"

#include <cmath>

namespace lockstep::cuda {

namespace {

/// Calls body with the rows and columns of a thread for heads of this size, as in cuda/kernels/head_tiles.cuh.
template <int small, int middle, int large, class Body>
void with_tile_size(std::int64_t head_size, const Body& body) {
  if (head_size <= 64) return body(std::integral_constant<int, small>{}, std::integral_constant<int, 4>{});
  if (head_size <= 128) return body(std::integral_constant<int, middle>{}, std::integral_constant<int, 8>{});
  if (head_size > 256) check_launch(invalid_launch);
  body(std::integral_constant<int, large>{}, std::integral_constant<int, 16>{});
}

/// A batch or a step of a ring, as the host knows it.
template <class T>
struct Attended {
  using M = Math<T>;
  AttentionCall<M> call;
  std::int64_t rows;  // N

  static Attended of_batch(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<M> rotation,
                           const std::int32_t* positions, const AttentionDropout& dropout) {
    const RowParts parts{segments.starts, nullptr, segments.count, 1};
    const std::int64_t size = shape.head_size, width = shape.width();
    const auto matrix = [&](std::int64_t head) {
      return HeadMatrix<M>{{qkv, stored_as<T>}, width, head * size, positions};
    };
    return {base(shape, parts, parts, matrix(0), matrix(shape.heads), matrix(shape.heads + shape.kv_heads), rotation,
                 dropout),
            segments.tokens};
  }
  static Attended of_step(const RingStep& step, const T* qkv, const T* kv, Rotation<M> rotation,
                          const AttentionDropout& dropout) {
    const AttentionShape& shape = step.shape;
    const std::int64_t count = 2 * step.segments, around = 2 * shape.kv_heads * shape.head_size;
    const HeadMatrix<M> queries{{qkv, stored_as<T>}, shape.width(), 0, step.own.positions};
    const auto matrix = [&](std::int64_t head) {
      return HeadMatrix<M>{{kv, stored_as<T>}, around, head * shape.head_size, step.theirs.positions};
    };
    return {base(shape, {nullptr, step.own.parts, count, 2}, {nullptr, step.theirs.parts, count, 2}, queries, matrix(0),
                 matrix(shape.kv_heads), rotation, dropout),
            step.rows};
  }
  static AttentionCall<M> base(const AttentionShape& shape, const RowParts& query_parts, const RowParts& key_parts,
                               const HeadMatrix<M>& queries, const HeadMatrix<M>& keys, const HeadMatrix<M>& values,
                               Rotation<M> rotation, const AttentionDropout& dropout) {
    return {shape,
            query_parts,
            key_parts,
            nullptr,
            nullptr,
            queries,
            keys,
            values,
            rotation,
            {drawn_mask(dropout.mask), dropout.places, dropout.first_head},
            static_cast<M>(1 / std::sqrt(static_cast<double>(shape.head_size)))};
  }

  /// Counts the tiles of `side` rows, and takes `more` bytes beside their numbers. Returns the most that there can be.
  std::int64_t count(int side, std::int64_t more, void** beside) {
    const std::int64_t entries = call.query_parts.count + 1;
    auto* const tiles = static_cast<std::int64_t*>(kernel_scratch(static_cast<std::size_t>(2 * entries * 8 + more)));
    call.query_tiles = tiles;
    call.key_tiles = tiles + entries;
    if (beside != nullptr) *beside = tiles + 2 * entries;
    launch(count_tiles, 1, 256, 0, call.query_parts, side, tiles);
    launch(count_tiles, 1, 256, 0, call.key_parts, side, tiles + entries);
    return rows / side + call.query_parts.count;
  }
  template <int R>
  std::size_t shared_bytes(int row_tiles) const {
    const auto size = static_cast<int>(call.shape.head_size);
    const int values = row_tiles * row_tile_size<M, R>(size) + score_tile_size<M, R>();
    return static_cast<std::size_t>(values) * sizeof(M) + (call.dropout.mask.threshold != 0 ? DropBits<R>::bytes : 0);
  }

  void forward(const AttentionResults<M>& results) {
    if (call.query_parts.count == 0) return;
    constexpr int most = sizeof(M) == 4 ? 4 : 2;  // rows of a thread: shared memory limits them
    with_tile_size<most, most, most / 2>(call.shape.head_size, [&](auto rows_of_thread, auto columns) {
      constexpr int R = decltype(rows_of_thread)::value, C = decltype(columns)::value;
      const std::int64_t tiles = count(tile_side * R, 0, nullptr);
      launch(attend<M, R, C>, tiles * call.shape.heads, tile_threads, shared_bytes<R>(2), call, tiles, results);
    });
  }
  void backward(AttentionGradients<M> gradients) {
    if (call.query_parts.count == 0) return;
    constexpr int most = sizeof(M) == 4 ? 4 : 2;
    with_tile_size<most, most / 2, 1>(call.shape.head_size, [&](auto rows_of_thread, auto columns) {
      constexpr int R = decltype(rows_of_thread)::value, C = decltype(columns)::value;
      const bool is_ring = gradients.query_sums != nullptr;
      const std::int64_t more = is_ring ? 0 : rows * call.shape.heads * static_cast<std::int64_t>(sizeof(M));
      void* products = nullptr;
      const std::int64_t tiles = count(tile_side * R, more, &products);
      if (!is_ring) gradients.products = static_cast<M*>(products);
      const std::size_t bytes = shared_bytes<R>(4);
      launch(attend_backward_queries<M, R, C>, tiles * call.shape.heads, tile_threads, bytes, call, gradients, tiles);
      launch(attend_backward_keys<M, R, C>, tiles * call.shape.kv_heads, tile_threads, bytes, call, gradients);
    });
  }
};

}  // namespace

template <class T>
void attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<Math<T>> rotation,
                       const std::int32_t* positions, T* y, Math<T>* log_sums, const AttentionDropout& dropout) {
  Attended<T>::of_batch(qkv, shape, segments, rotation, positions, dropout)
      .forward({{y, stored_as<T>}, nullptr, 0, log_sums});
}

template <class T>
void attention_backward(const T* dy, const T* qkv, const T*, const Math<T>* log_sums, const AttentionShape& shape,
                        Segments segments, Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                        const AttentionDropout& dropout) {
  Attended<T>::of_batch(qkv, shape, segments, rotation, positions, dropout)
      .backward({{dy, stored_as<T>}, {dqkv, stored_as<T>}, log_sums, nullptr, nullptr, nullptr, 0});
}

template <class T>
void ring_attention_forward(const RingStep& step, const T* qkv, const T* kv, Rotation<Math<T>> rotation, Math<T>* y,
                            Math<T>* log_sums, const AttentionDropout& dropout) {
  Attended<T>::of_step(step, qkv, kv, rotation, dropout).forward({{nullptr, stored_as<T>}, y, step.rows, log_sums});
}

template <class T>
void ring_attention_backward(const RingStep& step, const T* dy, const T* qkv, const T* kv, Rotation<Math<T>> rotation,
                             const Math<T>* log_sums, const Math<T>* products, Math<T>* dq, Math<T>* dkv,
                             const AttentionDropout& dropout) {
  Attended<T>::of_step(step, qkv, kv, rotation, dropout)
      .backward(
          {{dy, stored_as<T>}, {nullptr, stored_as<T>}, log_sums, const_cast<Math<T>*>(products), dq, dkv, step.rows});
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                       \
  template void attention_forward<T>(const T*, const AttentionShape&, Segments, Rotation<Math<T>>,                    \
                                     const std::int32_t*, T*, Math<T>*, const AttentionDropout&);                     \
  template void attention_backward<T>(const T*, const T*, const T*, const Math<T>*, const AttentionShape&, Segments,  \
                                      Rotation<Math<T>>, const std::int32_t*, T*, const AttentionDropout&);           \
  template void ring_attention_forward<T>(const RingStep&, const T*, const T*, Rotation<Math<T>>, Math<T>*, Math<T>*, \
                                          const AttentionDropout&);                                                   \
  template void ring_attention_backward<T>(const RingStep&, const T*, const T*, const T*, Rotation<Math<T>>,          \
                                           const Math<T>*, const Math<T>*, Math<T>*, Math<T>*,                        \
                                           const AttentionDropout&);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
