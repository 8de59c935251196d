// The body of prepare-data for what is tokens already: token files of other programs, which become a dataset where they
// lie, and datasets, which are written anew in another form. What is text: data/prepare.hpp.
#pragma once

#include "app/output.hpp"
#include "base/output_folder.hpp"
#include "comm/session.hpp"
#include "config/prepare_config.hpp"
#include "corpus/tokenizer.hpp"
#include "data/prepare.hpp"
#include "exchange/token_files.hpp"
#include "store/token_shards.hpp"

#include <optional>

namespace lockstep {

/// What INPUT names, of tokens: token files, or one dataset.
struct TokenInput {
  TokenFiles files;
  std::optional<Path> dataset;
};

/// Nothing where INPUT is text. Collective over the session's world. Throws AgreedError as find_token_files does.
std::optional<TokenInput> find_token_input(const PrepareConfig& config, Session& session);

/// Makes the dataset. Collective over the session's world. Throws AgreedError, or Error(usage) for options that mean
/// nothing for tokens.
void prepare_tokens(const PrepareConfig& config, const TokenInput& input, Session& session, Output& output);

/// The dataset in the folder `cache` that is made of the token files, by its key, as prepare_in_cache says it of text.
/// Files that have changed since are others. Collective over the session's world. Throws what prepare_tokens throws;
/// Error(input), with the command that makes the dataset, where it is refused.
std::optional<Path> prepare_tokens_in_cache(const PrepareConfig& config, const TokenInput& input, const Path& cache,
                                            WithoutPrepared without, Session& session, Output& output);

/// Writes the dataset of `manifest`, which lies in `source`, into `staging` as files of the format, and makes
/// `manifest` name these. Collective over the session's world. Throws as write_token_files does.
void write_dataset_as(Session& session, WriteFormat format, const Path& source, DatasetManifest& manifest,
                      std::int64_t shard_tokens, const Path& staging);

/// Completes and publishes a dataset whose tokens lie in the folder's content. Local.
void publish_dataset(OutputFolder& output, const DatasetManifest& manifest, const Tokenizer& tokenizer);

}  // namespace lockstep
