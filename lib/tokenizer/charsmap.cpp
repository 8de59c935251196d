#include "tokenizer/charsmap.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <cstring>

namespace lockstep {

namespace {
// A unit of the double array has a label, an offset to its children, and perhaps a leaf, whose unit is a value.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFF'FFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x8000'00FF; }
bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}  // a character begun before
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& where) {
  std::uint32_t trie_bytes = 0;
  if (blob.size() >= sizeof trie_bytes) std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
  if (trie_bytes == 0 || trie_bytes % sizeof(std::uint32_t) != 0 || trie_bytes > blob.size() - sizeof trie_bytes)
    fail(ExitCode::input, "{}: a character map of {} bytes cannot have a trie of {} bytes", where, blob.size(),
         trie_bytes);
  units_.resize(trie_bytes / sizeof(std::uint32_t));
  std::memcpy(units_.data(), blob.data() + sizeof trie_bytes, trie_bytes);
  texts_ = blob.substr(sizeof trie_bytes + trie_bytes);
  if (!texts_.empty() && texts_.back() != '\0') fail(ExitCode::input, "{}: the character map is truncated", where);
  if (const auto bad = first_invalid_utf8(texts_))
    fail(ExitCode::input, "{}: the character map produces invalid UTF-8, at byte {}", where, *bad);
}

std::string_view Charsmap::text_at(std::uint32_t place) const {
  const bool begins_character = place < texts_.size() && !is_continuation(texts_[place]);
  return begins_character ? std::string_view(texts_.data() + place) : std::string_view();
}

template <class Found>
void Charsmap::search(std::string_view text, const Found& found) const {
  std::size_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) return;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit) || (i + 1 < text.size() && is_continuation(text[i + 1]))) continue;
    if (node >= units_.size()) return;
    if (!found(Match{i + 1, text_at(value_of(units_[node]))})) return;
  }
}

std::optional<Charsmap::Match> Charsmap::shortest(std::string_view text) const {
  std::optional<Match> match;
  search(text, [&](const Match& found) {
    match = found;
    return false;
  });
  return match;
}

std::optional<Charsmap::Match> Charsmap::longest(std::string_view text) const {
  std::optional<Match> match;
  search(text, [&](const Match& found) {
    match = found;
    return true;
  });
  return match;
}

}  // namespace lockstep
