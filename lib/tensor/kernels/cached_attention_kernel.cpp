#include "tensor/kernels/cached_attention_kernel.hpp"

#include "base/rounding.hpp"
#include "tensor/kernels/attention_tiles.hpp"
#include "tensor/kernels/query_products.hpp"
#include "tensor/kernels/row_grain.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep {

namespace {

constexpr std::int64_t task_values = 1 << 14;  // of the cache: fewer are not worth another thread

/// The new rows of one text.
struct NewRows {
  std::int64_t row, count;      // in qkv
  std::int64_t slot, position;  // of the first one
  std::int64_t end() const { return position + count; }
};

/// A call with the values that follow from its arguments.
template <class T>
struct CachedCall {
  using M = Math<T>;
  const T* qkv;
  AttentionShape shape;
  CachedTexts texts;
  Rotation<M> rotation;
  T *cache, *y;

  std::int64_t group() const { return shape.heads / shape.kv_heads; }
  std::int64_t window() const { return shape.window > 0 ? shape.window : all_keys; }
  M scale() const { return static_cast<M>(1 / std::sqrt(static_cast<double>(shape.head_size))); }
  NewRows text(std::int64_t t) const {
    const std::int64_t row = texts.rows.starts[t], count = texts.rows.starts[t + 1] - row;
    return {row, count, texts.slots[t], count > 0 ? texts.positions[row] : 0};
  }
  /// A row of a head of qkv: heads of queries, then of keys, then of values.
  const T* head(std::int64_t row, std::int64_t of) const { return qkv + row * shape.width() + of * shape.head_size; }
  T* output(std::int64_t row, std::int64_t of) const { return y + (row * shape.heads + of) * shape.head_size; }
  void pack_queries(std::int64_t row, std::int64_t rows, std::int64_t of, M* packed) const {
    pack_head<T>(head(row, of), shape.width(), rows, shape.head_size, rotation, texts.positions + row, scale(), packed);
  }
  /// Calls on_run(rows, offset, count) for positions [begin, end) of a head of the cache, in runs of neighbouring
  /// places; `offset` is relative to `begin`. Value heads follow the key heads.
  template <class OnRun>
  void for_runs(std::int64_t slot, std::int64_t of, std::int64_t begin, std::int64_t end, const OnRun& on_run) const {
    T* const places = cache + (slot * 2 * shape.kv_heads + of) * texts.capacity * shape.head_size;
    for (std::int64_t position = begin; position < end;) {
      const std::int64_t place = position % texts.capacity, count = std::min(end - position, texts.capacity - place);
      on_run(places + place * shape.head_size, position - begin, count);
      position += count;
    }
  }
};

/// Stores the new keys or values of one head of a text. `rotated` has room for a tile of rows.
template <class T>
void store_head(const CachedCall<T>& call, const NewRows& text, std::int64_t of, Math<T>* rotated) {
  const std::int64_t size = call.shape.head_size, width = call.shape.width();
  const bool rotates = call.rotation.cosine && of < call.shape.kv_heads;
  const auto store_run = [&](T* to, std::int64_t offset, std::int64_t count) {
    const T* const from = call.head(text.row + offset, call.shape.heads + of);
    const std::int32_t* const positions = call.texts.positions + text.row + offset;
    for (std::int64_t r = 0; !rotates && r < count; ++r) std::copy_n(from + r * width, size, to + r * size);
    for (std::int64_t r = 0; rotates && r < count; r += tile_rows) {
      const std::int64_t rows = std::min(tile_rows, count - r);
      pack_head<T>(from + r * width, width, rows, size, call.rotation, positions + r, Math<T>{1}, rotated);
      unpack_head<T>(rotated, rows, size, {}, nullptr, Math<T>{1}, to + r * size, size);
    }
  };
  call.for_runs(text.slot, of, text.position, text.end(), store_run);
}

template <class T>
void store_rows_in_cache(const CachedCall<T>& call) {
  const AttentionShape& shape = call.shape;
  const std::int64_t heads = 2 * shape.kv_heads, texts = call.texts.rows.count;
  if (texts == 0) return;
  const std::int64_t rows = call.texts.rows.starts[texts] - call.texts.rows.starts[0];
  parallel_for(texts * heads, row_grain(ceil_div(rows, texts) * shape.head_size, task_values),
               [&](std::int64_t begin, std::int64_t end) {
                 ScratchVector<Math<T>> rotated(static_cast<std::size_t>(tile_rows * shape.head_size));
                 for (std::int64_t t = begin; t < end; ++t)
                   store_head(call, call.text(t / heads), t % heads, rotated.data());
               });
}

/// One thread's work on pieces of texts with many rows, in tiles.
template <class T>
class TileWorker {
 public:
  using M = Math<T>;
  /// For blocks of rows that see at most `length` positions.
  TileWorker(const CachedCall<T>& call, std::int64_t length)
      : call_(call),
        work_(length, call.shape.head_size),
        keys_(length, call.shape.head_size),
        values_(length, call.shape.head_size) {}

  /// Rows of a text that lie side by side, with one key head.
  void attend(const NewRows& rows, std::int64_t kv_head) {
    const std::int64_t size = call_.shape.head_size, first = hidden_keys(rows.position, call_.window()),
                       length = rows.end() - first;
    pack(rows.slot, kv_head, first, length, work_.keys, keys_);
    pack(rows.slot, call_.shape.kv_heads + kv_head, first, length, work_.values, values_);
    for (std::int64_t head = kv_head * call_.group(); head < (kv_head + 1) * call_.group(); ++head)
      for (std::int64_t at = 0; at < rows.count; at += tile_rows) {
        const VisibleKeys seen(rows.position + at - first, std::min(tile_rows, rows.count - at), length, call_.shape);
        M log_sums[tile_rows];
        call_.pack_queries(rows.row + at, seen.tile.rows, head, work_.queries.data());
        keys_.score(seen.tile, seen.begin, work_.queries.data(), work_.scores.data());
        causal_softmax<M>(seen.rows(), work_.scores.data(), work_.sums.data(), log_sums, 1);
        values_.combine(seen.tile, seen.begin, work_.scores.data(), work_.outputs.data());
        store_rows<T>(work_.outputs.data(), work_.sums.data(), seen.tile.rows, size, call_.output(rows.row + at, head),
                      call_.shape.heads * size);
      }
  }

 private:
  void pack(std::int64_t slot, std::int64_t of, std::int64_t first, std::int64_t length, ScratchVector<M>& packed,
            TileProducts<M>& products) {
    const std::int64_t size = call_.shape.head_size;
    call_.for_runs(slot, of, first, first + length, [&](const T* rows, std::int64_t offset, std::int64_t count) {
      pack_head<T>(rows, size, count, size, {}, nullptr, M{1}, packed.data() + offset * size);
    });
    products.set(packed.data(), length);
  }

  const CachedCall<T>& call_;
  AttentionWorkspace<M> work_;
  TileProducts<M> keys_, values_;
};

/// The texts with many rows.
template <class T>
void attend_many_rows(const CachedCall<T>& call) {
  std::vector<NewRows> blocks;
  std::int64_t longest = 0;
  for (std::int64_t t = 0; t < call.texts.rows.count; ++t) {
    const NewRows text = call.text(t);
    for (std::int64_t at = 0; text.count > few_rows && at < text.count; at += block_rows) {
      blocks.push_back({text.row + at, std::min(block_rows, text.count - at), text.slot, text.position + at});
      longest = std::max(longest, blocks.back().end() - hidden_keys(blocks.back().position, call.window()));
    }
  }
  const std::int64_t count = std::ssize(blocks);
  parallel_for(count * call.shape.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    TileWorker<T> worker(call, longest);
    for (std::int64_t t = begin; t < end; ++t) worker.attend(blocks[static_cast<std::size_t>(t % count)], t / count);
  });
}

/// A text with few rows, whose positions are read in chunks. Each query has a partial result for each chunk.
struct ChunkedText {
  NewRows rows;
  std::int64_t first;           // position that its first row sees
  std::int64_t chunks;          // the last one has the positions of all new rows
  std::int64_t results_before;  // partial results of earlier texts

  std::int64_t begin(std::int64_t chunk) const { return first + chunk * chunk_positions; }
  std::int64_t end(std::int64_t chunk) const { return chunk + 1 < chunks ? begin(chunk + 1) : rows.end(); }
  /// The first chunk's result of a query.
  std::int64_t result(std::int64_t head, std::int64_t row) const {
    return results_before + (head * rows.count + row) * chunks;
  }
};
struct TextChunk {
  std::size_t text;
  std::int64_t chunk;
};

/// Partial results of softmax: Σ e^(score − largest)·value, the largest score, and Σ e^(score − largest). Those of the
/// chunks of one query are neighbours.
template <class M>
struct PartialResults {
  PartialResults(std::int64_t count, std::int64_t size)
      : outputs(static_cast<std::size_t>(count * size)),
        largest(static_cast<std::size_t>(count)),
        sums(static_cast<std::size_t>(count)) {}
  ScratchVector<M> outputs, largest, sums;  // (count, D), (count), (count)
};

/// −∞ if there are none.
template <class M>
LOCKSTEP_CLONES M largest_of(const M* scores, std::int64_t count) {
  M largest = -std::numeric_limits<M>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < count; ++i) largest = scores[i] > largest ? scores[i] : largest;
  return largest;
}

/// One thread's work on chunks of texts with few rows.
template <class T>
class ChunkWorker {
 public:
  using M = Math<T>;
  ChunkWorker(const CachedCall<T>& call, PartialResults<M>& results)
      : call_(call),
        results_(results),
        queries_(static_cast<std::size_t>(call.group() * few_rows * call.shape.head_size)),
        scores_(static_cast<std::size_t>(call.group() * few_rows * stride_of(chunk_positions + few_rows))) {}

  void attend(const ChunkedText& text, std::int64_t chunk, std::int64_t kv_head) {
    const std::int64_t size = call_.shape.head_size, first_head = kv_head * call_.group(), rows = text.rows.count;
    const std::int64_t begin = text.begin(chunk), end = text.end(chunk), queries = call_.group() * rows,
                       stride = stride_of(end - begin), first_result = text.result(first_head, 0) + chunk;
    for (std::int64_t g = 0; g < call_.group(); ++g)
      call_.pack_queries(text.rows.row, rows, first_head + g, queries_.data() + g * rows * size);
    call_.for_runs(text.rows.slot, kv_head, begin, end, [&](const T* keys, std::int64_t offset, std::int64_t count) {
      score_rows<T>(queries_.data(), queries, {keys, count, size}, scores_.data() + offset, stride);
    });
    for (std::int64_t g = 0; g < call_.group(); ++g)
      apply_softmax({text.rows.position - begin, rows, end - begin, stride, call_.window()},
                    scores_.data() + g * rows * stride, first_result + g * rows * text.chunks, text.chunks);
    call_.for_runs(text.rows.slot, call_.shape.kv_heads + kv_head, begin, end,
                   [&](const T* values, std::int64_t offset, std::int64_t count) {
                     add_weighted_rows<T>(scores_.data() + offset, stride, queries, {values, count, size},
                                          results_.outputs.data() + first_result * size, text.chunks * size);
                   });
  }

 private:
  /// Of the rows of one head, whose results lie `step` apart.
  void apply_softmax(const CausalRows& tile, M* scores, std::int64_t first_result, std::int64_t step) {
    M inverse_sums[few_rows], log_sums[few_rows];
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const std::int64_t hidden = std::min(hidden_keys(tile.first + r, tile.window), tile.width);
      const std::int64_t seen = std::min(tile.first + r + 1, tile.width) - hidden;
      results_.largest[static_cast<std::size_t>(first_result + r * step)] =
          largest_of(scores + r * tile.stride + hidden, seen);
    }
    causal_softmax<M>(tile, scores, inverse_sums, log_sums, 1);
    for (std::int64_t r = 0; r < tile.rows; ++r)
      results_.sums[static_cast<std::size_t>(first_result + r * step)] =
          inverse_sums[r] == 0 ? M{0} : 1 / inverse_sums[r];
  }

  const CachedCall<T>& call_;
  PartialResults<M>& results_;
  ScratchVector<M> queries_, scores_;
};

/// y = the partial results of one head of a text, combined by their largest scores and sums: a logarithm of both, as in
/// ring attention, would lose the sum beside a large score. `output` has room for a head.
template <class T>
void combine_chunks(const CachedCall<T>& call, const ChunkedText& text, std::int64_t head,
                    PartialResults<Math<T>>& results, Math<T>* output) {
  using M = Math<T>;
  const std::int64_t size = call.shape.head_size;
  for (std::int64_t r = 0; r < text.rows.count; ++r) {
    const std::int64_t first = text.result(head, r);
    M* const weights = results.largest.data() + first;  // in their place
    const M largest = *std::max_element(weights, weights + text.chunks);
    M sum = 0;
    for (std::int64_t c = 0; c < text.chunks; ++c) {
      weights[c] = exp(weights[c] - largest);
      sum += weights[c] * results.sums[static_cast<std::size_t>(first + c)];
    }
    const M scale = 1 / sum;
    std::fill_n(output, size, M{0});
    add_weighted_rows<M>(weights, text.chunks, 1, {results.outputs.data() + first * size, text.chunks, size}, output,
                         size);
    store_rows<T>(output, &scale, 1, size, call.output(text.rows.row + r, head), size);
  }
}

/// The texts with few rows.
template <class T>
void attend_few_rows(const CachedCall<T>& call) {
  const AttentionShape& shape = call.shape;
  std::vector<ChunkedText> texts;
  std::vector<TextChunk> chunks;
  std::int64_t results = 0, positions = 0;
  for (std::int64_t t = 0; t < call.texts.rows.count; ++t) {
    const NewRows rows = call.text(t);
    if (rows.count == 0 || rows.count > few_rows) continue;
    const std::int64_t first = hidden_keys(rows.position, call.window());
    const ChunkedText text{rows, first, ceil_div(rows.position + 1 - first, chunk_positions), results};
    for (std::int64_t c = 0; c < text.chunks; ++c) chunks.push_back({texts.size(), c});
    texts.push_back(text);
    results += rows.count * shape.heads * text.chunks;
    positions += rows.end() - first;
  }
  if (texts.empty()) return;
  PartialResults<Math<T>> partial(results, shape.head_size);
  const std::int64_t count = std::ssize(chunks), of_chunk = ceil_div(2 * positions * shape.head_size, count);
  parallel_for(count * shape.kv_heads, row_grain(of_chunk, task_values), [&](std::int64_t begin, std::int64_t end) {
    ChunkWorker<T> worker(call, partial);
    for (std::int64_t t = begin; t < end; ++t) {
      const TextChunk& chunk = chunks[static_cast<std::size_t>(t / shape.kv_heads)];
      worker.attend(texts[chunk.text], chunk.chunk, t % shape.kv_heads);
    }
  });
  const std::int64_t heads = std::ssize(texts) * shape.heads;
  parallel_for(heads, row_grain(ceil_div(results, heads) * shape.head_size, task_values),
               [&](std::int64_t begin, std::int64_t end) {
                 ScratchVector<Math<T>> output(static_cast<std::size_t>(shape.head_size));
                 for (std::int64_t t = begin; t < end; ++t)
                   combine_chunks(call, texts[static_cast<std::size_t>(t / shape.heads)], t % shape.heads, partial,
                                  output.data());
               });
}

}  // namespace

template <class T>
void cached_attention(const T* qkv, const AttentionShape& shape, const CachedTexts& texts, Rotation<Math<T>> rotation,
                      T* cache, T* y) {
  const CachedCall<T> call{qkv, shape, texts, rotation, cache, y};
  store_rows_in_cache(call);
  attend_many_rows(call);
  attend_few_rows(call);
}

#define LOCKSTEP_INSTANTIATE(T) \
  template void cached_attention<T>(const T*, const AttentionShape&, const CachedTexts&, Rotation<Math<T>>, T*, T*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
