// What the texts of a document mean for the declared options: types, ranges, choices, unknown keys. Reading the
// document: config/document.hpp; the declaration: config/option.hpp.
#pragma once

#include "config/document.hpp"
#include "config/option.hpp"
#include "config/problems.hpp"
#include "config/settings.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// Sets every option that `document` mentions, and says where each option's value comes from. What cannot be set is a
/// problem and keeps its built-in value. Null takes back what lower layers said: an optional value is absent, another
/// one built in. A name that an option no longer has may be null. What only other programs read, as `all_programs`
/// says, is passed over if they could read it.
Settings apply(Declaration& declaration, const Node& document, Problems& problems,
               const Declaration* all_programs = nullptr);

/// Adds a problem for each required option that `document` does not set.
void require(const Declaration& declaration, const Node& document, Problems& problems);

/// The value that `node` is for an option; nothing if it is none, which is then a problem. `path` names the option.
std::optional<Json> interpret(const OptionType& type, const OptionFacts& facts, const Node& node,
                              const std::string& path, Problems& problems);

/// "from 0 to 1", "at least 1", "greater than 0"; empty if any number will do.
std::string range_text(const OptionFacts& facts);

/// true, yes, on, false, no, off in any case; nothing for other words.
std::optional<bool> boolean_word(const std::string& text);

}  // namespace lockstep
