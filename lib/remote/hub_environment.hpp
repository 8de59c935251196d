// Settings of the hub from the environment variables of huggingface_hub. Local.
#pragma once

#include "base/files.hpp"

#include <string>

namespace lockstep {

/// Returns HF_HUB_CACHE, or the folder hub in HF_HOME, in XDG_CACHE_HOME/huggingface or in ~/.cache/huggingface.
Path hub_cache_folder();
/// Returns HF_ENDPOINT, or https://huggingface.co; without a slash at the end.
std::string hub_endpoint();
/// Returns whether HF_HUB_OFFLINE forbids requests to the hub.
bool hub_is_offline();
/// Returns HF_TOKEN, or the content of the file HF_TOKEN_PATH or of the file token beside the cache. Empty if there is
/// none, or if HF_HUB_DISABLE_IMPLICIT_TOKEN is set. Throws Error(usage) if it is not a valid token, without printing
/// it.
std::string hub_token();

}  // namespace lockstep
