// Texts made from a declaration: help, option lists of manual pages, completion for bash and zsh, JSON Schema. All
// functions are Local and pure.
#pragma once

#include "base/json_fwd.hpp"
#include "options/documented.hpp"

#include <string>

namespace lockstep {

/// Returns the answer to --help=TOPIC, at most 100 columns wide. Topics: help_overview (one screen), help_all (every
/// option in a line), a section, or an option (with details). Throws Error(usage) for another topic.
std::string help_text(const DocumentedTool& tool, const std::string& topic);

/// Return the SYNOPSIS lines and the option lists of an mdoc(7) page.
std::string mdoc_synopsis(const DocumentedTool& tool);
std::string mdoc_options(const DocumentedTool& tool);
/// Returns the keys of configuration files by section, as lists of an mdoc(7) page.
std::string mdoc_keys(const DocumentedTool& tool);
/// Returns text as it begins a sentence, with a capital letter. A first word with a digit, a dot or an underscore is a
/// name, and keeps its case.
std::string capitalised(std::string text);
/// Returns text as a line of an mdoc(7) page, escaped so that no part of it is read as a macro or an escape.
std::string mdoc_text(const std::string& text);

/// Return files for the completion folders of bash and zsh.
std::string bash_completion(const DocumentedTool& tool);
std::string zsh_completion(const DocumentedTool& tool);

/// Returns the JSON Schema (draft 2020-12) of a configuration file.
Json config_json_schema(const Tool& tool, const Declaration& declaration);

}  // namespace lockstep
