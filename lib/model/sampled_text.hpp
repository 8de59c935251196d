// SampledText is a text that a model continues token by token: temperature, top-k, top-p, a draw that is a function of
// (seed, prompt, position) alone, and the reasons to end. Plain values; engine/engine.hpp runs the model on passes over
// several texts (model/text_pass.hpp).
#pragma once

#include "base/random.hpp"
#include "config/sample_options.hpp"
#include "model/text_pass.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The reason why a text ended: sample.max_tokens, a token or a text that ends it, or the model's positions.
enum class EndOfText { length, stop_token, stop_text, positions };
std::string_view name_of(EndOfText end);

/// The rules of a model and its tokenizer for a text.
struct TextRules {
  std::vector<std::int32_t> candidates = {};   // the only ids that may be drawn, ascending; empty: all of the model
  std::vector<std::int32_t> stop_tokens = {};  // each ends the text, and is its last token
  std::int64_t positions = 0;                  // most tokens of a text, the prompt included
  // The text of ids. Needed for sample.stop and text().
  std::function<std::string(std::span<const std::int32_t>)> decode = {};
};

/// Ranks that append the same tokens hold the same text. All members are Local.
class SampledText {
 public:
  /// Throws Error(input) for an empty prompt, and for one with more tokens than `rules.positions`.
  SampledText(std::vector<std::int32_t> prompt, const SampleOptions& options, TextRules rules);

  /// Not set: it goes on.
  std::optional<EndOfText> end() const { return end_; }
  /// The rows that the next pass computes, at most `most`; the text has the place `slot` in the caches. `tokens()` must
  /// outlive them unchanged.
  TextRows next_rows(std::int32_t slot, std::int64_t most) const;
  /// Whether a part of the prompt is not computed yet.
  bool begins() const { return computed_ < std::ssize(tokens_) && computed_ < prompt_length_; }
  /// Notes the number of rows that a pass has computed.
  void computed(std::int64_t rows) { computed_ += rows; }
  /// Draws the next token. Throws Error(numerics) if a logit is not finite.
  DrawnToken draw(std::span<const double> logits) const;
  void append(const DrawnToken& token);

  const std::vector<std::int32_t>& tokens() const { return tokens_; }  // the prompt first
  std::span<const std::int32_t> added() const {
    return std::span(tokens_).subspan(static_cast<std::size_t>(prompt_length_));
  }
  const std::vector<double>& log_probabilities() const { return log_probabilities_; }  // of the added tokens
  /// The added tokens as text, without the token or the text that ended it. Needs `rules.decode`.
  std::string text() const;

 private:
  std::optional<EndOfText> end_after(std::int32_t token) const;
  /// The text of the tokens from number `begin` on, as it reads behind the tokens before.
  std::string text_from(std::size_t begin) const;
  /// Whether the last token completes a text of sample.stop.
  bool meets_stop() const;
  SampleOptions options_;
  TextRules rules_;
  std::vector<std::int32_t> tokens_;
  std::int64_t prompt_length_;
  std::int64_t computed_ = 0;  // tokens whose keys and values are in the caches
  std::vector<double> log_probabilities_;
  RandomStream random_;
  std::optional<EndOfText> end_;
};

}  // namespace lockstep
