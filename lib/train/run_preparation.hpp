// Text that a training run names in place of datasets: prepared before the run makes its plan, by all its ranks, into a
// folder that later runs find. How: data/prepare.hpp.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "data/prepare.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// The configuration with model.tokenizer, and with where text of data.path, data.datasets and, if the run evaluates,
/// eval.datasets was prepared. With WithoutPrepared::prepare text is prepared, unless data.prepare is skip. Collective
/// over the session's world. Throws what prepare_in_cache and model_tokenizer throw; Error(usage) where data.tokenizer
/// is not that of a dataset that is named, and for text without data.tokenizer where model.path has no tokenizer.
TrainConfig with_prepared_data(const TrainConfig& config, WithoutPrepared without, Session& session, Output& output);

/// Text that waits for its preparation, as the options name it. Local.
std::vector<std::string> unprepared_text(const TrainConfig& prepared);

/// Where text is prepared. Local.
Path cache_of(const TrainConfig& config);

}  // namespace lockstep
