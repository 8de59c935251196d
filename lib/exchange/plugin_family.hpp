// Model families of plug-ins (lockstep_family of plugin/lockstep_plugin.h). Their config.json and tensor names are
// translated into those of a built-in family.
#pragma once

#include "base/json_fwd.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace lockstep {

/// Returns the index in the registry (plugin/plugins.hpp) of the family that a config.json names; nothing if no plug-in
/// has it. Throws Error(input) if a built-in family has the name too.
std::optional<std::size_t> plugin_family_of(const Json& document);

/// Returns a config.json of the plug-in's family as one of a built-in family. `origin` is the file's name. Throws
/// Error(input), naming the plug-in, if the translation fails.
Json as_built_in(std::size_t family, const std::string& text, const std::string& origin);

/// Returns the name of a tensor in files of the built-in family. Throws as as_built_in does.
std::string built_in_tensor(std::size_t family, const std::string& name, const std::string& origin);

}  // namespace lockstep
