#include "prepare/prompt_samples.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep {

PromptSamples::PromptSamples(const Tokenizer& tokenizer, const RecordOptions& options)
    : encoder_(tokenizer.encoder()),
      special_tokens_(tokenizer.special_tokens()),
      trains_on_all_(options.trained() == TrainOn::all) {}

Sample PromptSamples::sample_of(std::string_view prompt, std::string_view completion) {
  text_ = prompt;
  text_ += completion;
  const std::array<TextBorder, 1> border{TextBorder{prompt.size()}};
  const std::array<TextRange, 1> all{TextRange{0, text_.size()}};
  MarkedText marked{text_, {}, border};
  if (special_tokens_ == SpecialTokens::text) marked.literal = all;
  MarkedIds made = encoder_->encode_marked(marked);
  Sample sample{.ids = std::move(made.ids), .end_counts = true, .text_bytes = text_.size(), .apart = made.apart};
  sample.mask.resize(sample.ids.size(), 1);
  if (!trains_on_all_) std::fill_n(sample.mask.begin(), static_cast<std::ptrdiff_t>(made.borders[0]), std::uint8_t{0});
  return sample;
}

}  // namespace lockstep
