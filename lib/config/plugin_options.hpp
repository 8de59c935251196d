// Plug-ins in a configuration: which ones it opens, and the options that they declare. What plug-ins are:
// plugin/plugins.hpp.
#pragma once

#include "base/json_fwd.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class Declaration;

/// Values of options that plug-ins declare, by path.
using PluginValues = std::map<std::string, std::shared_ptr<const Json>>;

/// Declares the option that names plug-ins: they have been opened by then (config/command_line.hpp).
void describe_plugin_files(Declaration& visit, std::vector<std::string>& files);

/// Declares the options of the plug-ins that are open, each plug-in a section of its own, bound to `values`, which get
/// what is built in. Throws Error(input) for an option whose built-in value is none, or a section that is there.
void describe_plugin_options(Declaration& visit, PluginValues& values);

/// Plug-ins read these values from here on. Local.
void hand_to_plugins(const PluginValues& values);

}  // namespace lockstep
