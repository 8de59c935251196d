// TextSampler continues prompts with the model as it is, several at once: for the callback sample and for --sample. The
// draw of a token: model/sampled_text.hpp.
#pragma once

#include "architecture/block_profile.hpp"
#include "comm/session.hpp"
#include "config/sample_options.hpp"
#include "engine/engine.hpp"
#include "model/sampled_text.hpp"
#include "report/record.hpp"
#include "tokenizer/tokenizer.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A prompt, as the user gave it and as tokens. Equal on all ranks.
struct Prompt {
  std::string text;
  std::vector<std::int32_t> ids;
  std::string origin = {};  // where it was given, for error messages
};

struct GeneratedText {
  std::size_t number = 0;                 // texts of the first prompt come first
  std::size_t prompt = 0;                 // number of its prompt
  std::string text;                       // the continuation
  std::vector<std::int32_t> ids;          // of the continuation, with a token that ended it
  std::vector<double> log_probabilities;  // of these ids, in nats
  std::optional<EndOfText> end;           // not set: it goes on
  double seconds = 0;                     // from the first pass over its prompt to its last token; of this rank
};

/// The record of a text that has ended, by a model of this step. Pure.
SampleRecord record_of(const Prompt& prompt, const GeneratedText& text, std::int64_t step);

/// The ids that stand for some text behind other text: where the model's vocabulary is larger, or the tokenizer's has
/// gaps, a token without text could be drawn. Local.
std::vector<std::int32_t> ids_with_text(const Tokenizer& tokenizer);

/// The tokens that end a text: those of a generation_config.json, whose text may be empty, or else the token that joins
/// documents. Local. Throws Error(input) for a malformed one.
std::vector<std::int32_t> stop_tokens_of(const std::string& generation_config, const Tokenizer& tokenizer);

class TextSampler {
 public:
  /// The work of rank 0 on each text, at its end or after each of its tokens. Local; it may throw.
  struct Follower {
    bool each_token = false;  // equal on all ranks
    std::function<void(const GeneratedText& so_far)> take;
    std::function<bool()> wants_more;  // false: all texts end
  };

  /// All arguments must outlive it. A text ends at one of `stop_tokens`. Local.
  TextSampler(const SampleOptions& options, const TextShape& shape, Engine& engine, const Model& model,
              const Tokenizer& tokenizer, std::vector<std::int32_t> stop_tokens, Session& session, std::int64_t step);

  /// Returns options.count texts of each prompt, in order; those of one prompt differ by the draw. Equal on all ranks,
  /// except for seconds. If `follower` wants no more texts, later ones are not begun. Collective over the world.
  /// Failures are agreed Errors; Error(input) for a prompt without a token or with more than the model has positions,
  /// Error(numerics) for logits that are not finite.
  std::vector<GeneratedText> generate(const std::vector<Prompt>& prompts,
                                      const std::optional<Follower>& follower = std::nullopt);

 private:
  struct Running;
  std::vector<Running> begin(const std::vector<Prompt>& prompts, std::size_t first, std::size_t end) const;
  GeneratedText made_of(const Running& one) const;
  std::vector<Running*> pass(std::vector<Running>& texts);
  bool hand_out(const std::vector<Running*>& drawn, const Follower& follower) const;

  const SampleOptions& options_;
  TextShape shape_;
  Engine& engine_;
  const Model& model_;
  const Tokenizer& tokenizer_;
  TextRules rules_;
  Session& session_;
  std::int64_t step_;
};

}  // namespace lockstep
