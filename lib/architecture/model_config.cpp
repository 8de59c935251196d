#include "architecture/model_config.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace lockstep {

std::string_view name_of(Family family) {
  switch (family) {
    case Family::gpt2: return "gpt2";
    case Family::llama: return "llama";
    case Family::mistral: return "mistral";
    case Family::qwen2: return "qwen2";
    case Family::qwen3: return "qwen3";
    case Family::mixtral: return "mixtral";
    case Family::qwen2_moe: return "qwen2_moe";
    case Family::qwen3_moe: return "qwen3_moe";
  }
  fail(ExitCode::bug, "unknown Family {}", static_cast<int>(family));
}

std::int64_t ModelConfig::window_of(int layer) const {
  return windows.empty() ? 0 : windows[static_cast<std::size_t>(layer)];
}

bool ModelConfig::has_experts(int layer) const {
  return experts.count > 0 && experts.layers[static_cast<std::size_t>(layer)];
}

std::int64_t ModelConfig::expert_layers(std::int64_t first) const {
  return std::count(experts.layers.begin(), experts.layers.begin() + std::min(first, std::ssize(experts.layers)), true);
}

}  // namespace lockstep
