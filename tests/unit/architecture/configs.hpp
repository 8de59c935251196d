// Small models that the tests of this room speak of.
#pragma once

#include "exchange/hf_config.hpp"

namespace lockstep {

inline ModelConfig tiny_gpt2() {
  return parse_hf_config(R"({"model_type":"gpt2","vocab_size":11,"n_embd":8,"n_layer":2,"n_head":2,"n_positions":6,
                             "resid_pdrop":0,"embd_pdrop":0,"attn_pdrop":0})",
                         "gpt2.json");
}

inline ModelConfig tiny_llama() {
  return parse_hf_config(
      R"({"model_type":"llama","vocab_size":13,"hidden_size":12,"intermediate_size":20,"num_hidden_layers":3,
                             "num_attention_heads":4,"num_key_value_heads":2,"head_dim":6,"rms_norm_eps":1e-5})",
      "llama.json");
}

/// With norms of queries and keys, and a window in its second layer.
inline ModelConfig tiny_qwen3() {
  return parse_hf_config(
      R"({"model_type":"qwen3","vocab_size":13,"hidden_size":12,"intermediate_size":20,"num_hidden_layers":2,
          "num_attention_heads":4,"num_key_value_heads":2,"head_dim":6,"use_sliding_window":true,"sliding_window":3,
          "max_window_layers":1})",
      "qwen3.json");
}

/// The second of its layers has experts, three of width 5, of which a token goes to two.
inline ModelConfig tiny_qwen3_moe() {
  return parse_hf_config(
      R"({"model_type":"qwen3_moe","vocab_size":13,"hidden_size":12,"intermediate_size":20,"num_hidden_layers":2,
          "num_attention_heads":4,"num_key_value_heads":2,"head_dim":6,"num_experts":3,"num_experts_per_tok":2,
          "moe_intermediate_size":5,"mlp_only_layers":[0]})",
      "qwen3_moe.json");
}

/// The second of its layers has experts, three of width 5, of which a token goes to two, and a shared one of width 7.
inline ModelConfig tiny_qwen2_moe() {
  return parse_hf_config(
      R"({"model_type":"qwen2_moe","vocab_size":13,"hidden_size":12,"intermediate_size":20,"num_hidden_layers":2,
          "num_attention_heads":4,"num_key_value_heads":2,"head_dim":6,"num_experts":3,"num_experts_per_tok":2,
          "moe_intermediate_size":5,"shared_expert_intermediate_size":7,"mlp_only_layers":[0]})",
      "qwen2_moe.json");
}

}  // namespace lockstep
