// Normalizers of the tokenizers library: they change a text before it is cut into pieces (tokenizer/pre_tokenizer.hpp).
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
  /// No normalizer: texts stay unchanged.
  Normalizer() = default;
  /// Reads the normalizer of a tokenizer.json. Throws Error(usage) naming a part that is not supported, Error(input) if
  /// it is malformed.
  Normalizer(const Json& normalizer, const std::string& where);

  bool is_none() const { return steps_.empty(); }
  /// Whether a text may be normalized in parts that begin with a space: normalized(a + b) = normalized(a) +
  /// normalized(b) if b begins with a space and a ends with a character that is not white space.
  bool keeps_cuts() const { return keeps_cuts_; }
  /// The normalized text. Throws Error(input) if it is far longer than `text`.
  std::string apply(std::string_view text) const;
  /// As above; also turns the opening of the text into that of the result (unicode/text_opening.hpp).
  std::string apply(std::string_view text, std::size_t& opening) const;

 private:
  friend class NormalizerReader;
  /// SizeLimit bounds the size of normalized text.
  struct SizeLimit {
    std::size_t text;  // bytes of the text
    std::size_t most;
    /// Throws Error(input).
    void require(std::size_t made) const;
  };
  using Step = std::function<std::string(std::string_view, std::size_t& opening, const SizeLimit& limit)>;
  std::vector<Step> steps_;
  bool keeps_cuts_ = true;
};

}  // namespace lockstep
