// The body of prepare-data for input that is tokens already: token files of other programs become a dataset in place,
// and datasets are rewritten in another form. Input that is text: prepare/prepare.hpp.
#pragma once

#include "app/output.hpp"
#include "base/output_folder.hpp"
#include "comm/session.hpp"
#include "config/prepare_config.hpp"
#include "exchange/token_files.hpp"
#include "prepare/prepare.hpp"
#include "store/token_shards.hpp"
#include "tokenizer/tokenizer.hpp"

#include <optional>

namespace lockstep {

/// TokenInput is the input if it is tokens: token files, or one dataset.
struct TokenInput {
  TokenFiles files;
  std::optional<Path> dataset;
};

/// Returns the token input, or nothing if INPUT is text. Collective over the session's world. Throws AgreedError as
/// find_token_files does.
std::optional<TokenInput> find_token_input(const PrepareConfig& config, Session& session);

/// Makes the dataset. Collective over the session's world. Throws AgreedError, among others with code usage for options
/// that have no effect on tokens.
void prepare_tokens(const PrepareConfig& config, const TokenInput& input, Session& session, Output& output);

/// Returns the dataset of the token files in the folder `cache`, found by its key, as prepare_in_cache does for text.
/// Files that have changed give another key. Collective over the session's world. Throws as prepare_tokens does; for
/// WithoutPrepared::refuse Error(input) with the command that makes the dataset.
std::optional<Path> prepare_tokens_in_cache(const PrepareConfig& config, const TokenInput& input, const Path& cache,
                                            WithoutPrepared without, Session& session, Output& output);

/// Writes the dataset of `manifest`, which lies in `source`, into `staging` as files of the format, and updates
/// `manifest` to name these files. Collective over the session's world. Throws as write_token_files does.
void write_dataset_as(Session& session, WriteFormat format, const Path& source, DatasetManifest& manifest,
                      std::int64_t shard_tokens, const Path& staging);

/// Completes and publishes a dataset whose tokens lie in the folder's content. Local.
void publish_dataset(OutputFolder& output, const DatasetManifest& manifest, const Tokenizer& tokenizer);

}  // namespace lockstep
