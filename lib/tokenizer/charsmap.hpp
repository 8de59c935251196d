// The precompiled character map of sentencepiece, which tokenizer.json holds in base64. It is a trie (a double array)
// of strings and their replacements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class Charsmap {
 public:
  /// Throws Error(input), beginning with `where`, if `blob` is not such a map.
  Charsmap(std::string_view blob, const std::string& where);

  struct Match {
    std::size_t size;          // bytes of the text
    std::string_view becomes;  // the replacement; valid as long as the map
  };
  /// The rule for the shortest prefix of `text` that has one; nothing if none has.
  std::optional<Match> shortest(std::string_view text) const;
  /// The rule for the longest prefix of `text` that has one; nothing if none has.
  std::optional<Match> longest(std::string_view text) const;

 private:
  template <class Found>
  void search(std::string_view text, const Found& found) const;
  std::string_view text_at(std::uint32_t place) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;  // each ends with a zero
};

}  // namespace lockstep
