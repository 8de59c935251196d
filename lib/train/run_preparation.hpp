// Prepares text that a training run names in place of datasets. All ranks prepare it before the run makes its plan,
// into a folder that later runs find. The preparation: prepare/prepare.hpp.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "prepare/prepare.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// Returns the configuration with model.tokenizer, and with the prepared folders for text in data.path, data.datasets
/// and, if the run evaluates, eval.datasets. With WithoutPrepared::prepare missing datasets are prepared, unless
/// data.prepare is skip. Collective over the session's world. Throws as prepare_in_cache and model_tokenizer do;
/// Error(usage) if data.tokenizer differs from that of a named dataset, and for text without data.tokenizer if
/// model.path has no tokenizer.
TrainConfig with_prepared_data(const TrainConfig& config, WithoutPrepared without, Session& session, Output& output);

/// Returns the text that is not prepared yet, as the options name it. Local.
std::vector<std::string> unprepared_text(const TrainConfig& prepared);

/// Returns the folder in which text is prepared. Local.
Path cache_of(const TrainConfig& config);

}  // namespace lockstep
