// The weights of a Hugging Face folder, seen as a checkpoint of one rank that holds the component model alone.
#pragma once

#include "base/files.hpp"
#include "exchange/model_folder.hpp"
#include "reshard/state_source.hpp"

#include <memory>

namespace lockstep {

/// Tensors have the names and layouts that train gives them, the types of the files, and the folder's config.json as a
/// document, with the head that examine_weights finds; nothing is copied but what is read. The step is 0. Local. Throws
/// as parse_hf_config and open_stored_weights do.
std::unique_ptr<StateSource> open_model_folder(const Path& folder, Head head);

}  // namespace lockstep
