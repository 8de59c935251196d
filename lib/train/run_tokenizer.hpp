// The tokenizer of a run's weights or network. Text is prepared with it if data.tokenizer is not set, and datasets are
// compared with it.
#pragma once

#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "data/dataset.hpp"
#include "train/run_datasets.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Returns the tokenizer of the run if it continues; else that of the run whose checkpoint it starts with; else the one
/// in the folder of model.path or model.config. Not set if there is none. Collective over the session's world. Throws
/// Error(input) for a tokenizer of the run that cannot be read.
std::optional<TokenizerChoice> model_tokenizer(const TrainConfig& config, Session& session);

/// Returns whether `named` is set and names a tokenizer that exists here. Local.
bool is_found(const std::optional<TokenizerChoice>& named);

/// Returns whether `named`, which is not chars, encodes text as the dataset's tokenizer does. Local. Throws
/// Error(input) and Error(usage) if it cannot be read.
bool encodes_as(const TokenizerChoice& named, const Dataset& dataset);

/// Compares the tokenizers of datasets with model.tokenizer. A difference is returned as a warning if data.tokenizer
/// shows that it is intended; empty: no difference. Local. Throws Error(usage) for an unintended difference.
std::string compare_with_model(const TrainConfig& config, const std::vector<const RunDataset*>& datasets);

/// Returns the tokenizer of the run for people: "bpe, 50257 token ids"; its name alone if it is not here yet. Local.
/// Throws as make_tokenizer.
std::string tokenizer_text(const TrainConfig& config, const Dataset* dataset);

}  // namespace lockstep
