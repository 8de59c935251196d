// Names that options had in earlier versions. Who says one is told what says the same now; what runs of those versions
// saved is read all the same.
#pragma once

#include "config/document.hpp"

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

class Declaration;

struct FormerOption {
  std::string_view name;                          // dotted
  std::string_view now;                           // the option that took its place
  std::string_view says;                          // how that says the same, for messages
  std::string (*value)(const std::string& text);  // the value of that option that means what this one's did
};

std::span<const FormerOption> former_options();

/// The former name `path` of an option that is declared; null: it is none. Local.
const FormerOption* find_former(const Declaration& declaration, const std::string& path);

/// A configuration that an earlier version saved, in the names of this one: what it says under a former name is said
/// under the new one, unless that has a value as well. Local.
void update_names(const Declaration& declaration, Node& saved);

}  // namespace lockstep
