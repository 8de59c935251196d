// Presents the weights of a Hugging Face folder as a checkpoint of one rank that holds only component model. The
// interface of sources: reshard/state_source.hpp.
#pragma once

#include "base/files.hpp"
#include "exchange/model_folder.hpp"
#include "reshard/state_source.hpp"

#include <memory>

namespace lockstep {

/// Tensors have the names and layouts of train and the types of the files. The folder's config.json is a document, with
/// the head that examine_weights finds. The step is 0. Weights are copied only when they are read. Local. Throws as
/// parse_hf_config and open_stored_weights do.
std::unique_ptr<StateSource> open_model_folder(const Path& folder, Head head);

}  // namespace lockstep
