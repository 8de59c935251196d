// Two small architectures for tests of what trains.
#pragma once

#include "architecture/architecture.hpp"
#include "data/batch.hpp"
#include "exchange/hf_config.hpp"

#include <numeric>

namespace lockstep {

inline Architecture small_gpt2() {
  return describe(parse_hf_config(
      R"({"model_type": "gpt2", "vocab_size": 23, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0})",
      "gpt2.json"));
}

inline Architecture small_llama() {
  return describe(
      parse_hf_config(R"({"model_type": "llama", "vocab_size": 29, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "hidden_act": "silu",
    "rms_norm_eps": 1e-6, "tie_word_embeddings": false})",
                      "llama.json"));
}

/// The second of its layers has experts.
inline Architecture small_qwen3_moe() {
  return describe(
      parse_hf_config(R"({"model_type": "qwen3_moe", "vocab_size": 29, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "head_dim": 6, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 7, "decoder_sparse_step": 2})",
                      "qwen3_moe.json"));
}

/// The second of its layers has experts, one of them shared.
inline Architecture small_qwen2_moe() {
  return describe(
      parse_hf_config(R"({"model_type": "qwen2_moe", "vocab_size": 29, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 7, "shared_expert_intermediate_size": 9,
    "decoder_sparse_step": 2})",
                      "qwen2_moe.json"));
}

/// Samples of tokens 0, 1, 2, …; every label the next token.
inline Batch counting_batch(std::int64_t samples, std::int64_t length, std::int64_t vocabulary) {
  Batch batch;
  batch.samples = samples;
  batch.length = length;
  for (std::int64_t s = 0; s < samples; ++s) {
    batch.documents.push_back(s * length);
    for (std::int64_t t = 0; t < length; ++t) {
      batch.tokens.push_back(static_cast<std::int32_t>((s + 3 * t) % vocabulary));
      batch.labels.push_back(static_cast<std::int32_t>((s + 3 * t + 3) % vocabulary));
      batch.positions.push_back(static_cast<std::int32_t>(t));
    }
  }
  batch.documents.push_back(samples * length);
  batch.valid_tokens = samples * length;
  return batch;
}

}  // namespace lockstep
