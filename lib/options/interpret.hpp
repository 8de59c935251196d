// Interprets the texts of a document by the declared options: types, ranges, choices, unknown keys. Reading the
// document: options/document.hpp. The declaration: options/option.hpp.
#pragma once

#include "options/document.hpp"
#include "options/option.hpp"
#include "options/problems.hpp"
#include "options/settings.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// Sets every option in `document` and returns all options with the origin of their values. A value that cannot be set
/// is a problem; the option keeps its default. Null removes the value of lower layers, so that the option is not set or
/// has its default. A former option name may have the value null. A key that only other programs have (`all_programs`)
/// is ignored if one of them accepts the value. Local.
Settings apply(Declaration& declaration, const Node& document, Problems& problems,
               const Declaration* all_programs = nullptr);

/// Adds a problem for each required option that `document` does not set, unless a switch makes it needless.
void require(const Declaration& declaration, const Node& document, Problems& problems);

/// Returns the value of `node` for an option. If it is not valid, adds a problem and returns nothing. `path` names the
/// option.
std::optional<Json> interpret(const OptionType& type, const OptionFacts& facts, const Node& node,
                              const std::string& path, Problems& problems);

/// Returns the range: "from 0 to 1", "at least 1", "greater than 0"; empty if there is no limit.
std::string range_text(const OptionFacts& facts);

/// Reads true, yes, on, false, no, off, in any case; nothing for other words.
std::optional<bool> boolean_word(const std::string& text);

/// Reads these words, and t, y, 1, f, n, 0, as other trainers do.
std::optional<bool> flag_word(const std::string& text);

}  // namespace lockstep
