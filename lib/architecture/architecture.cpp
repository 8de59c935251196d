#include "architecture/architecture.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

std::string_view name_of(Role role) {
  switch (role) {
    case Role::token_embedding: return "token_embedding";
    case Role::position_embedding: return "position_embedding";
    case Role::attention_norm: return "attention_norm";
    case Role::attention_norm_bias: return "attention_norm_bias";
    case Role::query: return "query";
    case Role::query_bias: return "query_bias";
    case Role::query_norm: return "query_norm";
    case Role::key: return "key";
    case Role::key_bias: return "key_bias";
    case Role::key_norm: return "key_norm";
    case Role::value: return "value";
    case Role::value_bias: return "value_bias";
    case Role::qkv: return "qkv";
    case Role::qkv_bias: return "qkv_bias";
    case Role::attention_output: return "attention_output";
    case Role::attention_output_bias: return "attention_output_bias";
    case Role::mlp_norm: return "mlp_norm";
    case Role::mlp_norm_bias: return "mlp_norm_bias";
    case Role::gate: return "gate";
    case Role::gate_bias: return "gate_bias";
    case Role::up: return "up";
    case Role::up_bias: return "up_bias";
    case Role::down: return "down";
    case Role::down_bias: return "down_bias";
    case Role::router: return "router";
    case Role::expert_gate_up: return "expert_gate_up";
    case Role::expert_down: return "expert_down";
    case Role::shared_expert_gate: return "shared_expert_gate";
    case Role::final_norm: return "final_norm";
    case Role::final_norm_bias: return "final_norm_bias";
    case Role::head: return "head";
  }
  return "unknown";
}

namespace {

using Kind = BlockDescription::Kind;

/// Collects the tensors of one block; names get the prefix of their place in the model.
class BlockBuilder {
 public:
  BlockBuilder(Kind kind, int layer, std::string prefix) : block_{kind, layer, {}}, prefix_(std::move(prefix)) {}

  void normal(Role role, const std::string& name, Shape shape, double std) {
    add(role, name, std::move(shape), {Initial::Kind::normal, std});
  }
  void zeros(Role role, const std::string& name, Shape shape) {
    add(role, name, std::move(shape), {Initial::Kind::zeros, 0});
  }
  void ones(Role role, const std::string& name, Shape shape) {
    add(role, name, std::move(shape), {Initial::Kind::ones, 0});
  }
  /// The last one is a stack of matrices of so many rows each.
  void is_stack_of(std::int64_t rows) { block_.tensors.back().matrix_rows = rows; }
  BlockDescription take() { return std::move(block_); }

 private:
  void add(Role role, const std::string& name, Shape shape, Initial initial) {
    block_.tensors.push_back({.name = prefix_ + name, .role = role, .shape = std::move(shape), .initial = initial});
  }
  BlockDescription block_;
  std::string prefix_;
};

void add_head(BlockDescription& block, const ModelConfig& config, const std::string& embedding) {
  block.tensors.push_back({.name = "lm_head.weight",
                           .role = Role::head,
                           .shape = {config.vocabulary, config.channels},
                           .initial = {Initial::Kind::normal, config.initializer_range},
                           .alias_of = config.tied_head ? embedding : std::string()});
}

BlockDescription gpt2_embedding(const ModelConfig& config) {
  BlockBuilder block(Kind::embedding, -1, "transformer.");
  block.normal(Role::token_embedding, "wte.weight", {config.vocabulary, config.channels}, config.initializer_range);
  block.normal(Role::position_embedding, "wpe.weight", {config.max_positions, config.channels},
               config.initializer_range);
  return block.take();
}

BlockDescription gpt2_decoder(const ModelConfig& config, int layer) {
  const std::int64_t C = config.channels;
  const std::int64_t F = config.feed_forward;
  const double std = config.initializer_range;
  const double residual_std =
      std / std::sqrt(2.0 * static_cast<double>(config.layers));  // two residual additions a layer
  BlockBuilder block(Kind::decoder, layer, fmt::format("transformer.h.{}.", layer));
  block.ones(Role::attention_norm, "ln_1.weight", {C});
  block.zeros(Role::attention_norm_bias, "ln_1.bias", {C});
  block.normal(Role::qkv, "attn.c_attn.weight", {C, 3 * C}, std);
  block.zeros(Role::qkv_bias, "attn.c_attn.bias", {3 * C});
  block.normal(Role::attention_output, "attn.c_proj.weight", {C, C}, residual_std);
  block.zeros(Role::attention_output_bias, "attn.c_proj.bias", {C});
  block.ones(Role::mlp_norm, "ln_2.weight", {C});
  block.zeros(Role::mlp_norm_bias, "ln_2.bias", {C});
  block.normal(Role::up, "mlp.c_fc.weight", {C, F}, std);
  block.zeros(Role::up_bias, "mlp.c_fc.bias", {F});
  block.normal(Role::down, "mlp.c_proj.weight", {F, C}, residual_std);
  block.zeros(Role::down_bias, "mlp.c_proj.bias", {C});
  BlockDescription description = block.take();
  for (LogicalTensor& tensor : description.tensors) tensor.in_out = tensor.shape.size() == 2;
  return description;
}

BlockDescription gpt2_head(const ModelConfig& config) {
  BlockBuilder block(Kind::head, -1, "transformer.");
  block.ones(Role::final_norm, "ln_f.weight", {config.channels});
  block.zeros(Role::final_norm_bias, "ln_f.bias", {config.channels});
  BlockDescription description = block.take();
  add_head(description, config, "transformer.wte.weight");
  return description;
}

BlockDescription llama_embedding(const ModelConfig& config) {
  BlockBuilder block(Kind::embedding, -1, "model.");
  block.normal(Role::token_embedding, "embed_tokens.weight", {config.vocabulary, config.channels},
               config.initializer_range);
  return block.take();
}

/// The shared expert is the MLP of its layer.
void add_experts(BlockBuilder& block, const ModelConfig& config) {
  const std::int64_t E = config.experts.count, F = config.experts.feed_forward, S = config.experts.shared_feed_forward;
  const std::int64_t C = config.channels;
  const std::string module = config.family == Family::mixtral ? "block_sparse_moe." : "mlp.";
  block.normal(Role::router, module + "gate.weight", {E, C}, config.initializer_range);
  block.normal(Role::expert_gate_up, module + "experts.gate_up_proj", {E * 2 * F, C}, config.initializer_range);
  block.is_stack_of(F);
  block.normal(Role::expert_down, module + "experts.down_proj", {E * C, F}, config.initializer_range);
  block.is_stack_of(C);
  if (S == 0) return;
  block.normal(Role::gate, module + "shared_expert.gate_proj.weight", {S, C}, config.initializer_range);
  block.normal(Role::up, module + "shared_expert.up_proj.weight", {S, C}, config.initializer_range);
  block.normal(Role::down, module + "shared_expert.down_proj.weight", {C, S}, config.initializer_range);
  block.normal(Role::shared_expert_gate, module + "shared_expert_gate.weight", {1, C}, config.initializer_range);
}

BlockDescription llama_decoder(const ModelConfig& config, int layer) {
  const std::int64_t C = config.channels;
  const std::int64_t F = config.feed_forward;
  const std::int64_t Q = config.heads * config.head_size;
  const std::int64_t KV = config.kv_heads * config.head_size;
  BlockBuilder block(Kind::decoder, layer, fmt::format("model.layers.{}.", layer));
  const auto linear = [&](Role weight, Role bias, const std::string& name, std::int64_t out, std::int64_t in,
                          bool biased) {
    block.normal(weight, name + ".weight", {out, in}, config.initializer_range);
    if (biased) block.zeros(bias, name + ".bias", {out});
  };
  block.ones(Role::attention_norm, "input_layernorm.weight", {C});
  linear(Role::query, Role::query_bias, "self_attn.q_proj", Q, C, config.qkv_bias);
  linear(Role::key, Role::key_bias, "self_attn.k_proj", KV, C, config.qkv_bias);
  linear(Role::value, Role::value_bias, "self_attn.v_proj", KV, C, config.qkv_bias);
  linear(Role::attention_output, Role::attention_output_bias, "self_attn.o_proj", C, Q, config.output_bias);
  if (config.query_key_norm) {
    block.ones(Role::query_norm, "self_attn.q_norm.weight", {config.head_size});
    block.ones(Role::key_norm, "self_attn.k_norm.weight", {config.head_size});
  }
  block.ones(Role::mlp_norm, "post_attention_layernorm.weight", {C});
  if (config.has_experts(layer)) {
    add_experts(block, config);
    return block.take();
  }
  linear(Role::gate, Role::gate_bias, "mlp.gate_proj", F, C, config.mlp_bias);
  linear(Role::up, Role::up_bias, "mlp.up_proj", F, C, config.mlp_bias);
  linear(Role::down, Role::down_bias, "mlp.down_proj", C, F, config.mlp_bias);
  return block.take();
}

BlockDescription llama_head(const ModelConfig& config) {
  BlockBuilder block(Kind::head, -1, "model.");
  block.ones(Role::final_norm, "norm.weight", {config.channels});
  BlockDescription description = block.take();
  add_head(description, config, "model.embed_tokens.weight");
  return description;
}

}  // namespace

Architecture describe(const ModelConfig& config) {
  const bool gpt2 = config.family == Family::gpt2;
  Architecture architecture{config, {}};
  architecture.blocks.push_back(gpt2 ? gpt2_embedding(config) : llama_embedding(config));
  for (int layer = 0; layer < config.layers; ++layer)
    architecture.blocks.push_back(gpt2 ? gpt2_decoder(config, layer) : llama_decoder(config, layer));
  architecture.blocks.push_back(gpt2 ? gpt2_head(config) : llama_head(config));
  pad_vocabulary(architecture, 1);
  return architecture;
}

void pad_vocabulary(Architecture& architecture, std::int64_t multiple) {
  for (BlockDescription& block : architecture.blocks)
    for (LogicalTensor& tensor : block.tensors)
      if (tensor.role == Role::token_embedding || tensor.role == Role::head) tensor.row_multiple = multiple;
}

std::vector<LogicalTensor> stored_tensors(const Architecture& architecture) {
  std::vector<LogicalTensor> stored;
  for (const BlockDescription& block : architecture.blocks) {
    for (const LogicalTensor& tensor : block.tensors) {
      if (tensor.alias_of.empty()) stored.push_back(tensor);
    }
  }
  return stored;
}

Shape matrix_shape(const LogicalTensor& tensor) {
  invariant(tensor.shape.size() == 2, "a matrix has two dimensions");
  return {tensor.matrix_rows > 0 ? tensor.matrix_rows : tensor.shape[0], tensor.shape[1]};
}

void mark(Architecture& architecture, const TensorRules& rules) {
  for (BlockDescription& block : architecture.blocks) {
    for (LogicalTensor& tensor : block.tensors) {
      const std::string& stored = tensor.alias_of.empty() ? tensor.name : tensor.alias_of;
      tensor.trained = !rules.freezes || !rules.freezes(stored);
      if (rules.updated_by) tensor.update = rules.updated_by(tensor);
      if (tensor.trained && rules.update_needs) tensor.update_needs = rules.update_needs(tensor);
      const auto unit = std::ranges::find_if(rules.units, [&](const auto& named) { return named.second(stored); });
      if (unit != rules.units.end()) tensor.unit = unit->first;
    }
  }
}

std::int64_t trained_count(const Architecture& architecture) {
  std::int64_t count = 0;
  for (const LogicalTensor& tensor : stored_tensors(architecture))
    if (tensor.trained) count += elements(tensor.shape);
  return count;
}

std::int64_t parameter_count(const Architecture& architecture) {
  std::int64_t count = 0;
  for (const LogicalTensor& tensor : stored_tensors(architecture)) count += elements(tensor.shape);
  return count;
}

namespace {

/// Of a matrix, with one token.
std::int64_t multiplied_elements(const LogicalTensor& tensor, const Experts& experts) {
  const bool stacked = tensor.role == Role::expert_gate_up || tensor.role == Role::expert_down;
  return stacked ? elements(tensor.shape) / experts.count * experts.per_token : elements(tensor.shape);
}

}  // namespace

std::int64_t matmul_parameter_count(const Architecture& architecture) {
  std::int64_t count = 0;
  for (const BlockDescription& block : architecture.blocks) {
    if (block.kind == Kind::embedding) continue;  // looked up, not multiplied; a tied head is counted as the head
    for (const LogicalTensor& tensor : block.tensors)
      if (tensor.shape.size() == 2) count += multiplied_elements(tensor, architecture.config.experts);
  }
  return count;
}

std::int64_t attended_keys(const ModelConfig& config, int layer, std::int64_t length) {
  const std::int64_t window = config.window_of(layer);
  return window > 0 ? std::min(window, length) : length;
}

double flops_per_token(const Architecture& architecture, std::int64_t sequence_length) {
  const ModelConfig& config = architecture.config;
  const double weights = 6 * static_cast<double>(matmul_parameter_count(architecture));
  std::int64_t keys = 0;
  for (int layer = 0; layer < config.layers; ++layer) keys += attended_keys(config, layer, sequence_length);
  return weights + 12 * static_cast<double>(config.heads * config.head_size) * static_cast<double>(keys);
}

}  // namespace lockstep
