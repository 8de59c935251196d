#include "tokenizer/tokenizer.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

namespace lockstep {

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  if (const auto bad = first_invalid_utf8(text))
    fail(ExitCode::input, "cannot tokenize text: byte {} is not valid UTF-8", *bad);
  std::vector<std::int32_t> ids;
  encoder()->encode(text, ids);
  return ids;
}

Hash128 Tokenizer::hash() const {
  StreamHash hash;
  const char* const reading = special_tokens() == SpecialTokens::text ? " text" : "";
  hash.add(fmt::format("{} {}{}\n", name(), end_of_text().value_or(-1), reading));
  for (const TokenizerFile& file : files()) {
    if (file.name == "tokenizer_config.json") continue;  // about use; what of it decides ids is in the line above
    hash.add(fmt::format("{} {}\n", file.name, file.content.size()));
    hash.add(file.content);
  }
  return hash.digest();
}

}  // namespace lockstep
