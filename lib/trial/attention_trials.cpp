// Trials of the kernels of attention: norms of heads, causal attention, the steps of ring attention, and attention over
// a cache.
#include "layout/sequence.hpp"
#include "trial/trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace lockstep::trial {

namespace {

/// The windows of a model's layers, each once.
std::vector<TrialSizes> windows(const TrialSizes& sizes) {
  std::set<std::int64_t> different(sizes.model.windows.begin(), sizes.model.windows.end());
  if (different.empty()) different.insert(0);
  std::vector<TrialSizes> cases;
  for (const std::int64_t window : different) {
    cases.push_back(sizes);
    cases.back().window = window;
  }
  return cases;
}

/// With dropout, each of them also without it: another kernel may compute that.
std::vector<TrialSizes> windows_and_dropout(const TrialSizes& sizes) {
  std::vector<TrialSizes> cases = windows(sizes);
  if (sizes.model.dropout.attention == 0) return cases;
  TrialSizes without = sizes;
  without.model.dropout.attention = 0;
  const std::vector<TrialSizes> more = windows(without);
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

AttentionShape shape_of(const TrialSizes& sizes) {
  return {sizes.model.heads, sizes.model.kv_heads, sizes.model.head_size, sizes.window};
}

/// Cosine and sine of angles that grow with the position.
Draw angles(double (*of_angle)(double), std::int64_t half) {
  return [=](const RandomStream&, std::uint64_t i) {
    const auto pair = static_cast<double>(i % static_cast<std::uint64_t>(half));
    const auto position = static_cast<double>(i / static_cast<std::uint64_t>(half));
    return of_angle(position * std::pow(10000.0, -pair / static_cast<double>(half)));
  };
}

template <class T>
Rotation<Math<T>> rotation(KernelCall<T>& call, const TrialSizes& sizes, std::int64_t positions) {
  const std::int64_t half = sizes.model.head_size / 2;
  if (sizes.model.positions != Positions::rotary) return {};
  return {call.in(wide, "cosine", {positions, half}, angles(std::cos, half)),
          call.in(wide, "sine", {positions, half}, angles(std::sin, half))};
}

/// Dropout of a configuration, and otherwise none.
DropoutMask attention_mask(const TrialSizes& sizes) {
  return dropout_mask(sizes.model.dropout.attention, 7, 3, 2, DropoutSite::attention);
}

/// The pairs of a query and a key that it attends to, over all rows.
double attended_pairs(const TrialSizes& sizes) {
  double pairs = 0;
  const std::vector<std::int64_t> starts = sizes.segment_starts();
  for (std::size_t segment = 0; segment + 1 < starts.size(); ++segment)
    for (std::int64_t row = 1; row <= starts[segment + 1] - starts[segment]; ++row)
      pairs += static_cast<double>(sizes.window > 0 ? std::min(row, sizes.window) : row);
  return pairs;
}

std::int64_t longest_of(const std::vector<std::int64_t>& starts) {
  std::int64_t longest = 0;
  for (std::size_t segment = 0; segment + 1 < starts.size(); ++segment)
    longest = std::max(longest, starts[segment + 1] - starts[segment]);
  return longest;
}

/// A call with so many products of heads for each pair.
template <class T>
void describe_attention(KernelCall<T>& call, const TrialSizes& sizes, int products, double pairs) {
  const auto width = static_cast<double>(sizes.heads_width());
  call.facts.flops = 2 * products * pairs * width;
  call.facts.terms = std::min(sizes.rows, sizes.document) + sizes.model.head_size;
  call.facts.within = call.tested();
  call.facts.shape =
      fmt::format("{}x{}/{}x{}{}{}", sizes.rows, sizes.model.heads, sizes.model.kv_heads, sizes.model.head_size,
                  sizes.window > 0 ? fmt::format(" window {}", sizes.window) : std::string(),
                  sizes.model.dropout.attention > 0 ? " dropout" : "");
}

/// The arguments that forward and backward have in common.
template <class T>
struct AttentionInputs {
  AttentionInputs(KernelCall<T>& call, const TrialSizes& sizes)
      : shape(shape_of(sizes)),
        segments{call.in(index64, "starts", std::ssize(sizes.segment_starts()), given(sizes.segment_starts())),
                 sizes.sample_count(), sizes.rows, longest_of(sizes.segment_starts())},
        turn(rotation(call, sizes, std::min(sizes.rows, sizes.document))),
        positions(call.in(index32, "positions", sizes.rows, given(sizes.positions()))),
        dropout{attention_mask(sizes)} {
    if (dropout.mask) dropout.places = call.in(index64, "places of rows", sizes.rows, given(sizes.places()));
  }
  AttentionShape shape;
  Segments segments;
  Rotation<Math<T>> turn;
  const std::int32_t* positions;
  AttentionDropout dropout;
};

TrialSizes with_rows(TrialSizes sizes, std::int64_t rows) {
  sizes.rows = rows;
  return sizes;
}

/// The rows of the ranks of a ring of two. The second rank has the keys.
struct RingOfTwo {
  explicit RingOfTwo(const TrialSizes& sizes)
      : both(with_rows(sizes, 2 * sizes.rows)),
        starts(both.segment_starts()),
        rows(std::ssize(attended_rows(ranks, 0, starts))) {}
  static constexpr SequenceRanks ranks{.ulysses = 1, .ring = 2};
  std::vector<std::int64_t> parts(int rank) const {
    std::vector<std::int64_t> numbers;
    for (const SequencePart& part : parts_of(ranks, rank, starts))
      numbers.insert(numbers.end(), {part.row, part.length, part.first});
    return numbers;
  }
  /// Values of a rank's rows, from those of all rows; padding has `otherwise`.
  template <class V>
  std::vector<V> of_rank(int rank, const std::vector<V>& all, V otherwise) const {
    std::vector<V> own;
    for (const std::int64_t row : attended_rows(ranks, rank, starts))
      own.push_back(row < 0 ? otherwise : all[static_cast<std::size_t>(row)]);
    return own;
  }
  /// Each of the two ranks has as many in each of its two steps.
  double pairs_of_step() const { return attended_pairs(both) / 4; }
  TrialSizes both;  // of both ranks
  std::vector<std::int64_t> starts;
  std::int64_t rows;
};

template <class T>
RingRows ring_rows(KernelCall<T>& call, const RingOfTwo& ring, int rank, std::string_view name) {
  const std::vector<std::int64_t> parts = ring.parts(rank);
  const std::int64_t* const numbers =
      call.in(index64, fmt::format("parts of {}", name), std::ssize(parts), given(parts));
  return {reinterpret_cast<const SequencePart*>(numbers),
          call.in(index32, fmt::format("positions of {}", name), ring.rows,
                  given(ring.of_rank(rank, ring.both.positions(), std::int32_t{0})))};
}

/// The arguments that the steps of ring attention have in common.
template <class T>
struct RingInputs {
  RingInputs(KernelCall<T>& call, const TrialSizes& sizes)
      : ring(sizes),
        rows(ring.rows),
        step{shape_of(sizes), ring.rows, ring.both.sample_count(), ring_rows(call, ring, 1, "own"),
             ring_rows(call, ring, 0, "theirs")},
        turn(rotation(call, sizes, std::min(ring.both.rows, sizes.document))),
        dropout{attention_mask(sizes)},
        heads{sizes.model.heads * ring.rows, sizes.model.head_size},
        key_heads{2 * sizes.model.kv_heads * ring.rows, sizes.model.head_size},
        qkv{ring.rows, sizes.qkv_width()},
        kv{ring.rows, 2 * sizes.model.kv_heads * sizes.model.head_size},
        y{ring.rows, sizes.heads_width()},
        by_head{ring.rows, sizes.model.heads} {
    if (dropout.mask)
      dropout.places =
          call.in(index64, "places of rows", rows, given(ring.of_rank(1, ring.both.places(), std::int64_t{-1})));
  }
  RingOfTwo ring;
  std::int64_t rows;
  RingStep step;
  Rotation<Math<T>> turn;
  AttentionDropout dropout;
  Extent heads, key_heads, qkv, kv, y, by_head;
};

/// The variant of attention over a cache with one new row of each text: each document but its last row is in the cache.
/// In variant 0 half of it is.
constexpr int single_rows = 1;

std::vector<TrialSizes> windows_and_single_rows(const TrialSizes& sizes) {
  std::vector<TrialSizes> cases;
  for (const TrialSizes& one : windows(sizes))
    for (const int variant : {0, single_rows}) {
      cases.push_back(one);
      cases.back().variant = variant;
    }
  return cases;
}

/// The new rows of texts, and their places in a cache that is as small as it may be.
struct NewRowsOfTexts {
  explicit NewRowsOfTexts(const TrialSizes& sizes) {
    const std::vector<std::int64_t> documents = sizes.segment_starts();
    std::int64_t most_rows = 0;
    for (std::size_t text = 0; text + 1 < documents.size(); ++text) {
      const std::int64_t length = documents[text + 1] - documents[text];
      const std::int64_t rows = sizes.variant == single_rows ? 1 : (length + 1) / 2;
      starts.push_back(starts.back() + rows);
      slots.push_back(static_cast<std::int32_t>(documents.size() - 2 - text));
      for (std::int64_t position = length - rows; position < length; ++position) {
        positions.push_back(static_cast<std::int32_t>(position));
        pairs += sizes.window > 0 ? std::min(position + 1, sizes.window) : position + 1;
      }
      most_rows = std::max(most_rows, rows);
      longest = std::max(longest, length);
    }
    capacity = sizes.window > 0 ? std::min(longest, sizes.window + most_rows - 1) : longest;
  }
  std::int64_t rows() const { return starts.back(); }
  std::vector<std::int64_t> starts{0};
  std::vector<std::int32_t> slots, positions;
  std::int64_t longest = 0, capacity = 0;
  std::int64_t pairs = 0;  // of a row and a position that it sees
};

}  // namespace

std::vector<Trial> attention_trials() {
  return {
      make_trial("head_norm_forward",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Extent qkv{sizes.rows, sizes.qkv_width()};
                   const std::int64_t heads = sizes.model.heads + sizes.model.kv_heads, size = sizes.model.head_size;
                   call.facts.shape = fmt::format("{}x{}", qkv.rows, qkv.columns);
                   call.facts.terms = size;
                   call(&Kernels<T>::head_norm_forward, call.in(stored, "qkv", qkv), shape_of(sizes),
                        call.in(stored, "query_weight", size), call.in(stored, "key_weight", size),
                        sizes.model.norm_eps, sizes.rows, call.out(stored, "y", qkv),
                        call.out(wide, "rstd", {sizes.rows, heads}));
                 }),
      make_trial("head_norm_backward",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const Extent qkv{sizes.rows, sizes.qkv_width()};
                   const std::int64_t heads = sizes.model.heads + sizes.model.kv_heads, size = sizes.model.head_size;
                   call.facts.shape = fmt::format("{}x{}", qkv.rows, qkv.columns);
                   call.facts.terms = sizes.rows * sizes.model.heads + size;
                   call(&Kernels<T>::head_norm_backward, call.in(stored, "dy", qkv), call.in(stored, "qkv", qkv),
                        shape_of(sizes), call.in(stored, "query_weight", size), call.in(stored, "key_weight", size),
                        call.in(wide, "rstd", {sizes.rows, heads}, result_of("head_norm_forward", constant(1))),
                        sizes.rows, call.out(stored, "dqkv", qkv), call.updated(wide, "dquery_weight", size), 1.0,
                        call.out(wide, "dkey_weight", size), 0.0);
                 }),
      make_trial(
          "attention_forward",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            describe_attention(call, sizes, 2, attended_pairs(sizes));
            const AttentionInputs<T> of(call, sizes);
            call(&Kernels<T>::attention_forward, call.in(stored, "qkv", {sizes.rows, sizes.qkv_width()}), of.shape,
                 of.segments, of.turn, of.positions, call.out(stored, "y", {sizes.rows, sizes.heads_width()}),
                 call.out(wide, "log_sums", {sizes.rows, sizes.model.heads}), of.dropout);
          },
          windows_and_dropout),
      make_trial(
          "attention_backward",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            describe_attention(call, sizes, 5, attended_pairs(sizes));
            const AttentionInputs<T> of(call, sizes);
            const Extent qkv{sizes.rows, sizes.qkv_width()};
            call(
                &Kernels<T>::attention_backward, call.in(stored, "dy", {sizes.rows, sizes.heads_width()}),
                call.in(stored, "qkv", qkv),
                call.in(stored, "y", {sizes.rows, sizes.heads_width()}, result_of("attention_forward", normal())),
                call.in(wide, "log_sums", {sizes.rows, sizes.model.heads}, result_of("attention_forward", constant(5))),
                of.shape, of.segments, of.turn, of.positions, call.out(stored, "dqkv", qkv), of.dropout);
          },
          windows_and_dropout),
      make_trial(
          "ring_attention_forward",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const RingInputs<T> of(call, sizes);
            describe_attention(call, sizes, 2, of.ring.pairs_of_step());
            call(&Kernels<T>::ring_attention_forward, of.step, call.in(stored, "qkv", of.qkv),
                 call.in(stored, "kv", of.kv), of.turn, call.updated(wide, "sums", of.heads, constant(0)),
                 call.updated(wide, "log_sums", of.by_head, constant(-std::numeric_limits<double>::infinity())),
                 of.dropout);
          },
          windows),
      make_trial("ring_attention_result",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const RingInputs<T> of(call, sizes);
                   call.facts.shape = fmt::format("{}x{}", of.y.rows, of.y.columns);
                   call(&Kernels<T>::ring_attention_result, of.step, call.in(wide, "sums", of.heads),
                        call.out(stored, "y", of.y));
                 }),
      make_trial("ring_attention_products",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const RingInputs<T> of(call, sizes);
                   call.facts.shape = fmt::format("{}x{}", of.y.rows, of.y.columns);
                   call.facts.terms = sizes.model.head_size;
                   call(&Kernels<T>::ring_attention_products, of.step, call.in(stored, "dy", of.y),
                        call.in(stored, "y", of.y), call.out(wide, "products", of.by_head));
                 }),
      make_trial(
          "ring_attention_backward",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const RingInputs<T> of(call, sizes);
            describe_attention(call, sizes, 5, of.ring.pairs_of_step());
            call(&Kernels<T>::ring_attention_backward, of.step, call.in(stored, "dy", of.y),
                 call.in(stored, "qkv", of.qkv), call.in(stored, "kv", of.kv), of.turn,
                 call.in(wide, "log_sums", of.by_head, result_of("ring_attention_forward", constant(5))),
                 call.in(wide, "products", of.by_head, normal(0.1)), call.updated(wide, "dq", of.heads),
                 call.updated(wide, "dkv", of.key_heads), of.dropout);
          },
          windows),
      make_trial("ring_attention_gradient",
                 []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
                   const RingInputs<T> of(call, sizes);
                   call.facts.shape = fmt::format("{}x{}", of.qkv.rows, of.qkv.columns);
                   call.facts.terms = 2;
                   call(&Kernels<T>::ring_attention_gradient, of.step, call.in(wide, "dq", of.heads),
                        call.in(wide, "dkv", of.key_heads), of.turn, call.out(stored, "dqkv", of.qkv));
                 }),
      make_trial(
          "cached_attention",
          []<class T>(KernelCall<T>& call, const TrialSizes& sizes) {
            const NewRowsOfTexts texts(sizes);
            const std::int64_t kept = 2 * sizes.model.kv_heads, size = sizes.model.head_size;
            describe_attention(call, sizes, 2, static_cast<double>(texts.pairs));
            call.facts.terms = texts.longest + size;
            call.facts.shape =
                fmt::format("{}x{}/{}x{} at {}{}", texts.rows(), sizes.model.heads, sizes.model.kv_heads, size,
                            texts.longest, sizes.window > 0 ? fmt::format(" window {}", sizes.window) : std::string());
            if (sizes.variant == single_rows) {  // the memory of the cache bounds them
              call.facts.flops = 0;
              call.facts.moved = texts.pairs * kept * size * static_cast<std::int64_t>(sizeof(T));
            }
            const std::int64_t count = std::ssize(texts.slots);
            call(&Kernels<T>::cached_attention, call.in(stored, "qkv", {texts.rows(), sizes.qkv_width()}),
                 shape_of(sizes),
                 CachedTexts{{call.in(index64, "starts", count + 1, given(texts.starts)), count, texts.rows()},
                             call.in(index32, "slots", count, given(texts.slots)),
                             call.in(index32, "positions", texts.rows(), given(texts.positions)),
                             texts.capacity},
                 rotation(call, sizes, texts.longest),
                 call.updated(stored, "cache", {count * kept * texts.capacity, size}),
                 call.out(stored, "y", {texts.rows(), sizes.heads_width()}));
          },
          windows_and_single_rows),
  };
}

}  // namespace lockstep::trial
