// A configuration as resolved: every option with its value and where it came from. Printed, it is itself a
// configuration file.
#pragma once

#include "base/json_fwd.hpp"
#include "config/tool.hpp"

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

struct Setting {
  std::string path;                   // "optimizer.lr"
  std::shared_ptr<const Json> value;  // null: absent, or required and not set
  std::string origin;                 // "built-in", "tiny.yaml:4", "command line"
  enum class Shown { always, if_changed } shown = Shown::always;
};

using Settings = std::vector<Setting>;  // in the order of declaration

/// "tiny.yaml:4", "command line", "built-in"; empty if there is no such option.
std::string origin_of(const Settings& settings, const std::string& path);

/// A value as YAML on one line, which any YAML reader takes as that value. Local.
std::string to_yaml(const Json& value);

/// YAML with a comment on each line saying where the value came from. PrintExtent::changed leaves out what is built in.
std::string to_yaml(const Settings& settings, const Tool& tool, PrintExtent extent);

/// Nested objects with typed values, for the run record.
Json to_json(const Settings& settings);

}  // namespace lockstep
