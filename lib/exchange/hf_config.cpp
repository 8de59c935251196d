#include "exchange/hf_config.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "exchange/hf_keys.hpp"

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
constexpr std::int64_t most_tokens = std::int64_t{1} << 31;
constexpr std::size_t longest = std::size_t{16} << 20;  // bytes of the document
constexpr const char* hint = "families gpt2 and llama with their standard mathematics are supported";

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
  if (type == "gpt2" || type == "GPT2LMHeadModel") return Family::gpt2;
  if (type == "llama" || type == "LlamaForCausalLM") return Family::llama;
  if (type.empty())
    keys.malformed("model_type", "is missing");
  else
    keys.unsupported(key, fmt::format("{} is not supported", excerpt(Json(type))));
  keys.raise(hint);
  fail(ExitCode::bug, "an unknown model family went unnoticed");
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

void read_rope(HfKeys& keys, HfConfig& config, const std::string& origin) {
  constexpr double largest = 1e18;
  const bool on_top = keys.find("rope_theta") != nullptr;
  const double top = keys.number("rope_theta", 10000, 1, largest);
  config.rope_theta = top;
  for (const char* const key : {"rope_scaling", "rope_parameters"}) {
    const Json* const value = keys.find(key);
    if (value == nullptr) continue;
    if (!value->is_object()) {
      keys.malformed(key, fmt::format("is {}, not a map", excerpt(*value)));
      continue;
    }
    HfKeys inner(*value, origin);
    const Json* kind = inner.find("rope_type");
    if (kind == nullptr) kind = inner.find("type");
    if (kind != nullptr && *kind != "default") {
      keys.unsupported(fmt::format("{}.rope_type", key),
                       fmt::format("{} is not supported (only \"default\")", excerpt(*kind)));
    }
    const Json* const factor = inner.find("partial_rotary_factor");
    if (factor != nullptr && *factor != 1.0) {
      keys.unsupported(fmt::format("{}.partial_rotary_factor", key),
                       fmt::format("{} is not supported (only 1.0)", excerpt(*factor)));
    }
    const Json* const theta = inner.find("rope_theta");
    if (theta == nullptr) continue;
    const double number = theta->is_number() ? theta->get<double>() : std::nan("");
    if (!(number >= 1 && number <= largest)) {
      keys.malformed(fmt::format("{}.rope_theta", key),
                     fmt::format("is {}, not a number from 1 to {}", excerpt(*theta), largest));
    } else if (on_top && number != top) {
      keys.malformed(fmt::format("{}.rope_theta", key), fmt::format("is {}, but rope_theta is {}", number, top));
    } else {
      config.rope_theta = number;
    }
  }
}

void read_gpt2(HfKeys& keys, HfConfig& config) {
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
  config.attention_bias = true;
  config.mlp_bias = true;
  config.tied_head = keys.boolean("tie_word_embeddings", true);
  for (const char* const key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"})
    config.dropout = std::max(config.dropout, keys.number(key, 0.1, 0, 1));
  config.bos_token = read_token(keys, "bos_token_id", 50256, config.vocabulary);
  config.eos_token = read_token(keys, "eos_token_id", 50256, config.vocabulary);
  refuse_unless(
      keys,
      {{"scale_attn_weights", true}, {"scale_attn_by_inverse_layer_idx", false}, {"reorder_and_upcast_attn", false}});
}

void read_llama(HfKeys& keys, HfConfig& config, const std::string& origin) {
  config.vocabulary = keys.required_integer({"vocab_size"}, 1, most_tokens);
  config.channels = keys.required_integer({"hidden_size"}, 1, most_channels);
  config.feed_forward = keys.required_integer({"intermediate_size"}, 1, most_features);
  config.layers = keys.required_integer({"num_hidden_layers"}, 1, most_layers);
  config.heads = keys.required_integer({"num_attention_heads"}, 1, most_channels);
  config.kv_heads = keys.integer({"num_key_value_heads"}, 1, most_channels).value_or(config.heads);
  config.max_positions = keys.integer({"max_position_embeddings"}, 1, most_tokens).value_or(2048);
  if (config.heads % config.kv_heads != 0) {
    keys.malformed("num_attention_heads",
                   fmt::format("{} is not a multiple of num_key_value_heads {}", config.heads, config.kv_heads));
  }
  const auto head_size = keys.integer({"head_dim"}, 1, most_channels);
  if (!head_size && config.channels % config.heads != 0) {
    keys.malformed("hidden_size",
                   fmt::format("{} is not a multiple of num_attention_heads {}, and there is no head_dim",
                               config.channels, config.heads));
  }
  config.head_size = head_size.value_or(std::max<std::int64_t>(1, config.channels / config.heads));
  if (config.head_size % 2 != 0)
    keys.malformed("head_dim", fmt::format("{} is odd; rotary positions turn pairs", config.head_size));
  if (config.heads * config.head_size > most_channels) {
    keys.malformed("head_dim",
                   fmt::format("{} times {} heads exceeds {}", config.head_size, config.heads, most_channels));
  }
  config.norm = Norm::rms_norm;
  config.norm_eps = keys.number("rms_norm_eps", 1e-6, 0, 1);
  config.activation = read_activation(keys, "hidden_act", "silu", {{"silu", Activation::silu}});
  config.gated_mlp = true;
  config.positions = Positions::rotary;
  config.attention_bias = keys.boolean("attention_bias", false);
  config.mlp_bias = keys.boolean("mlp_bias", false);
  config.tied_head = keys.boolean("tie_word_embeddings", false);
  config.dropout = keys.number("attention_dropout", 0, 0, 1);
  config.bos_token = read_token(keys, "bos_token_id", 1, config.vocabulary);
  config.eos_token = read_token(keys, "eos_token_id", 2, config.vocabulary);
  read_rope(keys, config, origin);
  refuse_unless(keys, {{"sliding_window", nullptr}, {"use_sliding_window", false}, {"partial_rotary_factor", 1.0}});
  const Json* const kinds = keys.find("layer_types");
  if (kinds != nullptr && !(kinds->is_array() && std::all_of(kinds->begin(), kinds->end(), [](const Json& kind) {
                              return kind == "full_attention";
                            }))) {
    keys.unsupported("layer_types",
                     fmt::format("{} is not supported (only \"full_attention\" for all layers)", excerpt(*kinds)));
  }
}

}  // namespace

std::string_view name_of(Family family) { return family == Family::gpt2 ? "gpt2" : "llama"; }

std::string hf_dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f64: return "float64";
    case DType::f32: return "float32";
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    default: fail(ExitCode::bug, "{} is not a type of weights", name_of(dtype));
  }
}

HfConfig parse_hf_config(const std::string& text, const std::string& origin) {
  if (text.size() > longest)
    fail(ExitCode::input, "{}: {} bytes are too many for a model's configuration (at most {})", origin, text.size(),
         longest);
  auto document = std::make_shared<const Json>(parse_json(text, origin));
  if (!document->is_object())
    fail(ExitCode::input, "{}: cannot use it as a model's configuration: it is not a JSON object", origin);
  HfKeys keys(*document, origin);
  HfConfig config;
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
