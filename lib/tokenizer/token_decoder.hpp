// Decoders of the tokenizers library: they turn tokens into text.
#pragma once

#include "base/json_fwd.hpp"

#include <functional>
#include <string>
#include <vector>

namespace lockstep {

class TokenDecoder {
 public:
  /// No decoder: tokens are joined with spaces.
  TokenDecoder() = default;
  /// Reads the decoder of a tokenizer.json. Throws Error(usage) naming a part that is not supported, Error(input) if it
  /// is malformed.
  TokenDecoder(const Json& decoder, const std::string& where);

  bool is_none() const { return is_none_; }
  /// Whether decoding only turns letters of the byte-level alphabet into bytes.
  bool is_byte_level() const { return is_byte_level_; }
  /// The text of the tokens. Bytes of an incomplete UTF-8 sequence stay unchanged.
  std::string apply(std::vector<std::string> tokens) const;

 private:
  friend class TokenDecoderReader;
  using Step = std::function<void(std::vector<std::string>&)>;
  std::vector<Step> steps_;
  bool is_none_ = true;
  bool is_byte_level_ = false;
};

}  // namespace lockstep
