// What prepare-data is told. The declaration language: config/option.hpp.
#pragma once

#include "config/plugin_options.hpp"
#include "config/record_options.hpp"
#include "config/special_tokens.hpp"
#include "config/values.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class Declaration;
class Problems;
struct Tool;

enum class InputFormat { txt, jsonl, json, csv, tsv, parquet, arrow, megatron, llmc, nanogpt, datatrove, mds };
enum class TrainedPattern { gpt2, llama3, qwen2, o200k };
enum class WriteFormat { lockstep, megatron, llmc, nanogpt, datatrove };
enum class Deduplicate { none, exact, caseless };
enum class ShownSplit { train, validation };
enum class OnMalformed { stop, skip };

/// Whether it is a format of text, records or tables, and none of token files. Pure.
bool is_text_format(InputFormat format);

/// Which part of a dataset of the Hugging Face hub is the input.
struct HubDatasetOptions {
  std::optional<std::string> configuration;  // of its README.md; absent: the default one
  std::optional<std::string> split;          // absent: train
  std::optional<std::string> revision;       // absent: main
  std::vector<std::string> data_files;       // patterns: these files, whatever rules say
  bool operator==(const HubDatasetOptions&) const = default;
};

/// How text becomes tokens.
struct PrepareDataOptions {
  std::optional<TokenizerChoice> tokenizer;     // absent: bytes; of token files it has to be named
  std::optional<InputFormat> format;            // of the input; absent: names and content tell
  RecordOptions records;                        // what records hold, if not text
  std::string text_field = "text";              // of each JSON line
  std::optional<ValidationSplit> validation;    // absent: hash:0.01, or tail:0.01 where that leaves a split empty
  std::optional<std::string> validation_files;  // of token files: those with such names are validation
  OnMalformed malformed = OnMalformed::stop;    // a record or a text file that cannot be used
  Deduplicate deduplicate = Deduplicate::none;  // of documents with one normal form the first stays
  std::int64_t shard_tokens = 100'000'000;      // tokens a shard file, at most
  std::optional<std::int64_t> shards;           // instead: so many of the training split
  std::optional<std::string> end_of_text;       // the token's name; absent: the tokenizer's own, if it has one
  std::optional<SpecialTokens> special_tokens;  // that a document spells out; absent: special, in messages text
  std::int64_t seed = 0;                        // of the content hash that chooses validation documents
  HubDatasetOptions hub;                        // of inputs that are such datasets
  std::optional<WriteFormat> write;             // absent: shards of our own, or token files as they lie

  TokenizerChoice tokenizer_or_bytes() const { return tokenizer.value_or(TokenizerChoice{}); }
  SpecialTokens special_tokens_in_text() const { return special_tokens.value_or(SpecialTokens::special); }
  SpecialTokens special_tokens_in_messages() const { return special_tokens.value_or(SpecialTokens::text); }
};

/// Of the tokenizer that train_tokenizer makes.
struct TrainedBpeOptions {
  TrainedPattern pattern = TrainedPattern::gpt2;
  std::int64_t min_count = 2;               // of a pair that becomes a token
  std::vector<std::string> special_tokens;  // besides the end-of-text token
  bool operator==(const TrainedBpeOptions&) const = default;
};

/// What inspect shows.
struct ShownSamples {
  ShownSplit split = ShownSplit::train;
  std::int64_t count = 3;             // documents
  std::optional<std::int64_t> first;  // the number of the first, others follow; absent: drawn from all
  std::int64_t seed = 0;              // of the drawing
  std::int64_t tokens = 256;          // of a document, at most
  bool operator==(const ShownSamples&) const = default;
};

struct PrepareConfig {
  std::vector<std::string> plugin;              // shared objects that are opened
  PluginValues plugin_values;                   // of their options
  std::vector<std::string> inputs;              // files, globs, folders; datasets of the hub; "-" alone: standard input
  std::string output;                           // folder to create
  std::optional<std::string> verify;            // a dataset to check; nothing is made then
  std::optional<std::string> inspect;           // a dataset to look into; nothing is made then
  std::optional<std::string> plot;              // a file for the picture of its lengths
  std::optional<std::int64_t> train_tokenizer;  // tokens; a tokenizer is made then, and no dataset
  std::optional<InputFormat> format;            // of the input
  bool overwrite = false;                       // replace a dataset that is there
  std::optional<std::int64_t> threads;          // a rank; absent: cores / local ranks
  Seconds watchdog{600};                        // without progress of a rank; 0: none
  std::vector<std::string> path;                // of the text where no inputs are named
  PrepareDataOptions data;
  TrainedBpeOptions bpe;
  ShownSamples samples;

  /// What is prepared; what is named on the command line wins over what a file for all programs says.
  const std::vector<std::string>& text() const { return inputs.empty() ? path : inputs; }
  /// Its format, likewise.
  std::optional<InputFormat> input_format() const { return format ? format : data.format; }
};

/// Within a section data.
void describe(Declaration& visit, PrepareDataOptions& data);
void check(const PrepareDataOptions& data, Problems& problems);  // Local, pure

void describe(Declaration& visit, PrepareConfig& config);
Tool tool_of(const PrepareConfig& config);
void check(const PrepareConfig& config, Problems& problems);  // Local, pure

}  // namespace lockstep
