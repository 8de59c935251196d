#include "base/error.hpp"
#include "base/json.hpp"
#include "exchange/hf_config.hpp"
#include "exchange/hf_family.hpp"
#include "exchange/hf_rope.hpp"

namespace lockstep {

namespace {

std::string_view gpt2_activation(Activation activation) {
  switch (activation) {
    case Activation::gelu_tanh: return "gelu_new";
    case Activation::gelu_erf: return "gelu";
    case Activation::silu: return "silu";
    case Activation::relu: return "relu";
  }
  return "gelu_new";
}

/// Writes a token id; a list of which it is the first stays, since all its members end a text.
void write_token(Json& document, const char* key, std::int64_t token) {
  const auto found = document.find(key);
  if (found != document.end() && found->is_array() && !found->empty() && found->front() == token) return;
  document[key] = token < 0 ? Json(nullptr) : Json(token);
}

void write_gpt2(Json& document, const ModelConfig& config) {
  for (const char* const alias : {"hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"})
    document.erase(alias);
  document["n_embd"] = config.channels;
  document["n_layer"] = config.layers;
  document["n_head"] = config.heads;
  document["n_positions"] = config.max_positions;
  document["n_inner"] = config.feed_forward == 4 * config.channels ? Json(nullptr) : Json(config.feed_forward);
  document["layer_norm_epsilon"] = config.norm_eps;
  const auto activation = document.find("activation_function");
  const bool same =
      activation != document.end() && *activation == "gelu_pytorch_tanh" && config.activation == Activation::gelu_tanh;
  if (!same) document["activation_function"] = gpt2_activation(config.activation);
  document["embd_pdrop"] = config.dropout.embedding;
  document["attn_pdrop"] = config.dropout.attention;
  document["resid_pdrop"] = config.dropout.residual;
}

void write_experts(Json& document, const ModelConfig& config) {
  const Experts& experts = config.experts;
  const bool mixtral = config.family == Family::mixtral;
  document[mixtral ? "num_local_experts" : "num_experts"] = experts.count;
  document["num_experts_per_tok"] = experts.per_token;
  if (mixtral) return;
  document["moe_intermediate_size"] = experts.feed_forward;
  document["norm_topk_prob"] = experts.normalised;
  if (experts.shared_feed_forward > 0) document["shared_expert_intermediate_size"] = experts.shared_feed_forward;
}

void write_llama(Json& document, const ModelConfig& config) {
  document["hidden_size"] = config.channels;
  document["intermediate_size"] = config.feed_forward;
  document["num_hidden_layers"] = config.layers;
  document["num_attention_heads"] = config.heads;
  document["num_key_value_heads"] = config.kv_heads;
  document["head_dim"] = config.head_size;
  document["hidden_act"] = "silu";
  document["max_position_embeddings"] = config.max_positions;
  document["rms_norm_eps"] = config.norm_eps;
  if (config.family == Family::llama || config.query_key_norm) document["attention_bias"] = config.qkv_bias;
  if (config.family == Family::llama) document["mlp_bias"] = config.mlp_bias;
  if (config.family == Family::qwen2_moe) document["qkv_bias"] = config.qkv_bias;
  document["attention_dropout"] = config.dropout.attention;
  write_rope(document, config.rope);
  if (config.experts.count > 0) write_experts(document, config);
}

}  // namespace

Json to_json(const ModelConfig& config, const std::string& dtype_name) {
  Json document = config.original ? *config.original : Json::object();
  document["architectures"] = Json::array({class_of(config.family)});
  document["model_type"] = name_of(config.family);
  document["vocab_size"] = config.vocabulary;
  if (config.family == Family::gpt2)
    write_gpt2(document, config);
  else
    write_llama(document, config);
  document["initializer_range"] = config.initializer_range;
  document["tie_word_embeddings"] = config.tied_head;
  document["bos_token_id"] = config.bos_token < 0 ? Json(nullptr) : Json(config.bos_token);
  write_token(document, "eos_token_id", config.eos_token);
  document["torch_dtype"] = dtype_name;
  document["dtype"] = dtype_name;
  return document;
}

std::vector<std::string> problems_in_transformers(const ModelConfig& config) {
  std::vector<std::string> problems;
  if (config.family == Family::llama && config.channels % config.heads != 0)
    problems.push_back(
        fmt::format("hidden_size {} is not a multiple of num_attention_heads {}, which it requires of {} "
                    "even if head_dim is set",
                    config.channels, config.heads, name_of(config.family)));
  const Json padding = config.original ? config.original->value("pad_token_id", Json()) : Json();
  if (config.family == Family::gpt2 || padding.is_null()) return problems;
  const auto is_row = [&] {
    return padding.is_number_integer() && padding.get<std::int64_t>() < config.vocabulary &&
           padding.get<std::int64_t>() >= -config.vocabulary;
  };
  if (!is_row())
    problems.push_back(fmt::format("pad_token_id {} is not in the embedding, which has vocab_size {}", to_text(padding),
                                   config.vocabulary));
  return problems;
}

}  // namespace lockstep
