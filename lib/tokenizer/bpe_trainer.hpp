// Trains a byte-level BPE on counted pieces of text. The first tokens are the bytes. Then the most frequent pair of
// adjacent tokens becomes a token, again and again, until the vocabulary is full. Of equally frequent pairs the one
// with the lowest ids is taken, so equal counts give equal tokens. Applying merges: tokenizer/bpe_merges.hpp. Counting
// pieces: prepare/count_pieces.hpp.
#pragma once

#include "tokenizer/tokenizer_json.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct CountedPiece {
  std::string_view bytes;
  std::uint64_t count = 0;
};

struct BpeTraining {
  std::int64_t vocabulary = 0;              // size of the vocabulary, with the special tokens and the 256 bytes
  std::uint64_t min_count = 1;              // least count of a pair that becomes a token
  std::vector<std::string> special_tokens;  // have the first ids
};

struct TrainedBpe {
  ModelDescription model;    // tokens in the byte-level alphabet, in the order of their ids
  std::uint64_t tokens = 0;  // in all occurrences of all pieces
};

/// Limit of the total bytes of pieces; training takes about 20 times that in memory.
inline constexpr std::size_t most_piece_bytes = std::size_t{1} << 28;

/// Trains a BPE. Each piece is given once, in any order, and the counts add up to less than 2^63. `alive` is called
/// during the work with the present size of the vocabulary. The vocabulary is smaller than requested if no more pair
/// occurs min_count times. Throws Error(resources) for more than most_piece_bytes. Local.
TrainedBpe train_bpe(std::span<const CountedPiece> pieces, const BpeTraining& settings,
                     const std::function<void(std::int64_t vocabulary)>& alive);

}  // namespace lockstep
