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

/// Suggests one of `names`, which are names of tensors, for an unknown name: the one with nearly the same spelling, or
/// the first that has its parts in order. "model.layers.0.self_attn.q_proj.weight" has the parts of "layers.0.q_proj".
/// Local.
std::optional<std::string> suggested_tensor(const std::string& name, const std::vector<std::string>& names);

/// Suggests a pattern for one that is found in none of `names`: such a name, or a part of one. Local.
std::optional<std::string> suggested_pattern(const std::string& pattern, const std::vector<std::string>& names);

/// Suggests one of `choices`. Local.
std::optional<std::string> suggested_choice(const std::vector<std::string>& choices, const std::string& text);

}  // namespace lockstep
