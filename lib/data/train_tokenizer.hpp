// A tokenizer made of a corpus: the body of prepare-data --train-tokenizer. Counting: data/count_pieces.hpp; learning:
// corpus/bpe_trainer.hpp.
#pragma once

#include "app/output.hpp"
#include "base/output_folder.hpp"
#include "data/count_pieces.hpp"

#include <cstdint>
#include <string>

namespace lockstep {

struct TokenizerTraining {
  PieceCounting counting;
  BpeTraining bpe;
  std::string end_name;  // of bpe.special_tokens, the one that joins documents
};

/// The same on all ranks.
struct TokenizerFacts {
  CountedCorpus corpus;
  std::int64_t vocabulary = 0;
  std::int64_t merges = 0;
  std::int64_t tokens = 0;  // that the text is
};

/// What is made, and what may be replaced by it.
OutputKind tokenizer_output();

/// Writes tokenizer.json, tokenizer_config.json, vocab.json, merges.txt and TRAINED.json, which says what made them,
/// into the folder, on rank 0; the same bytes for any ranks and threads. Collective over the session's world. Throws as
/// count_pieces and train_bpe do, Error(input) for a corpus without text.
TokenizerFacts train_tokenizer(const BlockPass& pass, const TokenizerTraining& settings, const Path& folder);

/// Tells of it on rank 0, whose output it is.
void summarise(const TokenizerFacts& facts, const TokenizerTraining& settings, const std::string& folder,
               std::uint64_t input_bytes, double seconds, Output& output);

}  // namespace lockstep
