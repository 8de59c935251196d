// The options of prepare-data. How options are declared: options/option.hpp.
#pragma once

#include "config/record_options.hpp"
#include "config/values.hpp"
#include "options/plugin_options.hpp"
#include "tokenizer/special_tokens.hpp"

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

/// Returns whether the format holds text, records or tables rather than token files. Pure.
bool is_text_format(InputFormat format);

/// Selects the part of a Hugging Face hub dataset that is prepared.
struct HubDatasetOptions {
  std::optional<std::string> configuration;  // of its README.md; default: its default one
  std::optional<std::string> split;          // default: train
  std::optional<std::string> revision;       // default: main
  std::vector<std::string> data_files;       // patterns of files, instead of the rules for splits
  bool operator==(const HubDatasetOptions&) const = default;
};

/// Options of tokenization.
struct PrepareDataOptions {
  std::optional<TokenizerChoice> tokenizer;     // default: bytes; required for token files
  std::optional<InputFormat> format;            // of the input; default: names and content tell
  RecordOptions records;                        // for records other than plain text
  std::string text_field = "text";              // field of a record, or column of a table
  std::optional<ValidationSplit> validation;    // default: hash:0.01, or tail:0.01 if that leaves a split empty
  std::optional<std::string> validation_files;  // of token files: files with such names are validation
  OnMalformed malformed = OnMalformed::stop;    // for a record or text that cannot be used
  Deduplicate deduplicate = Deduplicate::none;  // keeps the first of equal documents
  std::int64_t shard_tokens = 100'000'000;      // maximum per shard file
  std::optional<std::int64_t> shards;           // instead: number of shard files of the training split
  std::optional<std::string> end_of_text;       // name of the token; default: the tokenizer's own, if any
  std::optional<SpecialTokens> special_tokens;  // spelled out in documents; default: special; text in messages
  std::int64_t seed = 0;                        // of the content hash that selects validation documents
  HubDatasetOptions hub;                        // for inputs that are hub datasets
  std::optional<WriteFormat> write;             // default: our shards; token files are used in place

  TokenizerChoice tokenizer_or_bytes() const { return tokenizer.value_or(TokenizerChoice{}); }
  SpecialTokens special_tokens_in_text() const { return special_tokens.value_or(SpecialTokens::special); }
  SpecialTokens special_tokens_in_messages() const { return special_tokens.value_or(SpecialTokens::text); }
};

/// Options of the tokenizer that train_tokenizer trains.
struct TrainedBpeOptions {
  TrainedPattern pattern = TrainedPattern::gpt2;
  std::int64_t min_count = 2;               // least count of a pair that becomes a token
  std::vector<std::string> special_tokens;  // besides the end-of-text token
  bool operator==(const TrainedBpeOptions&) const = default;
};

/// The documents that inspect shows.
struct ShownSamples {
  ShownSplit split = ShownSplit::train;
  std::int64_t count = 3;             // documents
  std::optional<std::int64_t> first;  // index of the first document; default: drawn at random
  std::int64_t seed = 0;              // of the random choice
  std::int64_t tokens = 256;          // maximum per document
  bool operator==(const ShownSamples&) const = default;
};

struct PrepareConfig {
  std::vector<std::string> plugin;              // shared objects to open
  PluginValues plugin_values;                   // of the plug-ins' options
  std::vector<std::string> inputs;              // files, globs, folders or hub datasets; "-" alone: standard input
  std::string output;                           // folder to create
  std::optional<std::string> verify;            // dataset to check; nothing is prepared then
  std::optional<std::string> inspect;           // dataset to show; nothing is prepared then
  std::optional<std::string> plot;              // SVG file for the document lengths of inspect
  std::optional<std::int64_t> train_tokenizer;  // vocabulary size; trains a tokenizer, prepares no dataset
  std::optional<InputFormat> format;            // of the input
  bool overwrite = false;                       // replace an existing dataset
  std::optional<std::int64_t> threads;          // per rank; default: cores / local ranks
  Seconds watchdog{600};                        // longest time without progress of a rank; 0: no limit
  std::vector<std::string> path;                // text to prepare if there are no inputs
  PrepareDataOptions data;
  TrainedBpeOptions bpe;
  ShownSamples samples;

  /// Returns the input. Inputs on the command line take precedence over a configuration file for all programs.
  const std::vector<std::string>& text() const { return inputs.empty() ? path : inputs; }
  /// Returns the format of the input, with the same precedence.
  std::optional<InputFormat> input_format() const { return format ? format : data.format; }
};

/// Declares the options. Call it within a section data.
void describe(Declaration& visit, PrepareDataOptions& data);
void check(const PrepareDataOptions& data, Problems& problems);  // Local, pure

void describe(Declaration& visit, PrepareConfig& config);
Tool tool_of(const PrepareConfig& config);
void check(const PrepareConfig& config, Problems& problems);  // Local, pure

}  // namespace lockstep
