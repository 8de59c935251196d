// Caches the ids of short pieces of text, for one thread. It is a table of fixed size, two-way set-associative: a set
// is one cache line, and a new piece replaces the less recently used one of its set.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// A piece of up to 15 bytes as two words: its bytes, then zeros, and its size in the last byte.
struct PieceKey {
  static constexpr std::size_t longest_piece = 15;  // bytes
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const PieceKey& other) const {
    return low == other.low && high == other.high;
  }  // not memcmp, which would be called
};

/// The key of `text[begin, end)`, at most PieceKey::longest_piece bytes.
inline PieceKey key_of_piece(std::string_view text, std::size_t begin, std::size_t end) {
  using Bytes = std::array<std::uint8_t, sizeof(PieceKey)>;
  using BySize = std::array<PieceKey, PieceKey::longest_piece + 1>;
  static constexpr BySize masks = [] {  // ones at the bytes of the piece
    BySize keys;
    Bytes bytes{};
    for (std::size_t size = 0; size < keys.size(); bytes[size++] = 0xFF) keys[size] = std::bit_cast<PieceKey>(bytes);
    return keys;
  }();
  static constexpr BySize sizes = [] {
    BySize keys;
    Bytes bytes{};
    for (std::size_t size = 0; size < keys.size(); bytes.back() = static_cast<std::uint8_t>(++size))
      keys[size] = std::bit_cast<PieceKey>(bytes);
    return keys;
  }();
  PieceKey key;
  const std::size_t size = end - begin;
  if (text.size() - begin >= sizeof key) {  // a copy of constant size, then masked: no call
    std::memcpy(&key, text.data() + begin, sizeof key);
    key.low &= masks[size].low;
    key.high &= masks[size].high;
  } else {
    std::memcpy(&key, text.data() + begin, size);
  }
  key.high |= sizes[size].high;
  return key;
}

class PieceCache {
 public:
  static constexpr std::size_t most_ids = 3;
  struct Entry {
    PieceKey key;  // the key of no piece while the entry is empty
    std::uint32_t ids = 0;
    std::array<std::int32_t, most_ids> id{};
  };

  /// The entry of a piece, which is not empty; null if it is not cached. Valid until the next insertion.
  const Entry* find(const PieceKey& key) {
    Set& set = set_of(key);
    if (set.newer.key == key) return &set.newer;
    if (!(set.older.key == key)) return nullptr;
    std::swap(set.newer, set.older);
    return &set.newer;
  }
  void insert(const Entry& entry) {
    Set& set = set_of(entry.key);
    set.older = std::exchange(set.newer, entry);
  }

 private:
  struct alignas(64) Set {
    Entry newer;
    Entry older;
  };
  static_assert(sizeof(Set) == 64);
  static constexpr int set_bits = 15;

  Set& set_of(const PieceKey& key) {
    std::uint64_t mixed = (key.low * 0x9E3779B97F4A7C15u) ^ (key.high * 0xC2B2AE3D27D4EB4Fu);
    mixed ^= mixed >> 32;
    return sets_[mixed * 0x9E3779B97F4A7C15u >> (64 - set_bits)];
  }

  std::vector<Set> sets_ = std::vector<Set>(std::size_t{1} << set_bits);
};

}  // namespace lockstep
