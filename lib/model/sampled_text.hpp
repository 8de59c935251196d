// SampledText is a text that is sampled from a model token by token: temperature, top-k, and a draw that is a function
// of (seed, prompt, position) alone. Plain values; engine/engine.hpp runs the model on it.
#pragma once

#include "base/random.hpp"
#include "config/sample_options.hpp"
#include "data/batch.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lockstep {

/// The tokens that may be drawn, and the token that ends the text.
struct Continuation {
  std::vector<std::int32_t> candidates = {};  // the only ids that may be drawn, ascending; empty: all of the model
  std::int32_t stop_token = -1;               // ends the text early; −1: none
};

/// The part of a text that a model reads.
struct TextWindow {
  std::int64_t positions = 0;  // number of tokens, counted from the end
};

/// The part of a text that a model reads, as one sample without labels.
struct TextInput {
  Batch batch;
  std::int64_t last = 0;  // position of the last token
};

struct DrawnToken {
  std::int32_t id = 0;
  bool ends = false;  // the text ends with it
};

/// Draws from the logits after the last token of a text, one for each token of the model.
using TokenDraw = std::function<DrawnToken(std::span<const double> logits)>;

/// Ranks that append the same tokens hold the same text. All members are Local.
class SampledText {
 public:
  /// Throws Error(input) for an empty prompt.
  SampledText(std::vector<std::int32_t> prompt, const SampleOptions& options, const TextWindow& window,
              Continuation next = {});

  bool ended() const { return ended_; }
  TextInput seen() const;
  /// The next token. Throws Error(numerics) if a logit is not finite.
  DrawnToken draw(std::span<const double> logits) const;
  void append(const DrawnToken& token);
  const std::vector<std::int32_t>& tokens() const { return tokens_; }  // the prompt first
  std::span<const std::int32_t> added() const { return std::span(tokens_).subspan(prompt_length_); }

 private:
  SampleOptions options_;
  TextWindow window_;
  Continuation next_;
  std::vector<std::int32_t> tokens_;
  std::size_t prompt_length_;
  RandomStream random_;
  bool ended_ = false;
};

}  // namespace lockstep
