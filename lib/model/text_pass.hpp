// A pass over texts: the rows of each text that a model computes next. model/sampled_text.hpp chooses them,
// engine/engine.hpp runs the pass.
#pragma once

#include "data/batch.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lockstep {

/// The next rows of several texts, packed as one sample without labels. Equal on all ranks.
struct TextPass {
  Batch batch;                      // each segment has the rows of one text
  std::vector<std::int32_t> slots;  // by segment: the place of its text in the caches
  std::vector<bool> draws;          // by segment: whether the token after its last row is drawn
  // Tokens of the longest of these texts; with a scaling of rotary positions that depends on the length, it decides the
  // frequencies of the pass.
  std::int64_t length = 0;
};

struct DrawnToken {
  std::int32_t id = 0;
  double log_probability = 0;  // in nats, by the model alone: without temperature, top-k and top-p
  bool operator==(const DrawnToken&) const = default;
};

/// Draws the token after the last row of a segment, from its logits, one for each token of the model.
using TokenDraw = std::function<DrawnToken(std::size_t segment, std::span<const double> logits)>;

/// The rows of one text in a pass: tokens [first, first + count).
struct TextRows {
  std::int32_t slot = 0;
  std::span<const std::int32_t> tokens;  // of the whole text so far
  std::int64_t first = 0, count = 0;
};

/// Packs the rows. Pure.
TextPass pass_over(const std::vector<TextRows>& texts);

}  // namespace lockstep
