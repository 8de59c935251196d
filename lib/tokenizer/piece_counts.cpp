#include "tokenizer/piece_counts.hpp"

#include <bit>

namespace lockstep {

namespace {

constexpr std::size_t first_slots = std::size_t{1} << 12;
constexpr std::size_t entry_bytes = 96;  // of a long piece, besides its text

std::string text_of(const PieceKey& key) {
  std::array<char, sizeof key> bytes;
  std::memcpy(bytes.data(), &key, sizeof key);
  return std::string(bytes.data(), static_cast<unsigned char>(bytes.back()));
}

}  // namespace

std::size_t PieceCounts::mix(const PieceKey& key) {
  std::uint64_t mixed = (key.low * 0x9E3779B97F4A7C15u) ^ (key.high * 0xC2B2AE3D27D4EB4Fu);
  mixed ^= mixed >> 32;
  return mixed * 0x9E3779B97F4A7C15u >> 20;
}

void PieceCounts::add(std::string_view text, std::size_t begin, std::size_t end) {
  if (end - begin > PieceKey::longest_piece) {
    const std::string_view piece = text.substr(begin, end - begin);
    if (const auto found = long_.find(piece); found != long_.end()) {
      ++found->second;
    } else {
      long_.emplace(piece, 1);
      long_bytes_ += piece.size() + entry_bytes;
    }
    return;
  }
  if (2 * used_ >= slots_.size()) grow();
  const PieceKey key = key_of_piece(text, begin, end);
  std::size_t at = mix(key) & (slots_.size() - 1);
  while (slots_[at].count > 0 && !(slots_[at].key == key)) at = (at + 1) & (slots_.size() - 1);
  used_ += slots_[at].count == 0 ? 1 : 0;
  slots_[at].key = key;
  ++slots_[at].count;
}

void PieceCounts::grow() {
  std::vector<Slot> slots(slots_.empty() ? first_slots : 2 * slots_.size());
  for (const Slot& slot : slots_) {
    if (slot.count == 0) continue;
    std::size_t at = mix(slot.key) & (slots.size() - 1);
    while (slots[at].count > 0) at = (at + 1) & (slots.size() - 1);
    slots[at] = slot;
  }
  slots_ = std::move(slots);
}

std::vector<std::pair<std::string, std::uint64_t>> PieceCounts::take() {
  std::vector<std::pair<std::string, std::uint64_t>> counted;
  counted.reserve(used_ + long_.size());
  for (const Slot& slot : slots_) {
    if (slot.count > 0) counted.emplace_back(text_of(slot.key), slot.count);
  }
  while (!long_.empty()) {
    auto entry = long_.extract(long_.begin());
    counted.emplace_back(std::move(entry.key()), entry.mapped());
  }
  slots_.clear();
  used_ = long_bytes_ = 0;
  return counted;
}

}  // namespace lockstep
