// How tokens become text again: the decoders of the tokenizers library.
#pragma once

#include "base/json_fwd.hpp"

#include <functional>
#include <string>
#include <vector>

namespace lockstep {

class TokenDecoder {
 public:
  /// None: tokens with spaces between them.
  TokenDecoder() = default;
  /// Of a tokenizer.json. Throws Error(usage) that names what is not supported, Error(input) for what is malformed.
  TokenDecoder(const Json& decoder, const std::string& where);

  bool is_none() const { return is_none_; }
  /// Whether tokens are letters that stand for bytes, and nothing else happens to them.
  bool is_byte_level() const { return is_byte_level_; }
  /// The text of the tokens; bytes that a cut sequence leaves stay as they are.
  std::string apply(std::vector<std::string> tokens) const;

 private:
  friend class TokenDecoderReader;
  using Step = std::function<void(std::vector<std::string>&)>;
  std::vector<Step> steps_;
  bool is_none_ = true;
  bool is_byte_level_ = false;
};

}  // namespace lockstep
