#include "exchange/hf_config.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "exchange/hf_family.hpp"
#include "exchange/hf_keys.hpp"
#include "exchange/hf_rope.hpp"
#include "exchange/plugin_family.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace lockstep {

namespace {

// With these limits no count of elements or bytes of a model overflows 64 bits.
constexpr std::int64_t most_channels = std::int64_t{1} << 20;
constexpr std::int64_t most_features = 4 * most_channels;
constexpr std::int64_t most_layers = 4096;
constexpr std::int64_t most_experts = 4096;
constexpr std::int64_t most_tokens = std::int64_t{1} << 31;
constexpr double most_dropped = 0.99;
constexpr double most_aux_coefficient = 1e6;
constexpr std::size_t longest = std::size_t{16} << 20;  // bytes of the document
constexpr const char* hint =
    "supported families, in their standard form: gpt2, llama, mistral, qwen2, qwen3, mixtral, qwen2_moe and "
    "qwen3_moe";

Family read_family(HfKeys& keys) {
  std::string type = keys.string("model_type", "");
  std::string key = "model_type";
  if (type.empty()) {
    const Json* const classes = keys.find("architectures");
    if (classes != nullptr && classes->is_array() && !classes->empty() && classes->front().is_string()) {
      key = "architectures";
      type = classes->front().get<std::string>();
    }
  }
  if (const auto family = family_named(type)) return *family;
  const std::string_view needs = needs_of_family(type);
  if (type.empty())
    keys.malformed("model_type", "is missing");
  else
    keys.unsupported(key, fmt::format("{} is not supported{}", excerpt(Json(type)),
                                      needs.empty() ? std::string() : fmt::format(": it needs {}", needs)));
  keys.raise(hint);
  fail(ExitCode::bug, "an unknown model family was not reported");
}

Activation read_activation(HfKeys& keys, std::string_view key, const std::string& otherwise,
                           const std::vector<std::pair<std::string, Activation>>& known) {
  const std::string name = keys.string(key, otherwise);
  std::string names;
  for (const auto& [spelling, activation] : known) {
    if (name == spelling) return activation;
    names += (names.empty() ? "" : ", ") + spelling;
  }
  keys.unsupported(key, fmt::format("{} is not supported (only {})", excerpt(Json(name)), names));
  return known.front().second;
}

/// Keys that change the mathematics: absent, or at the value that means nothing.
void refuse_unless(HfKeys& keys, const std::vector<std::pair<std::string, Json>>& harmless) {
  for (const auto& [key, value] : harmless) {
    const Json* const found = keys.find(key);
    if (found == nullptr || *found == value) continue;
    keys.unsupported(key, value.is_null()
                              ? fmt::format("{} is not supported", excerpt(*found))
                              : fmt::format("{} is not supported (only {})", excerpt(*found), excerpt(value)));
  }
}

void refuse_common(HfKeys& keys) {
  refuse_unless(keys, {{"add_cross_attention", false},
                       {"is_encoder_decoder", false},
                       {"quantization_config", nullptr},
                       {"pruned_heads", Json::object()},
                       {"chunk_size_feed_forward", 0}});
}

/// Token ids may be absent, one integer or a list, of which the first counts.
std::int64_t read_token(HfKeys& keys, const std::string& key, std::int64_t otherwise, std::int64_t vocabulary) {
  if (keys.is_null(key)) return -1;
  const Json* value = keys.find(key);
  if (value == nullptr) return otherwise < vocabulary ? otherwise : -1;
  if (value->is_array() && !value->empty()) value = &value->front();
  const bool fits =
      value->is_number_integer() &&
      (!value->is_number_unsigned() || value->get<std::uint64_t>() < static_cast<std::uint64_t>(most_tokens));
  if (!fits || value->get<std::int64_t>() < -1 || value->get<std::int64_t>() >= most_tokens) {
    keys.malformed(key, fmt::format("is {}, not a token id", excerpt(*value)));
    return -1;
  }
  return value->get<std::int64_t>();
}

void read_gpt2(HfKeys& keys, ModelConfig& config) {
  config.vocabulary = keys.required_integer({"vocab_size"}, 1, most_tokens);
  config.channels = keys.required_integer({"n_embd", "hidden_size"}, 1, most_channels);
  config.layers = keys.required_integer({"n_layer", "num_hidden_layers"}, 1, most_layers);
  config.heads = keys.required_integer({"n_head", "num_attention_heads"}, 1, most_channels);
  config.max_positions = keys.required_integer({"n_positions", "max_position_embeddings"}, 1, most_tokens);
  config.feed_forward = keys.integer({"n_inner"}, 1, most_features).value_or(4 * config.channels);
  config.kv_heads = config.heads;
  if (config.channels % config.heads != 0) {
    keys.malformed("n_embd", fmt::format("{} is not a multiple of n_head {}", config.channels, config.heads));
  }
  config.head_size = std::max<std::int64_t>(1, config.channels / config.heads);
  config.norm = Norm::layer_norm;
  config.norm_eps = keys.number("layer_norm_epsilon", 1e-5, 0, 1);
  config.activation = read_activation(keys, "activation_function", "gelu_new",
                                      {{"gelu_new", Activation::gelu_tanh},
                                       {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                       {"gelu", Activation::gelu_erf},
                                       {"relu", Activation::relu},
                                       {"silu", Activation::silu}});
  config.gated_mlp = false;
  config.positions = Positions::learned;
  config.tied_head = keys.boolean("tie_word_embeddings", true);
  config.dropout = {.embedding = keys.number("embd_pdrop", 0.1, 0, most_dropped),
                    .attention = keys.number("attn_pdrop", 0.1, 0, most_dropped),
                    .residual = keys.number("resid_pdrop", 0.1, 0, most_dropped)};
  config.bos_token = read_token(keys, "bos_token_id", 50256, config.vocabulary);
  config.eos_token = read_token(keys, "eos_token_id", 50256, config.vocabulary);
  refuse_unless(
      keys,
      {{"scale_attn_weights", true}, {"scale_attn_by_inverse_layer_idx", false}, {"reorder_and_upcast_attn", false}});
}

/// What a config of Llama or of a family of its shape may leave out.
struct Defaults {
  std::int64_t kv_heads, head_size;  // 0: as many as heads, channels / heads
  std::int64_t max_positions;
  std::int64_t bos_token, eos_token;  // -1: none
  std::int64_t window;                // 0: none
  double norm_eps = 1e-6;
  double theta = Rope().theta;
};
Defaults defaults_of(Family family) {
  switch (family) {
    case Family::llama: return {0, 0, 2048, 1, 2, 0};
    case Family::mistral: return {8, 0, 131072, 1, 2, 4096};
    case Family::qwen2: return {32, 0, 32768, -1, -1, 4096};
    case Family::qwen3: return {32, 128, 32768, -1, -1, 4096};
    case Family::mixtral: return {8, 0, 131072, 1, 2, 0, 1e-5, 1e6};
    case Family::qwen2_moe: return {16, 0, 32768, -1, -1, 4096};
    case Family::qwen3_moe: return {4, 0, 32768, -1, -1, 4096};
    case Family::gpt2: break;
  }
  fail(ExitCode::bug, "{} does not have the Llama layout", name_of(family));
}

void read_heads(HfKeys& keys, ModelConfig& config, const Defaults& defaults) {
  config.heads = keys.required_integer({"num_attention_heads"}, 1, most_channels);
  const std::int64_t left_out = keys.is_null("num_key_value_heads") ? 0 : defaults.kv_heads;
  config.kv_heads =
      keys.integer({"num_key_value_heads"}, 1, most_channels).value_or(left_out > 0 ? left_out : config.heads);
  if (config.heads % config.kv_heads != 0) {
    keys.malformed("num_attention_heads",
                   fmt::format("{} is not a multiple of num_key_value_heads {}", config.heads, config.kv_heads));
  }
  auto head_size = keys.integer({"head_dim"}, 1, most_channels);
  if (!head_size && defaults.head_size > 0) head_size = defaults.head_size;
  if (!head_size && config.channels % config.heads != 0) {
    keys.malformed("hidden_size",
                   fmt::format("{} is not a multiple of num_attention_heads {}, and there is no head_dim",
                               config.channels, config.heads));
  }
  config.head_size = head_size.value_or(std::max<std::int64_t>(1, config.channels / config.heads));
  if (config.head_size % 2 != 0)
    keys.malformed("head_dim", fmt::format("{} is odd; rotary positions need an even size", config.head_size));
  if (config.heads * config.head_size > most_channels) {
    keys.malformed("head_dim",
                   fmt::format("{} times {} heads exceeds {}", config.head_size, config.heads, most_channels));
  }
}

/// Biases of q, k, v, of the attention's output and of the MLP, where a family has keys for them.
void read_biases(HfKeys& keys, ModelConfig& config) {
  config.qkv_bias = config.output_bias = config.mlp_bias = false;
  switch (config.family) {
    case Family::llama: config.mlp_bias = keys.boolean("mlp_bias", false); [[fallthrough]];
    case Family::qwen3_moe:
    case Family::qwen3: config.qkv_bias = config.output_bias = keys.boolean("attention_bias", false); break;
    case Family::qwen2:
      config.qkv_bias = true;
      refuse_unless(keys, {{"attention_bias", true}});
      break;
    case Family::qwen2_moe:
      config.qkv_bias = keys.boolean("qkv_bias", true);
      refuse_unless(keys, {{"attention_bias", config.qkv_bias}});
      break;
    case Family::mixtral:
    case Family::mistral: refuse_unless(keys, {{"attention_bias", false}}); break;
    case Family::gpt2: break;
  }
  if (config.family != Family::llama) refuse_unless(keys, {{"mlp_bias", false}});
}

/// Families in which one window serves all layers, if there is one.
bool applies_to_all_layers(Family family) {
  return family == Family::mistral || family == Family::mixtral || family == Family::qwen3_moe;
}

/// Which layers have a window where the config does not list them.
std::vector<bool> windowed_layers(HfKeys& keys, const ModelConfig& config, bool has_window) {
  std::vector<bool> windowed(static_cast<std::size_t>(config.layers), has_window);
  if (applies_to_all_layers(config.family)) return windowed;
  const std::int64_t border = keys.integer({"max_window_layers"}, 0, most_tokens).value_or(28);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    // transformers reads it in two ways: of qwen2_moe every other layer before it has a window, of others all behind it
    const bool has = config.family == Family::qwen2_moe ? layer < border && layer % 2 == 0 : layer >= border;
    windowed[static_cast<std::size_t>(layer)] = has_window && has;
  }
  return windowed;
}

/// layer_types, where they are given; notes a problem for what they do not say of each layer.
std::vector<bool> listed_layers(HfKeys& keys, const ModelConfig& config, bool has_window, std::vector<bool> windowed) {
  const Json* const kinds = keys.find("layer_types");
  if (kinds == nullptr) return windowed;
  const auto is = [](const char* name) { return [name](const Json& kind) { return kind == name; }; };
  const auto is_either = [&](const Json& kind) { return is("full_attention")(kind) || is("sliding_attention")(kind); };
  if (!kinds->is_array() || !std::ranges::all_of(*kinds, is_either)) {
    keys.unsupported("layer_types", fmt::format("{} is not supported (only \"full_attention\" and "
                                                "\"sliding_attention\")",
                                                excerpt(*kinds)));
    return windowed;
  }
  std::vector<bool> listed;
  for (const Json& kind : *kinds) listed.push_back(is("sliding_attention")(kind));
  if (std::ranges::find(listed, true) != listed.end() && !has_window) {
    keys.unsupported("layer_types", fmt::format("{} is not supported without a sliding_window", excerpt(*kinds)));
  } else if (std::ssize(listed) != config.layers) {
    keys.malformed("layer_types", fmt::format("lists {} layers instead of {}", listed.size(), config.layers));
  } else if (applies_to_all_layers(config.family) && listed != windowed) {
    keys.unsupported("layer_types", fmt::format("{} is not supported: all layers of {} use the same sliding_window",
                                                excerpt(*kinds), name_of(config.family)));
  } else {
    return listed;
  }
  return windowed;
}

void read_windows(HfKeys& keys, ModelConfig& config, const Defaults& defaults) {
  const bool is_always_used = config.family == Family::mistral || config.family == Family::mixtral;
  const bool is_used = is_always_used || keys.boolean("use_sliding_window", false);
  std::int64_t window = keys.is_null("sliding_window") ? 0 : defaults.window;
  if (config.family == Family::llama)
    refuse_unless(keys, {{"sliding_window", nullptr}, {"use_sliding_window", false}});
  else  // transformers writes 0 for a window of qwen2_moe that is not used
    window = keys.integer({"sliding_window"}, is_used ? 1 : 0, most_tokens).value_or(window);
  const bool has_window = window > 0 && is_used;
  const std::vector<bool> windowed = listed_layers(keys, config, has_window, windowed_layers(keys, config, has_window));
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  for (const bool layer : windowed) config.windows.push_back(layer ? window : 0);
}

void read_expert_counts(HfKeys& keys, ModelConfig& config, const std::vector<std::string>& count_keys,
                        std::int64_t count, std::int64_t per_token) {
  Experts& experts = config.experts;
  experts.count = keys.integer(count_keys, 1, most_experts).value_or(count);
  experts.per_token = keys.integer({"num_experts_per_tok"}, 1, most_experts).value_or(per_token);
  if (experts.per_token > experts.count)
    keys.malformed("num_experts_per_tok",
                   fmt::format("{} exceeds {} {}", experts.per_token, count_keys.front(), experts.count));
  const double coefficient = keys.number("router_aux_loss_coef", 0.001, 0, most_aux_coefficient);
  if (keys.boolean("output_router_logits", false)) experts.aux_coefficient = coefficient;
}

void read_mixtral_experts(HfKeys& keys, ModelConfig& config) {
  read_expert_counts(keys, config, {"num_local_experts", "num_experts"}, 8, 2);
  config.experts.feed_forward = config.feed_forward;
  config.experts.layers.assign(static_cast<std::size_t>(config.layers), true);
  if (const double noise = keys.number("router_jitter_noise", 0, 0, 1); noise != 0)
    keys.unsupported("router_jitter_noise", fmt::format("{} is not supported (only 0)", noise));
}

/// Layers without experts: those that mlp_only_layers lists, and all but every decoder_sparse_step-th.
void read_qwen_experts(HfKeys& keys, ModelConfig& config) {
  const bool shares = config.family == Family::qwen2_moe;
  read_expert_counts(keys, config, {"num_experts", "num_local_experts"}, shares ? 60 : 128, shares ? 4 : 8);
  config.experts.feed_forward = keys.integer({"moe_intermediate_size"}, 1, most_features).value_or(shares ? 1408 : 768);
  if (shares)
    config.experts.shared_feed_forward =
        keys.integer({"shared_expert_intermediate_size"}, 1, most_features).value_or(5632);
  config.experts.normalised = keys.boolean("norm_topk_prob", false);
  const std::int64_t step = keys.integer({"decoder_sparse_step"}, 1, most_layers).value_or(1);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) config.experts.layers.push_back((layer + 1) % step == 0);
  const Json* const dense = keys.find("mlp_only_layers");
  if (dense == nullptr) return;
  const auto is_layer = [](const Json& index) {
    return index.is_number_unsigned() && index.get<std::uint64_t>() < static_cast<std::uint64_t>(most_layers);
  };
  if (!dense->is_array() || !std::ranges::all_of(*dense, is_layer))
    return keys.malformed("mlp_only_layers", fmt::format("is {}, not a list of layers", excerpt(*dense)));
  for (const Json& index : *dense)
    if (const auto layer = index.get<std::size_t>(); layer < config.experts.layers.size())
      config.experts.layers[layer] = false;
}

/// Llama and the families of its shape.
void read_llama(HfKeys& keys, ModelConfig& config, const std::string& origin) {
  const Defaults defaults = defaults_of(config.family);
  config.vocabulary = keys.required_integer({"vocab_size"}, 1, most_tokens);
  config.channels = keys.required_integer({"hidden_size"}, 1, most_channels);
  config.feed_forward = keys.required_integer({"intermediate_size"}, 1, most_features);
  config.layers = keys.required_integer({"num_hidden_layers"}, 1, most_layers);
  config.max_positions = keys.integer({"max_position_embeddings"}, 1, most_tokens).value_or(defaults.max_positions);
  read_heads(keys, config, defaults);
  config.norm = Norm::rms_norm;
  config.norm_eps = keys.number("rms_norm_eps", defaults.norm_eps, 0, 1);
  config.query_key_norm = config.family == Family::qwen3 || config.family == Family::qwen3_moe;
  config.activation = read_activation(keys, "hidden_act", "silu", {{"silu", Activation::silu}});
  config.gated_mlp = true;
  config.positions = Positions::rotary;
  read_biases(keys, config);
  if (config.family == Family::mixtral) read_mixtral_experts(keys, config);
  if (config.family == Family::qwen2_moe || config.family == Family::qwen3_moe) read_qwen_experts(keys, config);
  config.tied_head = keys.boolean("tie_word_embeddings", false);
  config.dropout.attention = keys.number("attention_dropout", 0, 0, most_dropped);
  config.bos_token = read_token(keys, "bos_token_id", defaults.bos_token, config.vocabulary);
  config.eos_token = read_token(keys, "eos_token_id", defaults.eos_token, config.vocabulary);
  config.rope = read_rope(keys, defaults.theta, config.head_size, config.max_positions, origin);
  read_windows(keys, config, defaults);
  refuse_unless(keys, {{"partial_rotary_factor", 1.0}});
}

}  // namespace

std::string hf_dtype_name(DType dtype) {
  if (const auto type = weight_type(dtype)) {
    switch (*type) {
      case WeightType::f64: return "float64";
      case WeightType::f32: return "float32";
      case WeightType::f16: return "float16";
      case WeightType::bf16: return "bfloat16";
    }
  }
  fail(ExitCode::bug, "no torch_dtype for {}", name_of(dtype));
}

ModelConfig parse_hf_config(const std::string& text, const std::string& origin) {
  if (text.size() > longest)
    fail(ExitCode::input, "{}: {} bytes are too many for a model's configuration (at most {})", origin, text.size(),
         longest);
  auto document = std::make_shared<const Json>(parse_json(text, origin));
  if (const auto family = plugin_family_of(*document))
    document = std::make_shared<const Json>(as_built_in(*family, text, origin));
  if (!document->is_object())
    fail(ExitCode::input, "{}: cannot use it as a model's configuration: it is not a JSON object", origin);
  HfKeys keys(*document, origin);
  ModelConfig config;
  config.family = read_family(keys);
  if (config.family == Family::gpt2)
    read_gpt2(keys, config);
  else
    read_llama(keys, config, origin);
  config.initializer_range = keys.number("initializer_range", 0.02, 0, 1);
  refuse_common(keys);
  keys.raise(hint);
  config.original = std::move(document);
  return config;
}

}  // namespace lockstep
