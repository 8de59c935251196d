// The first half of preparation: text to tokens in spills, by all ranks and threads. The second half:
// data/assemble.hpp.
#pragma once

#include "config/prepare_config.hpp"
#include "corpus/tokenizer.hpp"
#include "data/block_pass.hpp"
#include "data/message_format.hpp"
#include "data/sample_shape.hpp"
#include "data/token_spill.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// The characters of a corpus and how many documents that are not empty it has. Collective over the session's world.
struct CorpusCharacters {
  std::vector<char32_t> characters;  // sorted
  std::int64_t documents = 0;
  ReadInput input;
};
CorpusCharacters scan_characters(const BlockPass& pass, const std::string& text_field, OnMalformed malformed);

struct TokenizedCorpus {
  std::vector<SpillPart> spill;        // of this rank
  std::vector<TokenizedBlock> blocks;  // of this rank, in order; those of the next rank follow in the corpus
  std::int64_t empty_documents = 0;    // left out, as what follows
  std::int64_t malformed_documents = 0;
  std::int64_t duplicate_documents = 0;
  std::int64_t left_out = 0;                  // characters without a token, Encoder::left_out
  std::vector<bool> duplicates;               // by fragment of this rank's whole documents; empty: none
  std::vector<std::string> malformed_places;  // "FILE:LINE: …" of the first ones
  RecordCounts records;                       // of all ranks, where records do not hold text
  ReadInput input;
};

struct TokenizeSettings {
  RecordOptions records;
  std::string text_field;  // of JSON lines
  std::int64_t seed = 0;   // of Fragment::draw
  OnMalformed malformed = OnMalformed::stop;
  Path scratch;       // for what does not last
  Path units_folder;  // for units, which a later job may go on with (data/spill_units.hpp)
  int token_bytes = 2;
  Deduplicate deduplicate = Deduplicate::none;
  std::shared_ptr<const MessageFormat> messages = nullptr;  // of records of this form
};

/// Collective over the session's world. Units that are there already are not read again. Spills have masks where
/// records do not hold text. Throws Error(input) for text that cannot be read unless it is to be skipped,
/// Error(storage) for spills that cannot be written.
TokenizedCorpus tokenize(const BlockPass& pass, const Tokenizer& tokenizer, const TokenizeSettings& settings);

}  // namespace lockstep
