// The texts made from a declaration: help, the option list of a manual page, completion for bash and zsh, JSON Schema.
// All Local and pure.
#pragma once

#include "base/json_fwd.hpp"
#include "config/documented.hpp"

#include <string>

namespace lockstep {

/// Answers --help=TOPIC, at most 100 columns wide: one screen (help_overview), every option in a line (help_all), the
/// options of a section, or one option with its details. Throws Error(usage) for another topic.
std::string help_text(const DocumentedTool& tool, const std::string& topic);

/// The SYNOPSIS lines and the option lists of an mdoc(7) page.
std::string mdoc_synopsis(const DocumentedTool& tool);
std::string mdoc_options(const DocumentedTool& tool);
/// What a configuration file may say, by section, as lists of an mdoc(7) page.
std::string mdoc_keys(const DocumentedTool& tool);
/// Text as a line of an mdoc(7) page: no character and no beginning of it is taken for a macro or an escape.
std::string mdoc_text(const std::string& text);

/// Files for the completion folders of bash and zsh.
std::string bash_completion(const DocumentedTool& tool);
std::string zsh_completion(const DocumentedTool& tool);

/// The JSON Schema (draft 2020-12) of a configuration file.
Json config_json_schema(const Tool& tool, const Declaration& declaration);

}  // namespace lockstep
