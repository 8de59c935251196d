// Names of options in earlier versions. A configuration that uses one gets an error with the new name. Saved
// configurations of those versions are still read.
#pragma once

#include "options/document.hpp"

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

class Declaration;

struct FormerOption {
  std::string_view name;                          // dotted
  std::string_view now;                           // the option that replaces it
  std::string_view says;                          // how to write it now, for messages
  std::string (*value)(const std::string& text);  // converts the old value to the new option's value
};

/// Returns the table, which stands in config/renamed_options.cpp: this room knows no option by name. Pure.
std::span<const FormerOption> former_options();

/// Returns the former option of this name whose replacement is declared; nullptr if there is none. Local.
const FormerOption* find_former(const Declaration& declaration, const std::string& path);

/// Renames former options in a configuration that an earlier version saved. A value of the new name takes precedence.
/// Local.
void update_names(const Declaration& declaration, Node& saved);

}  // namespace lockstep
