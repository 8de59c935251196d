// How often the pieces of a corpus occur, over all threads and ranks, in bounded memory: a thread that has met many
// different pieces writes its counts to a file, sorted; each rank then brings together those of a part of all pieces.
// What is learned from the counts: corpus/bpe_trainer.hpp.
#pragma once

#include "config/prepare_config.hpp"
#include "corpus/bpe_trainer.hpp"
#include "corpus/piece_pattern.hpp"
#include "data/block_pass.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

struct PieceCounting {
  PieceRule rule = PieceRule::gpt2;
  std::string text_field;  // of records
  OnMalformed malformed = OnMalformed::stop;
  Path folder;                                                // for files that do not last; all ranks see it
  std::size_t thread_bytes = std::size_t{256} << 20;          // of counts in memory
  std::size_t most_piece_bytes = lockstep::most_piece_bytes;  // of the different pieces that are kept
};

/// The same on all ranks, and for any ranks and threads.
struct CountedCorpus {
  std::vector<Path> files;      // with the pieces; for_each_piece reads them
  std::uint64_t min_count = 1;  // of pieces that are kept: rarer ones would have been too many
  std::int64_t pieces = 0;      // that occur
  std::int64_t different = 0;
  std::int64_t left_out = 0;  // of the different ones
  std::int64_t text_bytes = 0;
  std::int64_t malformed = 0;  // records, or parts of texts
  ReadInput input;
};

/// Collective over the session's world. Throws Error(input) for text that cannot be read unless it is to be skipped,
/// Error(storage).
CountedCorpus count_pieces(const BlockPass& pass, const PieceCounting& settings);

/// The pieces of a file that count_pieces made. They are valid during the call. Throws Error(storage). Local.
void for_each_piece(const Path& file, const std::function<void(const CountedPiece&)>& use);

}  // namespace lockstep
