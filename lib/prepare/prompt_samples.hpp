// Makes samples of a prompt and its completion, both texts. They are encoded together, as in TRL: the ids of the prompt
// alone come first, and the ids behind them are the completion. If a token would span the border, TRL warns. Here the
// two are then encoded apart, because the model meets the prompt alone when it answers. Their records:
// prepare/prompt_records.cpp, prepare/instruction_records.cpp.
#pragma once

#include "config/record_options.hpp"
#include "prepare/sample_shape.hpp"
#include "tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// Makes samples on one thread.
class PromptSamples {
 public:
  /// The tokenizer must outlive it.
  PromptSamples(const Tokenizer& tokenizer, const RecordOptions& options);

  /// Returns the sample of valid UTF-8. Its labels are the tokens of the completion, or all with data.train_on all.
  Sample sample_of(std::string_view prompt, std::string_view completion);
  std::uint64_t left_out() const { return encoder_->left_out(); }
  bool trains_on_all() const { return trains_on_all_; }

 private:
  std::unique_ptr<Encoder> encoder_;
  SpecialTokens special_tokens_;
  bool trains_on_all_;
  std::string text_;
};

}  // namespace lockstep
