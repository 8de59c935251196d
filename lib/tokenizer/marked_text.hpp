// Encodes a text as a whole and reports how many ids precede given borders. A prompt with its completion thus gets the
// ids of the whole text and an exact mask. Literal ranges mark places where a special token spelled out in the text is
// plain text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

class AddedTokens;

/// A range of bytes of a text.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const TextRange&) const = default;
};

/// AcrossBorder says how to treat a token that would reach across a border.
enum class AcrossBorder {
  apart,  // the text is encoded separately on both sides, as when a model continues a prompt
  whole,  // the token is kept, and counts as before the border
};

struct TextBorder {
  std::size_t at = 0;  // offset in the text
  AcrossBorder across = AcrossBorder::apart;
};

struct MarkedText {
  std::string_view text;                // valid UTF-8
  std::span<const TextRange> literal;   // special tokens that touch these ranges are plain text; ascending
  std::span<const TextBorder> borders;  // ascending
};

struct MarkedIds {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> borders;  // for each border: how many ids begin before it
  std::int64_t apart = 0;            // number of borders at which AcrossBorder::apart split the text
};

/// Appends the ids of `part`, a view into the whole text.
using EncodePart = std::function<void(std::string_view part, std::vector<std::int32_t>& ids)>;

/// Implements Encoder::encode_marked: finds the tokens of `added` first, and calls `encode` for the text between them.
MarkedIds encode_marked_parts(const MarkedText& text, const AddedTokens& added, const EncodePart& encode);

}  // namespace lockstep
