// Small models, described by a config.json of each family.
#pragma once

#include "architecture/architecture.hpp"
#include "exchange/hf_config.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace lockstep::test {

struct TinyModel {
  std::int64_t vocabulary = 29;  // a prime: no number of ranks divides it
  std::int64_t positions = 16;
  std::int64_t width = 16;
  std::int64_t layers = 2;
  std::int64_t heads = 2;
  double initial = 0.2;              // standard deviation of weights
  std::int64_t intermediate = 0;     // all families but gpt2
  std::int64_t key_value_heads = 1;  // all families but gpt2
  bool tied = false;                 // all families but gpt2: the head's matrix is the embedding's
  double aux = 0;                    // coefficient of the experts' auxiliary loss; 0: none
  std::int64_t experts = 5;          // mixtral only
};

/// The keys of config.json for the auxiliary loss of experts.
inline std::string aux_keys(double coefficient) {
  return coefficient > 0 ? fmt::format(R"(, "output_router_logits": true, "router_aux_loss_coef": {})", coefficient)
                         : std::string();
}

/// The head is tied to the embedding.
inline Architecture tiny_gpt2(const TinyModel& of) {
  return describe(parse_hf_config(
      fmt::format(R"({{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": {}, "n_positions": {},
        "n_embd": {}, "n_layer": {}, "n_head": {}, "initializer_range": {}, "resid_pdrop": 0, "embd_pdrop": 0,
        "attn_pdrop": 0}})",
                  of.vocabulary, of.positions, of.width, of.layers, of.heads, of.initial),
      "test"));
}

inline Architecture tiny_llama(const TinyModel& of) {
  return describe(
      parse_hf_config(fmt::format(R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": {},
        "max_position_embeddings": {}, "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {},
        "initializer_range": {}, "intermediate_size": {}, "num_key_value_heads": {}, "tie_word_embeddings": {}}})",
                                  of.vocabulary, of.positions, of.width, of.layers, of.heads, of.initial,
                                  of.intermediate, of.key_value_heads, of.tied),
                      "test"));
}

/// Every layer has experts, two for each token.
inline Architecture tiny_mixtral(const TinyModel& of) {
  return describe(
      parse_hf_config(fmt::format(R"({{"model_type": "mixtral", "vocab_size": {}, "max_position_embeddings": {},
        "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {}, "initializer_range": {},
        "intermediate_size": {}, "num_key_value_heads": {}, "tie_word_embeddings": {}, "num_local_experts": {},
        "num_experts_per_tok": 2{}}})",
                                  of.vocabulary, of.positions, of.width, of.layers, of.heads, of.initial,
                                  of.intermediate, of.key_value_heads, of.tied, of.experts, aux_keys(of.aux)),
                      "test"));
}

/// Every other layer has four experts, two for each token, with weights that are not normalised.
inline Architecture tiny_qwen3_moe(const TinyModel& of) {
  return describe(
      parse_hf_config(fmt::format(R"({{"model_type": "qwen3_moe", "vocab_size": {}, "max_position_embeddings": {},
        "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {}, "initializer_range": {},
        "intermediate_size": {}, "num_key_value_heads": {}, "tie_word_embeddings": {}, "num_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 7, "decoder_sparse_step": 2,
        "head_dim": 6{}}})",
                                  of.vocabulary, of.positions, of.width, of.layers, of.heads, of.initial,
                                  of.intermediate, of.key_value_heads, of.tied, aux_keys(of.aux)),
                      "test"));
}

/// Every other layer has four experts, two for each token, with weights that are not normalised, and one shared expert;
/// queries, keys and values have biases.
inline Architecture tiny_qwen2_moe(const TinyModel& of) {
  return describe(
      parse_hf_config(fmt::format(R"({{"model_type": "qwen2_moe", "vocab_size": {}, "max_position_embeddings": {},
        "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {}, "initializer_range": {},
        "intermediate_size": {}, "num_key_value_heads": {}, "tie_word_embeddings": {}, "num_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 7, "shared_expert_intermediate_size": 11,
        "decoder_sparse_step": 2{}}})",
                                  of.vocabulary, of.positions, of.width, of.layers, of.heads, of.initial,
                                  of.intermediate, of.key_value_heads, of.tied, aux_keys(of.aux)),
                      "test"));
}

/// Heads have 6 channels, independent of the width, and queries and keys have norms.
inline Architecture tiny_qwen3(const TinyModel& of) {
  return describe(
      parse_hf_config(fmt::format(R"({{"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": {},
        "max_position_embeddings": {}, "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {},
        "initializer_range": {}, "intermediate_size": {}, "num_key_value_heads": {}, "tie_word_embeddings": {},
        "head_dim": 6}})",
                                  of.vocabulary, of.positions, of.width, of.layers, of.heads, of.initial,
                                  of.intermediate, of.key_value_heads, of.tied),
                      "test"));
}

}  // namespace lockstep::test
