// The tokenizer that the weights or the network of a run were made with: text without data.tokenizer is prepared with
// it, and datasets are compared with it.
#pragma once

#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "data/dataset.hpp"
#include "train/run_datasets.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The tokenizer that a run keeps if it goes on; that of the run whose checkpoint it starts with; that in the folder of
/// model.path, or of model.config. Absent where there is none. Collective over the session's world. Throws
/// Error(input) for a tokenizer of the run that cannot be read.
std::optional<TokenizerChoice> model_tokenizer(const TrainConfig& config, Session& session);

/// Whether data.tokenizer is given and names a tokenizer that is here. Local.
bool is_found(const std::optional<TokenizerChoice>& named);

/// Whether `named`, which is not chars, encodes text as the dataset's tokenizer does. Local. Throws Error(input) and
/// Error(usage) for one that cannot be read.
bool encodes_as(const TokenizerChoice& named, const Dataset& dataset);

/// Compares the tokenizers of datasets with model.tokenizer. Where data.tokenizer says that another one is meant, the
/// difference is returned as a warning; empty: there is none. Local. Throws Error(usage) for a difference that
/// nothing allows.
std::string compare_with_model(const TrainConfig& config, const std::vector<const RunDataset*>& datasets);

/// The tokenizer of the run for people: "bpe, 50257 token ids"; empty where nothing says it yet. Local. Throws as
/// make_tokenizer.
std::string tokenizer_text(const TrainConfig& config, const Dataset* dataset);

}  // namespace lockstep
