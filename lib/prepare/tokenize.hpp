// The first half of preparation: all ranks and threads turn text into tokens in spills. The second half:
// prepare/assemble.hpp.
#pragma once

#include "config/prepare_config.hpp"
#include "prepare/block_pass.hpp"
#include "prepare/message_format.hpp"
#include "prepare/sample_shape.hpp"
#include "prepare/token_spill.hpp"
#include "tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// CorpusCharacters are the characters of a corpus, and the number of its documents that are not empty. scan_characters
/// is Collective over the session's world.
struct CorpusCharacters {
  std::vector<char32_t> characters;  // sorted
  std::int64_t documents = 0;
  ReadInput input;
};
CorpusCharacters scan_characters(const BlockPass& pass, const std::string& text_field, OnMalformed malformed);

struct TokenizedCorpus {
  std::vector<SpillPart> spill;        // of this rank, one part for each spill
  std::vector<TokenizedBlock> blocks;  // of this rank, in order; the blocks of the next rank follow in the corpus
  std::int64_t empty_documents = 0;    // documents left out: empty ones, and the next two counts
  std::int64_t malformed_documents = 0;
  std::int64_t duplicate_documents = 0;
  std::int64_t left_out = 0;  // characters without a token (Encoder::left_out)
  // by fragment of this rank, set for duplicates that are whole documents; empty: not compared
  std::vector<bool> duplicates;
  std::vector<std::string> malformed_places;  // "FILE:LINE: …" of the first malformed documents
  RecordCounts records;                       // of all ranks, for records other than text
  ReadInput input;
};

struct TokenizeSettings {
  RecordOptions records;
  std::string text_field;  // the member of JSON lines that holds text
  std::int64_t seed = 0;   // seed of Fragment::draw
  OnMalformed malformed = OnMalformed::stop;
  Path scratch;  // for temporary files
  // for units, which a later job may reuse (prepare/spill_units.hpp)
  Path units_folder;
  int token_bytes = 2;
  Deduplicate deduplicate = Deduplicate::none;
  std::shared_ptr<const MessageFormat> messages = nullptr;  // for records of messages; else null
};

/// Tokenizes the corpus. Existing units are not read again. Spills have masks for records other than text. Collective
/// over the session's world. Throws Error(input) for text that cannot be read unless settings.malformed skips it,
/// Error(storage) for spills that cannot be written.
TokenizedCorpus tokenize(const BlockPass& pass, const Tokenizer& tokenizer, const TokenizeSettings& settings);

}  // namespace lockstep
