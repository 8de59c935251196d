// Counts how often each piece occurs in a corpus, over all threads and ranks, in bounded memory. A thread with many
// distinct pieces writes its counts to a sorted file. Each rank then merges the counts of its part of all pieces. The
// training of a tokenizer from the counts: tokenizer/bpe_trainer.hpp.
#pragma once

#include "config/prepare_config.hpp"
#include "prepare/block_pass.hpp"
#include "tokenizer/bpe_trainer.hpp"
#include "tokenizer/piece_pattern.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

struct PieceCounting {
  PieceRule rule = PieceRule::gpt2;
  std::string text_field;  // the member of a record that holds its text
  OnMalformed malformed = OnMalformed::stop;
  Path folder;                                        // for temporary files; all ranks see it
  std::size_t thread_bytes = std::size_t{256} << 20;  // limit of the counts that a thread keeps in memory
  // limit of the total length of the distinct pieces that are kept
  std::size_t most_piece_bytes = lockstep::most_piece_bytes;
};

/// CountedCorpus is equal on all ranks, and independent of the numbers of ranks and threads.
struct CountedCorpus {
  std::vector<Path> files;  // the pieces; read by for_each_piece
  // lowest count of a kept piece; with rarer ones most_piece_bytes would be exceeded
  std::uint64_t min_count = 1;
  std::int64_t pieces = 0;  // all occurrences
  std::int64_t different = 0;
  std::int64_t left_out = 0;  // distinct pieces that are not kept
  std::int64_t text_bytes = 0;
  std::int64_t malformed = 0;  // malformed records or text blocks
  ReadInput input;
};

/// Counts the pieces of the corpus. Collective over the session's world. Throws Error(input) for text that cannot be
/// read, unless settings.malformed skips it; Error(storage).
CountedCorpus count_pieces(const BlockPass& pass, const PieceCounting& settings);

/// Calls `use` with each piece of a file that count_pieces made; a piece is valid during the call. Local. Throws
/// Error(storage).
void for_each_piece(const Path& file, const std::function<void(const CountedPiece&)>& use);

}  // namespace lockstep
