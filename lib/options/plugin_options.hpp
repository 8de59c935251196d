// Plug-ins in a configuration: the option that names them, and the options that they declare. The plug-ins themselves:
// plugin/plugins.hpp.
#pragma once

#include "base/json_fwd.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class Declaration;

/// Values of the options that plug-ins declare, by option path.
using PluginValues = std::map<std::string, std::shared_ptr<const Json>>;

/// Declares the option that names plug-ins. They are already open at that time (config/command_line.hpp).
void describe_plugin_files(Declaration& visit, std::vector<std::string>& files);

/// Declares the options of the open plug-ins. Each plug-in has a section of its own. The options are bound to `values`,
/// which receive the defaults. Throws Error(input) if a default is not a valid value, or if the section exists already.
void describe_plugin_options(Declaration& visit, PluginValues& values);

/// Gives these values to the plug-ins, which read them from then on. Local.
void hand_to_plugins(const PluginValues& values);

}  // namespace lockstep
