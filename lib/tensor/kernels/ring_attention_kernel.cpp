#include "tensor/kernels/ring_attention_kernel.hpp"

#include "base/rounding.hpp"
#include "tensor/kernels/attention_tiles.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace lockstep {

namespace {

constexpr std::int64_t rows_at_once = 64;  // where no row needs another

/// The parts of one segment and one key head.
struct Task {
  const SequencePart *own, *theirs;  // two each
  std::int64_t kv_head;
};

Task task_at(std::int64_t index, const RingStep& step) {
  const std::int64_t segment = index / step.shape.kv_heads;
  return {step.own.parts + 2 * segment, step.theirs.parts + 2 * segment, index % step.shape.kv_heads};
}

std::int64_t longest(const RingStep& step) {
  std::int64_t length = 0;
  for (std::int64_t i = 0; i < 2 * step.segments; ++i) length = std::max(length, step.theirs.parts[i].length);
  return length;
}

/// Whether a query of a part sees a key of another.
bool sees(const SequencePart& queries, const SequencePart& keys, std::int64_t window) {
  if (queries.length == 0 || keys.length == 0 || queries.first + queries.length <= keys.first) return false;
  return window == 0 || queries.first - window < keys.first + keys.length - 1;
}

/// y = what it was and `out`, of which `inverse_sums` and `log_sums` are those of this part, weighed by their sums.
template <class M>
LOCKSTEP_CLONES void combine_sightings(const M* out, const M* inverse_sums, const M* log_sums, std::int64_t rows,
                                       std::int64_t size, M* y, M* all_sums, std::int64_t stride) {
  constexpr M nothing = -std::numeric_limits<M>::infinity();
  for (std::int64_t r = 0; r < rows; ++r) {
    M& sum = all_sums[r * stride];
    if (log_sums[r] == nothing) continue;
    const M largest = std::max(sum, log_sums[r]);
    const M both = largest + std::log(std::exp(sum - largest) + std::exp(log_sums[r] - largest));
    const M before = std::exp(sum - both), added = std::exp(log_sums[r] - both) * inverse_sums[r];
    sum = both;
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) y[r * size + i] = before * y[r * size + i] + added * out[r * size + i];
  }
}

template <class M>
LOCKSTEP_CLONES void add_to(const M* x, std::int64_t count, M* sum) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) sum[i] += x[i];
}

template <class T>
LOCKSTEP_CLONES void dot_heads(const T* x, const T* y, std::int64_t heads, std::int64_t size, Math<T>* products) {
  for (std::int64_t head = 0; head < heads; ++head) {
    Math<T> sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = head * size; i < (head + 1) * size; ++i) sum += load(x[i]) * load(y[i]);
    products[head] = sum;
  }
}

/// One thread's work on a step.
template <class T>
class Worker {
 public:
  using M = Math<T>;
  Worker(const RingStep& step, const T* qkv, const T* kv, Rotation<M> rotation, const AttentionDropout& dropout)
      : step_(step),
        shape_(step.shape),
        qkv_(qkv),
        kv_(kv),
        rotation_(rotation),
        dropout_(dropout),
        scale_(static_cast<M>(1 / std::sqrt(static_cast<double>(step.shape.head_size)))),
        work_(longest(step), step.shape.head_size),
        keys_(longest(step), step.shape.head_size),
        values_(longest(step), step.shape.head_size) {}

  /// Calls on_tile(head, row, first, rows) for tiles of a part's queries, with the keys of each part that they see.
  template <class OnTile>
  void for_tiles(const Task& task, const OnTile& on_tile) {
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (const SequencePart* keys = task.theirs; keys < task.theirs + 2; ++keys) {
      bool packed = false;
      for (const SequencePart* queries = task.own; queries < task.own + 2; ++queries) {
        if (!sees(*queries, *keys, shape_.window)) continue;
        if (!std::exchange(packed, true)) pack_keys(*keys, task.kv_head);
        for (std::int64_t head = task.kv_head * group; head < (task.kv_head + 1) * group; ++head)
          for (std::int64_t at = 0; at < queries->length; at += tile_rows) {
            const std::int64_t rows = std::min(tile_rows, queries->length - at);
            const VisibleKeys seen(queries->first + at - keys->first, rows, keys->length, shape_);
            if (seen.width > 0) on_tile(*keys, head, queries->row + at, queries->first + at, seen);
          }
      }
    }
  }

  void pack_queries(std::int64_t head, std::int64_t row, std::int64_t rows) {
    pack_head<T>(qkv_ + row * shape_.width() + head * shape_.head_size, shape_.width(), rows, shape_.head_size,
                 rotation_, positions(step_.own, row), scale_, work_.queries.data());
  }
  /// Of the tile whose first query has index `first` in its segment.
  void drop(const SequencePart& keys, std::int64_t head, std::int64_t row, std::int64_t first, const VisibleKeys& seen,
            M* scores) const {
    if (!dropout_.mask) return;
    const Place* const places = dropout_.places + row;
    drop_scores(dropout_, places, index_in_row(places[0]) - first + keys.first + seen.begin, seen, head, scores);
  }
  const std::int32_t* positions(const RingRows& rows, std::int64_t row) const {
    return rotation_.cosine ? rows.positions + row : nullptr;
  }

 private:
  void pack_keys(const SequencePart& part, std::int64_t kv_head) {
    const std::int64_t size = shape_.head_size, stride = 2 * shape_.kv_heads * size;
    const T* const rows = kv_ + part.row * stride + kv_head * size;
    pack_head<T>(rows, stride, part.length, size, rotation_, positions(step_.theirs, part.row), M{1},
                 work_.keys.data());
    pack_head<T>(rows + shape_.kv_heads * size, stride, part.length, size, {}, nullptr, M{1}, work_.values.data());
    keys_.set(work_.keys.data(), part.length);
    values_.set(work_.values.data(), part.length);
  }

 protected:
  const RingStep& step_;
  const AttentionShape& shape_;
  const T *qkv_, *kv_;
  Rotation<M> rotation_;
  const AttentionDropout& dropout_;
  M scale_;
  AttentionWorkspace<M> work_;
  TileProducts<M> keys_, values_;
};

template <class T>
class ForwardWorker : public Worker<T> {
 public:
  using M = Math<T>;
  using Worker<T>::Worker;

  void attend(const Task& task, M* y, M* log_sums) {
    this->for_tiles(task, [&](const SequencePart& keys, std::int64_t head, std::int64_t row, std::int64_t first,
                              const VisibleKeys& seen) {
      M* const scores = this->work_.scores.data();
      M sums[tile_rows];
      this->pack_queries(head, row, seen.tile.rows);
      this->keys_.score(seen.tile, seen.begin, this->work_.queries.data(), scores);
      causal_softmax<M>(seen.rows(), scores, this->work_.sums.data(), sums, 1);
      this->drop(keys, head, row, first, seen, scores);
      this->values_.combine(seen.tile, seen.begin, scores, this->work_.outputs.data());
      const AttentionShape& shape = this->shape_;
      combine_sightings<M>(this->work_.outputs.data(), this->work_.sums.data(), sums, seen.tile.rows, shape.head_size,
                           y + (head * this->step_.rows + row) * shape.head_size, log_sums + row * shape.heads + head,
                           shape.heads);
    });
  }
};

template <class T>
class BackwardWorker : public Worker<T> {
 public:
  using M = Math<T>;
  BackwardWorker(const RingStep& step, const T* dy, const T* qkv, const T* kv, Rotation<M> rotation,
                 const AttentionDropout& dropout)
      : Worker<T>(step, qkv, kv, rotation, dropout), dy_(dy), gradient_(longest(step), step.shape.head_size) {}

  void differentiate(const Task& task, const M* log_sums, const M* products, M* dq, M* dkv) {
    this->for_tiles(task, [&](const SequencePart& keys, std::int64_t head, std::int64_t row, std::int64_t first,
                              const VisibleKeys& seen) {
      const AttentionShape& shape = this->shape_;
      const std::int64_t size = shape.head_size, rows = seen.tile.rows, statistic = row * shape.heads + head;
      M *const scores = this->work_.scores.data(), *const dscores = gradient_.scores.data();
      M *const queries = this->work_.queries.data(), *const outputs = gradient_.outputs.data();
      this->pack_queries(head, row, rows);
      pack_head<T>(dy_ + row * shape.heads * size + head * size, shape.heads * size, rows, size, {}, nullptr, M{1},
                   outputs);
      this->keys_.score(seen.tile, seen.begin, queries, scores);
      this->values_.score(seen.tile, seen.begin, outputs, dscores);
      this->drop(keys, head, row, first, seen, dscores);
      causal_softmax_backward<M>(seen.rows(), scores, dscores, log_sums + statistic, shape.heads, products + statistic);
      this->drop(keys, head, row, first, seen, scores);
      M* const dkeys = dkv + (task.kv_head * this->step_.rows + keys.row) * size;
      M* const dvalues = dkeys + shape.kv_heads * this->step_.rows * size;
      this->values_.spread(seen.tile, seen.begin, scores, outputs, dvalues);
      this->keys_.spread(seen.tile, seen.begin, dscores, queries, dkeys);
      this->keys_.combine(seen.tile, seen.begin, dscores, gradient_.queries.data());
      add_to<M>(gradient_.queries.data(), rows * size, dq + (head * this->step_.rows + row) * size);
    });
  }

 private:
  const T* dy_;
  AttentionWorkspace<M> gradient_;
};

}  // namespace

template <class T>
void ring_attention_forward(const RingStep& step, const T* qkv, const T* kv, Rotation<Math<T>> rotation, Math<T>* y,
                            Math<T>* log_sums, const AttentionDropout& dropout) {
  parallel_for(step.segments * step.shape.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    ForwardWorker<T> worker(step, qkv, kv, rotation, dropout);
    for (std::int64_t t = begin; t < end; ++t) worker.attend(task_at(t, step), y, log_sums);
  });
}

template <class T>
void ring_attention_result(const RingStep& step, const Math<T>* sums, T* y) {
  const std::int64_t size = step.shape.head_size, heads = step.shape.heads;
  constexpr auto ones = [] {
    std::array<Math<T>, rows_at_once> all{};
    all.fill(1);
    return all;
  }();
  parallel_for(heads * ceil_div(step.rows, rows_at_once), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t head = t % heads, row = t / heads * rows_at_once;
      store_rows<T>(sums + (head * step.rows + row) * size, ones.data(), std::min(rows_at_once, step.rows - row), size,
                    y + (row * heads + head) * size, heads * size);
    }
  });
}

template <class T>
void ring_attention_products(const RingStep& step, const T* dy, const T* y, Math<T>* products) {
  const std::int64_t heads = step.shape.heads, size = step.shape.head_size;
  parallel_for(step.rows, rows_at_once, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      dot_heads<T>(dy + row * heads * size, y + row * heads * size, heads, size, products + row * heads);
  });
}

template <class T>
void ring_attention_backward(const RingStep& step, const T* dy, const T* qkv, const T* kv, Rotation<Math<T>> rotation,
                             const Math<T>* log_sums, const Math<T>* products, Math<T>* dq, Math<T>* dkv,
                             const AttentionDropout& dropout) {
  parallel_for(step.segments * step.shape.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    BackwardWorker<T> worker(step, dy, qkv, kv, rotation, dropout);
    for (std::int64_t t = begin; t < end; ++t) worker.differentiate(task_at(t, step), log_sums, products, dq, dkv);
  });
}

template <class T>
void ring_attention_gradient(const RingStep& step, const Math<T>* dq, const Math<T>* dkv, Rotation<Math<T>> rotation,
                             T* dqkv) {
  const AttentionShape& shape = step.shape;
  const std::int64_t size = shape.head_size, heads = shape.heads + 2 * shape.kv_heads;
  const auto scale = static_cast<Math<T>>(1 / std::sqrt(static_cast<double>(size)));
  parallel_for(heads * ceil_div(step.rows, rows_at_once), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t head = t % heads, row = t / heads * rows_at_once, key_head = head - shape.heads;
      const Math<T>* const from =
          key_head < 0 ? dq + (head * step.rows + row) * size : dkv + (key_head * step.rows + row) * size;
      const bool turns = rotation.cosine && key_head < shape.kv_heads;
      unpack_head<T>(from, std::min(rows_at_once, step.rows - row), size, turns ? rotation : Rotation<Math<T>>{},
                     turns ? step.own.positions + row : nullptr, key_head < 0 ? scale : Math<T>{1},
                     dqkv + row * shape.width() + head * size, shape.width());
    }
  });
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                       \
  template void ring_attention_forward<T>(const RingStep&, const T*, const T*, Rotation<Math<T>>, Math<T>*, Math<T>*, \
                                          const AttentionDropout&);                                                   \
  template void ring_attention_result<T>(const RingStep&, const Math<T>*, T*);                                        \
  template void ring_attention_products<T>(const RingStep&, const T*, const T*, Math<T>*);                            \
  template void ring_attention_backward<T>(const RingStep&, const T*, const T*, const T*, Rotation<Math<T>>,          \
                                           const Math<T>*, const Math<T>*, Math<T>*, Math<T>*,                        \
                                           const AttentionDropout&);                                                  \
  template void ring_attention_gradient<T>(const RingStep&, const Math<T>*, const Math<T>*, Rotation<Math<T>>, T*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
