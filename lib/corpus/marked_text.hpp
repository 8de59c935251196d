// A text that is encoded as a whole, and of which it is told how many ids come before given places: so a prompt with
// its completion gets the ids of the whole and an exact mask. Which parts spell special tokens out as text is said too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

class AddedTokens;

/// Bytes of a text.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const TextRange&) const = default;
};

/// AcrossBorder says what becomes of a token that would reach across a border.
enum class AcrossBorder {
  apart,  // there is none: what is before and behind is encoded apart, as where a model goes on behind a prompt
  whole,  // it stays, and begins before
};

struct TextBorder {
  std::size_t at = 0;  // a place in the text
  AcrossBorder across = AcrossBorder::apart;
};

struct MarkedText {
  std::string_view text;                // valid UTF-8
  std::span<const TextRange> literal;   // special tokens that touch these are text; ascending
  std::span<const TextBorder> borders;  // ascending
};

struct MarkedIds {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> borders;  // ids of what begins before each
  std::int64_t apart = 0;            // of these borders, those where AcrossBorder::apart took effect
};

/// Appends ids of a part of the text, which lies in it.
using EncodePart = std::function<void(std::string_view part, std::vector<std::int32_t>& ids)>;

/// For encoders: `added` are their tokens that are found first, `encode` gives the ids of what lies between these.
MarkedIds encode_marked_parts(const MarkedText& text, const AddedTokens& added, const EncodePart& encode);

}  // namespace lockstep
