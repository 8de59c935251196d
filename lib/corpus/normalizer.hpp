// What happens to a text before it is cut into pieces: the normalizers of the tokenizers library.
#pragma once

#include "base/json_fwd.hpp"

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
  std::string apply(std::string_view text) const;

 private:
  friend class NormalizerReader;
  using Step = std::function<std::string(std::string_view)>;
  std::vector<Step> steps_;
  bool keeps_cuts_ = true;
};

}  // namespace lockstep
