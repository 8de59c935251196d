// Families of models that plug-ins bring (lockstep_family of plugin/lockstep_plugin.h): their config.json and their
// tensors in the words of a family that is built in.
#pragma once

#include "base/json_fwd.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace lockstep {

/// Of the registry (plugin/plugins.hpp) the family that a config.json says it is of; nothing for any other. Throws
/// Error(input) for a name that is built in too.
std::optional<std::size_t> plugin_family_of(const Json& document);

/// What a config.json of it says as one of a built-in family. `origin` is the file's name. Throws Error(input), naming
/// the plug-in too, where that fails.
Json as_built_in(std::size_t family, const std::string& text, const std::string& origin);

/// The name of a tensor in files of the built-in family. Throws as as_built_in does.
std::string built_in_tensor(std::size_t family, const std::string& name, const std::string& origin);

}  // namespace lockstep
