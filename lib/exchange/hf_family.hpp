// The families of models that Lockstep trains, by the names that Hugging Face gives them, and what others would need.
#pragma once

#include <optional>
#include <string_view>

namespace lockstep {

enum class Family { gpt2, llama, mistral, qwen2, qwen3, mixtral, qwen2_moe, qwen3_moe };

/// "gpt2", "llama": model_type as Hugging Face spells it.
std::string_view name_of(Family family);
/// "LlamaForCausalLM": the class in a config's `architectures`.
std::string_view class_of(Family family);

/// By model_type or by class.
std::optional<Family> family_named(std::string_view name);

/// What a family that is not trained needs and Lockstep does not have, "experts"; empty for one that is not known here.
/// `name` is a model_type or a class.
std::string_view needs_of_family(std::string_view name);

}  // namespace lockstep
