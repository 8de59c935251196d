// Suggestions for an unknown name or value: the same name in another section, the term of another trainer
// (options/synonyms.hpp), or a misspelling. The functions return nothing rather than a guess.
#pragma once

#include "options/option.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Suggests the dotted name of an option of `declaration`. Local.
std::optional<std::string> suggested_option(const Declaration& declaration, const std::string& name);

/// Suggests the name of a section of `declaration`. Local.
std::optional<std::string> suggested_section(const Declaration& declaration, const std::string& name);

/// Suggests one of `choices`. Local.
std::optional<std::string> suggested_choice(const std::vector<std::string>& choices, const std::string& text);

}  // namespace lockstep
