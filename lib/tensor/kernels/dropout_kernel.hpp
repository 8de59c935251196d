// Dropout (Srivastava et al., 2014) with masks that depend only on the position of a value. The layout, the micro-batch
// and recomputation do not change them, and none is stored: backward draws them again. The 16 random bits of a value
// come from Philox 4x32-10 (base/random.hpp):
//   key      words 0 and 1 of philox({step low, step high, layer, site}, {seed low, seed high})
//   counter  {column / 8, index in the row, sample, head}
//   bits     half column mod 8 of the four words, the low half of a word first
// A value is dropped if its bits are below `threshold`; the others are multiplied by `scale`. Columns are channels. In
// attention they are keys, by their index in the row, and `index in the row` is that of the query.
#pragma once

#include "tensor/kernels/number.hpp"

#include <array>
#include <cstdint>

namespace lockstep {

/// Sites of dropout in a model. The numbers are part of the formula.
enum class DropoutSite : std::uint32_t { embedding = 1, attention = 2, attention_output = 3, mlp_output = 4 };

/// Mask of one site of one layer in a step. A default mask drops nothing.
struct DropoutMask {
  std::array<std::uint32_t, 2> key{};
  std::uint32_t threshold = 0;  // of 65536
  double scale() const { return 65536.0 / (65536.0 - threshold); }
  explicit operator bool() const { return threshold > 0; }
};

/// The threshold is rate · 65536, rounded, and from 1 to 65535 unless the rate is 0; 0 ≤ rate < 1. An embedding has
/// layer 0.
DropoutMask dropout_mask(double rate, std::uint64_t seed, std::int64_t step, std::int64_t layer, DropoutSite site);

/// Position of a token: sample · 2^32 + index in the row of the sample, without padding. A negative place marks
/// padding, where nothing is dropped.
using Place = std::int64_t;
constexpr std::int64_t index_in_row(Place place) {
  return static_cast<std::int64_t>(static_cast<std::uint32_t>(place));
}

/// y (rows, columns) = base + dropout(y + bias (columns, or nullptr)).
template <class T>
void dropout_add(const DropoutMask& mask, const Place* places, std::int64_t rows, std::int64_t columns,
                 const Math<T>* base, const T* bias, Math<T>* y);

/// y (rows, columns) = dropout(x), rounded to T. y may be x.
template <class T>
void dropout(const DropoutMask& mask, const Place* places, std::int64_t rows, std::int64_t columns, const Math<T>* x,
             T* y);

/// Dropout of attention probabilities. Heads are numbered from `first_head` on, and the keys of a segment are
/// consecutive in their row.
struct AttentionDropout {
  DropoutMask mask;
  const Place* places = nullptr;  // of all tokens
  std::int64_t first_head = 0;
};

/// Applies dropout to scores of `count` keys; the first key has index `first_key` in its row. Runs on one thread.
template <class M>
void dropout_keys(const DropoutMask& mask, Place query, std::int64_t head, std::int64_t first_key, std::int64_t count,
                  M* scores);

}  // namespace lockstep
