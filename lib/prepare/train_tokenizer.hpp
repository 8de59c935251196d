// Trains a tokenizer on a corpus. Body of prepare-data --train-tokenizer. Counting of pieces: prepare/count_pieces.hpp;
// byte-pair encoding: tokenizer/bpe_trainer.hpp.
#pragma once

#include "app/output.hpp"
#include "base/output_folder.hpp"
#include "prepare/count_pieces.hpp"

#include <cstdint>
#include <string>

namespace lockstep {

struct TokenizerTraining {
  PieceCounting counting;
  BpeTraining bpe;
  std::string end_name;  // the one of bpe.special_tokens that joins documents
};

/// TrainedTokenizer describe the trained tokenizer; they are equal on all ranks.
struct TrainedTokenizer {
  CountedCorpus corpus;
  std::int64_t vocabulary = 0;
  std::int64_t merges = 0;
  std::int64_t tokens = 0;  // of the encoded corpus
};

/// Describes the output, and the folders that it may replace.
OutputKind tokenizer_output();

/// Trains the tokenizer; rank 0 writes tokenizer.json, tokenizer_config.json, vocab.json, merges.txt and TRAINED.json,
/// a record of the training, into the folder. The bytes do not depend on the numbers of ranks and threads. Collective
/// over the session's world. Throws as count_pieces and train_bpe do, Error(input) for a corpus without text.
TrainedTokenizer train_tokenizer(const BlockPass& pass, const TokenizerTraining& settings, const Path& folder);

/// Prints a summary of the training. Called on rank 0, which has the output.
void summarise(const TrainedTokenizer& facts, const TokenizerTraining& settings, const std::string& folder,
               std::uint64_t input_bytes, double seconds, Output& output);

}  // namespace lockstep
