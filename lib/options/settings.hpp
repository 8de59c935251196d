// A resolved configuration: every option with its value and its origin. It prints as a valid configuration file.
#pragma once

#include "base/json_fwd.hpp"
#include "options/tool.hpp"

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

struct Setting {
  std::string path;                   // "optimizer.lr"
  std::shared_ptr<const Json> value;  // JSON null: not set
  std::string origin;                 // "built-in", "tiny.yaml:4", "command line"
  enum class Shown { always, if_changed } shown = Shown::always;
};

using Settings = std::vector<Setting>;  // in order of declaration

/// Returns "tiny.yaml:4", "command line" or "built-in"; empty if there is no such option.
std::string origin_of(const Settings& settings, const std::string& path);

/// Returns a value as YAML on one line. Any YAML reader reads back the same value. Local.
std::string to_yaml(const Json& value);

/// Returns YAML with a comment on each line that gives the origin of the value. PrintExtent::changed leaves out
/// defaults.
std::string to_yaml(const Settings& settings, const Tool& tool, PrintExtent extent);

/// Returns nested objects with typed values, for the run record.
Json to_json(const Settings& settings);

}  // namespace lockstep
