// What the environment says of the hub, by the variables of huggingface_hub. Local.
#pragma once

#include "base/files.hpp"

#include <string>

namespace lockstep {

/// HF_HUB_CACHE, or hub in the folder that HF_HOME or XDG_CACHE_HOME say, else in ~/.cache/huggingface.
Path hub_cache_folder();
/// HF_ENDPOINT, or https://huggingface.co; without a slash at the end.
std::string hub_endpoint();
/// Whether HF_HUB_OFFLINE forbids asking the hub.
bool hub_is_offline();
/// HF_TOKEN, or what the file HF_TOKEN_PATH, or token beside the cache, holds; empty if there is none, or
/// HF_HUB_DISABLE_IMPLICIT_TOKEN is set. Throws Error(usage) for what is no token, without showing it.
std::string hub_token();

}  // namespace lockstep
