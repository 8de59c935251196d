// Byte-level BPE learned from counted pieces. Tokens are at first the bytes; then, again and again, the pair of tokens
// that stands beside each other most often becomes a token, as long as there is room in the vocabulary. Of pairs that
// are equally frequent the one with the lowest ids comes first, so the same counts give the same tokens. Applying
// merges to text: corpus/bpe_merges.hpp. Who counts pieces: data/count_pieces.hpp.
#pragma once

#include "corpus/tokenizer_json.hpp"

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
  std::int64_t vocabulary = 0;              // ids to have, with the special tokens and the 256 bytes
  std::uint64_t min_count = 1;              // of a pair that becomes a token
  std::vector<std::string> special_tokens;  // have the first ids
};

struct TrainedBpe {
  ModelDescription model;    // tokens written with letters for bytes, in the order of their ids
  std::uint64_t tokens = 0;  // that the pieces are, all occurrences counted
};

/// The bytes of pieces that are trained on at once, at most: memory is about 20 times that.
inline constexpr std::size_t most_piece_bytes = std::size_t{1} << 28;

/// The pieces may come in any order, each once, with counts that add up to less than 2^63. `alive` is called as the
/// work gets on, with the tokens so far. The vocabulary is smaller than was asked for where no pair occurs min_count
/// times any more. Throws Error(resources) for more than most_piece_bytes. Local.
TrainedBpe train_bpe(std::span<const CountedPiece> pieces, const BpeTraining& settings,
                     const std::function<void(std::int64_t vocabulary)>& alive);

}  // namespace lockstep
