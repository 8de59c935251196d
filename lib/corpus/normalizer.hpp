// What happens to a text before it is cut into pieces: the normalizers of the tokenizers library.
#pragma once

#include "base/json_fwd.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class Normalizer {
 public:
  /// None: texts stay as they are.
  Normalizer() = default;
  /// Of a tokenizer.json. Throws Error(usage) that names what is not supported, Error(input) for what is malformed.
  Normalizer(const Json& normalizer, const std::string& where);

  bool is_none() const { return steps_.empty(); }
  /// Whether parts of a text that a space begins come out as the text does: normalized(a + b) = normalized(a) +
  /// normalized(b) where b begins with a space and a ends with a character that is no white space.
  bool keeps_cuts() const { return keeps_cuts_; }
  /// Throws Error(input) if the result is far longer than the text.
  std::string apply(std::string_view text) const;
  /// Also turns the opening of the text into that of the result: corpus/text_opening.hpp.
  std::string apply(std::string_view text, std::size_t& opening) const;

 private:
  friend class NormalizerReader;
  /// SizeLimit bounds the size of normalized text.
  struct SizeLimit {
    std::size_t text;  // its bytes
    std::size_t most;
    /// Throws Error(input).
    void require(std::size_t made) const;
  };
  using Step = std::function<std::string(std::string_view, std::size_t& opening, const SizeLimit& limit)>;
  std::vector<Step> steps_;
  bool keeps_cuts_ = true;
};

}  // namespace lockstep
