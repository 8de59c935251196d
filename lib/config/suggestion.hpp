// What an unknown name or value was probably meant to be: the same name elsewhere, what other trainers call it
// (config/synonyms.hpp), or a misspelling. Nothing where it could only be guessed.
#pragma once

#include "config/option.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The dotted name of an option of `declaration`. Local.
std::optional<std::string> suggested_option(const Declaration& declaration, const std::string& name);

/// The name of a section of `declaration`. Local.
std::optional<std::string> suggested_section(const Declaration& declaration, const std::string& name);

/// One of `choices`. Local.
std::optional<std::string> suggested_choice(const std::vector<std::string>& choices, const std::string& text);

}  // namespace lockstep
