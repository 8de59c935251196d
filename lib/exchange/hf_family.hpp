// Hugging Face names of the model families that Lockstep trains, and the missing features of other families.
#pragma once

#include "architecture/model_config.hpp"

#include <optional>
#include <string_view>

namespace lockstep {

/// Returns the class in a config's `architectures`: "LlamaForCausalLM".
std::string_view class_of(Family family);

/// Finds a family by model_type or class.
std::optional<Family> family_named(std::string_view name);

/// Returns the feature that a family needs and Lockstep does not have, such as "experts"; empty if the family is not
/// known here. `name` is a model_type or a class.
std::string_view needs_of_family(std::string_view name);

}  // namespace lockstep
