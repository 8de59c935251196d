// Dropout (Srivastava et al., 2014) whose masks are functions of where a value stands, so that no layout, micro-batch
// or recomputation changes them and none is stored: backward draws them again. The 16 bits of a value come from Philox
// 4x32-10 (base/random.hpp):
//   key      words 0 and 1 of philox({step low, step high, layer, site}, {seed low, seed high})
//   counter  {column / 8, index in the row, sample, head}
//   bits     half column mod 8 of the four words, the low half of a word first
// A value is dropped if its bits are below `threshold`; what is kept is multiplied by `scale`. Columns are channels; of
// attention they are keys, by their index in the row, as `index in the row` is the query's.
#pragma once

#include "tensor/kernels/number.hpp"

#include <array>
#include <cstdint>

namespace lockstep {

/// Where a model drops. Values are part of the formula.
enum class DropoutSite : std::uint32_t { embedding = 1, attention = 2, attention_output = 3, mlp_output = 4 };

/// What one site of one layer drops in a step. A default mask drops nothing.
struct DropoutMask {
  std::array<std::uint32_t, 2> key{};
  std::uint32_t threshold = 0;  // of 65536
  double scale() const { return 65536.0 / (65536.0 - threshold); }
  explicit operator bool() const { return threshold > 0; }
};

/// The threshold is rate · 65536, rounded, and from 1 to 65535 unless the rate is 0; 0 ≤ rate < 1. An embedding has
/// layer 0.
DropoutMask dropout_mask(double rate, std::uint64_t seed, std::int64_t step, std::int64_t layer, DropoutSite site);

/// Where a token stands: sample · 2^32 + index in the row of the sample, without padding. A negative place is
/// padding's, of which nothing is dropped.
using Place = std::int64_t;
constexpr std::int64_t index_in_row(Place place) {
  return static_cast<std::int64_t>(static_cast<std::uint32_t>(place));
}

/// y (rows, columns) = base + what is left of y + bias (columns, or nullptr).
template <class T>
void dropout_add(const DropoutMask& mask, const Place* places, std::int64_t rows, std::int64_t columns,
                 const Math<T>* base, const T* bias, Math<T>* y);

/// y (rows, columns) = what is left of x, rounded to T. y may be x.
template <class T>
void dropout(const DropoutMask& mask, const Place* places, std::int64_t rows, std::int64_t columns, const Math<T>* x,
             T* y);

/// What attention drops: heads are numbered from `first_head` on, and the keys of a segment follow each other in their
/// row.
struct AttentionDropout {
  DropoutMask mask;
  const Place* places = nullptr;  // of all tokens
  std::int64_t first_head = 0;
};

/// scores[j] = what is left of it, for `count` keys of which the first has index `first_key` in its row. Of one thread.
template <class M>
void dropout_keys(const DropoutMask& mask, Place query, std::int64_t head, std::int64_t first_key, std::int64_t count,
                  M* scores);

}  // namespace lockstep
