// Counts how often each piece of text occurs, on one thread. The borders of pieces: tokenizer/piece_pattern.hpp. Adding
// the counts of threads and ranks: prepare/count_pieces.hpp.
#pragma once

#include "tokenizer/piece_cache.hpp"
#include "tokenizer/token_model.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {

class PieceCounts {
 public:
  /// Counts the piece `text[begin, end)`, which is not empty.
  void add(std::string_view text, std::size_t begin, std::size_t end);
  /// Memory in use, approximately.
  std::size_t bytes() const { return slots_.size() * sizeof(Slot) + long_bytes_; }
  bool empty() const { return used_ == 0 && long_.empty(); }
  /// Returns the counted pieces in no particular order, and starts again from zero.
  std::vector<std::pair<std::string, std::uint64_t>> take();

 private:
  struct Slot {
    PieceKey key;  // the key of no piece while the slot is empty
    std::uint64_t count = 0;
  };
  static std::size_t mix(const PieceKey& key);
  void grow();

  std::vector<Slot> slots_;  // pieces of up to PieceKey::longest_piece bytes; its size is a power of two
  std::size_t used_ = 0;
  std::unordered_map<std::string, std::uint64_t, TextHash, std::equal_to<>> long_;  // longer pieces
  std::size_t long_bytes_ = 0;
};

}  // namespace lockstep
