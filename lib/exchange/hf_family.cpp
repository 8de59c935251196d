#include "exchange/hf_family.hpp"

#include "base/error.hpp"

#include <array>

namespace lockstep {

namespace {

constexpr std::array families{Family::gpt2,  Family::llama,   Family::mistral,   Family::qwen2,
                              Family::qwen3, Family::mixtral, Family::qwen2_moe, Family::qwen3_moe};

struct Untrained {
  std::string_view type, start_of_class, needs;
};
constexpr std::string_view latent = "experts and latent attention";
constexpr std::string_view gemma = "gated GELU, norms that add 1 to their weights and scaled embeddings";
constexpr std::string_view parallel = "attention and MLP in parallel";
constexpr std::array untrained{
    Untrained{"qwen3_next", "Qwen3Next", "experts and linear attention"},
    Untrained{"deepseek_v2", "DeepseekV2", latent},
    Untrained{"deepseek_v3", "DeepseekV3", latent},
    Untrained{"gpt_oss", "GptOss", "experts and attention sinks"},
    Untrained{"gemma", "GemmaFor", gemma},
    Untrained{"gemma2", "Gemma2", gemma},
    Untrained{"gemma3_text", "Gemma3", gemma},
    Untrained{"phi", "PhiFor", parallel},
    Untrained{"phi3", "Phi3", "fused query-key-value and gate-up tensors"},
    Untrained{"gpt_neox", "GPTNeoX", parallel},
    Untrained{"gptj", "GPTJ", parallel},
    Untrained{"falcon", "Falcon", parallel},
    Untrained{"cohere", "Cohere", parallel},
    Untrained{"opt", "OPT", "learned positions that start at 2"},
    Untrained{"bloom", "Bloom", "positions as a bias of attention (ALiBi)"},
    Untrained{"mpt", "Mpt", "positions as a bias of attention (ALiBi)"},
    Untrained{"olmo2", "Olmo2", "norms after attention and MLP"},
    Untrained{"mamba", "Mamba", "state space layers"},
};

}  // namespace

std::string_view class_of(Family family) {
  switch (family) {
    case Family::gpt2: return "GPT2LMHeadModel";
    case Family::llama: return "LlamaForCausalLM";
    case Family::mistral: return "MistralForCausalLM";
    case Family::qwen2: return "Qwen2ForCausalLM";
    case Family::qwen3: return "Qwen3ForCausalLM";
    case Family::mixtral: return "MixtralForCausalLM";
    case Family::qwen2_moe: return "Qwen2MoeForCausalLM";
    case Family::qwen3_moe: return "Qwen3MoeForCausalLM";
  }
  fail(ExitCode::bug, "unknown Family {}", static_cast<int>(family));
}

std::optional<Family> family_named(std::string_view name) {
  for (const Family family : families)
    if (name == name_of(family) || name == class_of(family)) return family;
  return std::nullopt;
}

std::string_view needs_of_family(std::string_view name) {
  for (const Untrained& family : untrained)
    if (name == family.type || name.starts_with(family.start_of_class)) return family.needs;
  return {};
}

}  // namespace lockstep
