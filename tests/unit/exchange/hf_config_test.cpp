#include "exchange/hf_config.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/random.hpp"

#include <boost/test/unit_test.hpp>

#include <tuple>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(hf_config)

namespace {

const std::string gpt2 =
    R"({"model_type": "gpt2", "vocab_size": 100, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32})";
const std::string llama = R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 16, "intermediate_size": 24,
                              "num_hidden_layers": 2, "num_attention_heads": 4})";

/// `text` with keys added or replaced.
std::string with(const std::string& text, const std::string& more) {
  Json document = Json::parse(text);
  document.update(Json::parse(more));
  return document.dump();
}

std::string error_of(const std::string& text, ExitCode code) {
  try {
    parse_hf_config(text, "config.json");
  } catch (const Error& error) {
    BOOST_CHECK(error.code() == code);
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_gpt2_config_has_the_defaults_of_its_family) {
  const ModelConfig config = parse_hf_config(gpt2, "config.json");
  BOOST_CHECK(config.family == Family::gpt2);
  BOOST_TEST(config.feed_forward == 64);
  BOOST_TEST(config.head_size == 4);
  BOOST_TEST(config.kv_heads == 4);
  BOOST_TEST(config.tied_head);
  BOOST_TEST((config.dropout == DropoutRates{0.1, 0.1, 0.1}));  // transformers' default when the keys are absent
  BOOST_TEST(config.eos_token == -1);                           // 50256 lies outside this vocabulary
  BOOST_CHECK(config.activation == Activation::gelu_tanh);
  BOOST_CHECK(config.norm == Norm::layer_norm);
}

BOOST_AUTO_TEST_CASE(a_llama_config_has_the_defaults_of_its_family) {
  const ModelConfig config = parse_hf_config(llama, "config.json");
  BOOST_CHECK(config.family == Family::llama);
  BOOST_TEST(config.kv_heads == 4);
  BOOST_TEST(config.head_size == 4);
  BOOST_TEST(!config.tied_head);
  BOOST_TEST(!config.qkv_bias);
  BOOST_TEST(config.gated_mlp);
  BOOST_TEST(config.rope.theta == 10000);
  BOOST_TEST(config.norm_eps == 1e-6);
  BOOST_TEST(config.max_positions == 2048);
  BOOST_TEST(config.bos_token == 1);
}

BOOST_AUTO_TEST_CASE(both_spellings_of_rope_are_read) {
  BOOST_TEST(parse_hf_config(with(llama, R"({"rope_theta": 5e5})"), "c").rope.theta == 5e5);
  BOOST_TEST(parse_hf_config(with(llama, R"({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}})"), "c")
                 .rope.theta == 5e5);
  BOOST_TEST(parse_hf_config(with(llama, R"({"rope_theta": 5e5, "rope_scaling": null})"), "c").rope.theta == 5e5);
  BOOST_TEST(
      has(error_of(with(llama, R"({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}})"), ExitCode::input),
          "rope_theta"));
}

BOOST_AUTO_TEST_CASE(a_rope_scaling_is_one_in_all_spellings) {
  const auto rope_of = [](const std::string& more) { return parse_hf_config(with(llama, more), "c").rope; };
  const Rope linear = rope_of(R"({"rope_scaling": {"type": "linear", "factor": 2}, "rope_theta": 5e5})");
  BOOST_CHECK(linear.kind == RopeKind::linear);
  BOOST_TEST(linear.factor == 2);
  BOOST_TEST(linear.theta == 5e5);
  BOOST_CHECK(linear == rope_of(R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_theta": 5e5})"));
  BOOST_CHECK(linear == rope_of(R"({"rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 5e5}})"));
  BOOST_CHECK(linear == rope_of(R"({"rope_scaling": {"type": "linear", "factor": 2}, "rope_theta": 5e5,
                                    "rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 5e5}})"));
  BOOST_TEST(has(error_of(with(llama, R"({"rope_scaling": {"type": "linear", "factor": 2},
                                          "rope_parameters": {"rope_type": "linear", "factor": 4}})"),
                          ExitCode::input),
                 "rope_parameters contradicts rope_scaling"));
}

BOOST_AUTO_TEST_CASE(what_a_rope_scaling_leaves_out_follows_from_the_models_positions) {
  const auto rope_of = [](const std::string& more) { return parse_hf_config(with(llama, more), "c").rope; };
  const Rope yarn = rope_of(R"({"rope_scaling": {"type": "yarn", "factor": null,
                                                 "original_max_position_embeddings": 512, "beta_fast": 0}})");
  BOOST_TEST(yarn.factor == 4);  // of 2048 positions
  BOOST_TEST(yarn.beta_fast == 32);
  BOOST_TEST(rope_of(R"({"rope_scaling": {"type": "dynamic", "factor": 4}})").original_positions == 2048);
  const Rope beside = rope_of(R"({"original_max_position_embeddings": 1024, "rope_scaling": {"type": "longrope",
                                  "short_factor": [1, 1], "long_factor": [2, 3]}})");
  BOOST_TEST(beside.original_positions == 1024);
  BOOST_TEST(beside.factor == 2);
}

BOOST_AUTO_TEST_CASE(a_rope_that_cannot_be_is_refused_with_its_key) {
  const std::vector<std::tuple<std::string, ExitCode, std::string>> cases{
      {R"({"rope_scaling": {"type": "mrope"}})", ExitCode::usage,
       "rope_scaling.rope_type \"mrope\" is not supported (only default, linear, dynamic, yarn, longrope, llama3)"},
      {R"({"rope_scaling": {"type": "linear"}})", ExitCode::input, "rope_scaling.factor is missing"},
      {R"({"rope_scaling": {"type": "linear", "factor": "2"}})", ExitCode::input, "rope_scaling.factor is \"2\""},
      {R"({"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1, 0]}})", ExitCode::input,
       "rope_scaling.short_factor is [1], not a list of 2 positive numbers"},
      {R"({"rope_parameters": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1}})",
       ExitCode::input, "rope_parameters.high_freq_factor is 1, not above low_freq_factor 4"},
      {R"({"rope_parameters": {"full_attention": {"rope_type": "default"}}})", ExitCode::usage,
       "rope_parameters.full_attention is not supported"},
      {R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})", ExitCode::usage,
       "rope_parameters.partial_rotary_factor 0.5 is not supported"},
  };
  for (const auto& [more, code, message] : cases) BOOST_TEST(has(error_of(with(llama, more), code), message), more);
}

BOOST_AUTO_TEST_CASE(a_rope_scaling_reads_back_as_it_was_from_what_is_written) {
  for (const char* const scaling :
       {R"({"rope_type": "default"})", R"({"rope_type": "linear", "factor": 2.5})",
        R"({"rope_type": "dynamic", "factor": 4})",
        R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "attention_factor": 0.7,
            "beta_fast": 16, "beta_slow": 2, "mscale": 0.5, "mscale_all_dim": 0.25, "truncate": false})",
        R"({"rope_type": "longrope", "short_factor": [1, 1.5], "long_factor": [2, 3],
            "original_max_position_embeddings": 64})",
        R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
            "original_max_position_embeddings": 64})"}) {
    const ModelConfig config = parse_hf_config(with(llama, R"({"rope_scaling": )" + std::string(scaling) + "}"), "c");
    const Json document = to_json(config, "float32");
    BOOST_CHECK(parse_hf_config(document.dump(), "c").rope == config.rope);
    Json one = document;  // as each version of transformers reads it
    one.erase("rope_scaling");
    one.erase("rope_theta");
    BOOST_CHECK(parse_hf_config(one.dump(), "c").rope == config.rope);
    one = document;
    one.erase("rope_parameters");
    BOOST_CHECK(parse_hf_config(one.dump(), "c").rope == config.rope);
  }
}

BOOST_AUTO_TEST_CASE(families_of_the_shape_of_llama_differ_in_what_they_have) {
  const auto of = [](const std::string& more) { return parse_hf_config(with(llama, more), "c"); };
  const ModelConfig mistral = of(R"({"model_type": "mistral", "num_key_value_heads": 2})");
  BOOST_TEST((!mistral.qkv_bias && !mistral.output_bias && !mistral.mlp_bias && !mistral.query_key_norm));
  BOOST_TEST(mistral.window_of(0) == 4096);  // transformers' default where the key is absent
  BOOST_TEST(of(R"({"model_type": "mistral", "num_key_value_heads": 2, "sliding_window": null})").window_of(1) == 0);
  BOOST_TEST(mistral.max_positions == 131072);
  const ModelConfig qwen2 = of(R"({"model_type": "qwen2", "num_key_value_heads": null})");
  BOOST_TEST((qwen2.qkv_bias && !qwen2.output_bias && !qwen2.mlp_bias && !qwen2.query_key_norm));
  BOOST_TEST(qwen2.kv_heads == 4);
  BOOST_TEST(qwen2.windows.empty());
  const ModelConfig qwen3 =
      of(R"({"architectures": ["Qwen3ForCausalLM"], "model_type": null, "num_key_value_heads": 2})");
  BOOST_TEST((!qwen3.qkv_bias && !qwen3.output_bias && qwen3.query_key_norm));
  BOOST_TEST(qwen3.head_size == 128);
  BOOST_TEST(has(error_of(with(llama, R"({"model_type": "qwen2"})"), ExitCode::input), "num_key_value_heads 32"));
  BOOST_TEST(has(error_of(with(llama, R"({"model_type": "qwen2", "num_key_value_heads": 2, "attention_bias": false})"),
                          ExitCode::usage),
                 "attention_bias false is not supported (only true)"));
}

BOOST_AUTO_TEST_CASE(windows_are_those_of_the_layers_that_a_config_names) {
  const auto windows = [](const std::string& more) {
    return parse_hf_config(with(with(llama, R"({"model_type": "qwen3", "num_key_value_heads": 2})"), more), "c")
        .windows;
  };
  using Windows = std::vector<std::int64_t>;
  BOOST_TEST(
      (windows(R"({"use_sliding_window": true, "sliding_window": 7, "max_window_layers": 1})") == Windows{0, 7}));
  BOOST_TEST((windows(R"({"use_sliding_window": true, "sliding_window": 7})") == Windows{}));  // from layer 28 on
  BOOST_TEST((windows(R"({"use_sliding_window": true, "sliding_window": 7, "max_window_layers": 0,
                          "layer_types": ["sliding_attention", "full_attention"]})") == Windows{7, 0}));
  BOOST_TEST((windows(R"({"sliding_window": 7, "max_window_layers": 0})") == Windows{}));
  const std::string qwen = with(llama, R"({"model_type": "qwen2", "num_key_value_heads": 2})");
  BOOST_TEST(has(error_of(with(qwen, R"({"layer_types": ["sliding_attention", "full_attention"]})"), ExitCode::usage),
                 "without a sliding_window"));
  BOOST_TEST(has(error_of(with(qwen, R"({"layer_types": ["full_attention"]})"), ExitCode::input),
                 "lists 1 layers instead of 2"));
  BOOST_TEST(has(error_of(with(qwen, R"({"layer_types": ["chunked_attention", "full_attention"]})"), ExitCode::usage),
                 "chunked_attention"));
}

BOOST_AUTO_TEST_CASE(experts_are_those_that_a_config_names_with_the_defaults_of_transformers) {
  const auto of = [](const std::string& more) { return parse_hf_config(with(llama, more), "c"); };
  const ModelConfig mixtral = of(R"({"model_type": "mixtral", "num_key_value_heads": 2, "intermediate_size": 40})");
  BOOST_TEST((mixtral.experts.count == 8 && mixtral.experts.per_token == 2 && mixtral.experts.feed_forward == 40));
  BOOST_TEST((mixtral.experts.normalised && mixtral.has_experts(0) && mixtral.has_experts(1)));
  BOOST_TEST((mixtral.norm_eps == 1e-5 && mixtral.rope.theta == 1e6 && mixtral.window_of(0) == 0));
  BOOST_TEST(of(R"({"model_type": "mixtral", "num_key_value_heads": 2, "sliding_window": 5})").window_of(1) == 5);
  const std::string qwen = R"("model_type": "qwen3_moe", "num_key_value_heads": 2, "num_hidden_layers": 5)";
  const ModelConfig defaults = of("{" + qwen + "}");
  BOOST_TEST(
      (defaults.experts.count == 128 && defaults.experts.per_token == 8 && defaults.experts.feed_forward == 768));
  BOOST_TEST((!defaults.experts.normalised && defaults.query_key_norm && defaults.head_size == 4));
  const ModelConfig mixed = of("{" + qwen + R"(, "decoder_sparse_step": 2, "mlp_only_layers": [3, 17], "num_experts": 4,
                            "num_experts_per_tok": 4, "norm_topk_prob": true, "moe_intermediate_size": 6})");
  BOOST_TEST((mixed.experts.layers == std::vector<bool>{false, true, false, false, false}));
  BOOST_TEST((mixed.experts.normalised && mixed.experts.per_token == 4 && mixed.experts.feed_forward == 6));
  const Json document = to_json(mixed, "float32");
  BOOST_TEST(
      (document["num_experts"] == 4 && document["decoder_sparse_step"] == 2 && document["norm_topk_prob"] == true));
  BOOST_TEST((parse_hf_config(document.dump(), "c").experts.layers == mixed.experts.layers));
  const auto refused = [&](const std::string& more, ExitCode code) {
    return error_of(with(with(llama, "{" + qwen + "}"), more), code);
  };
  BOOST_TEST(has(refused(R"({"num_experts": 4})", ExitCode::input), "num_experts_per_tok 8 exceeds num_experts 4"));
  BOOST_TEST(
      has(refused(R"({"mlp_only_layers": [-1]})", ExitCode::input), "mlp_only_layers is [-1], not a list of layers"));
  const auto coefficient = [&](const std::string& more) { return of("{" + qwen + more + "}").experts.aux_coefficient; };
  BOOST_TEST(coefficient(R"(, "output_router_logits": true)") == 0.001);
  BOOST_TEST(coefficient(R"(, "output_router_logits": true, "router_aux_loss_coef": 0.02)") == 0.02);
  BOOST_TEST(coefficient(R"(, "output_router_logits": false, "router_aux_loss_coef": 0.02)") == 0);
  const Json exported =
      to_json(of("{" + qwen + R"(, "output_router_logits": true, "router_aux_loss_coef": 0.02})"), "float32");
  BOOST_TEST((exported["output_router_logits"] == true && exported["router_aux_loss_coef"] == 0.02));
  BOOST_TEST(has(refused(R"({"router_aux_loss_coef": -1})", ExitCode::input), "router_aux_loss_coef"));
  BOOST_TEST(
      has(error_of(with(llama, R"({"model_type": "mixtral", "num_key_value_heads": 2, "router_jitter_noise": 0.1})"),
                   ExitCode::usage),
          "router_jitter_noise 0.1 is not supported (only 0)"));
}

BOOST_AUTO_TEST_CASE(a_shared_expert_biases_and_windows_of_qwen2_moe_are_those_of_transformers) {
  const auto text = [](const std::string& more) {
    return with(with(llama, R"({"model_type": "qwen2_moe", "num_key_value_heads": 2, "num_hidden_layers": 5})"), more);
  };
  const auto of = [&](const std::string& more) { return parse_hf_config(text(more), "c"); };
  const ModelConfig defaults = of("{}");
  BOOST_TEST((defaults.experts.count == 60 && defaults.experts.per_token == 4));
  BOOST_TEST((defaults.experts.feed_forward == 1408 && defaults.experts.shared_feed_forward == 5632));
  BOOST_TEST((!defaults.experts.normalised && defaults.has_shared_expert(4) && !defaults.query_key_norm));
  BOOST_TEST((defaults.qkv_bias && !defaults.output_bias && !defaults.mlp_bias && defaults.windows.empty()));
  const ModelConfig other = of(R"({"qkv_bias": false, "shared_expert_intermediate_size": 9, "mlp_only_layers": [1],
                                "output_router_logits": true, "use_sliding_window": true, "sliding_window": 3,
                                "max_window_layers": 3})");
  BOOST_TEST((!other.qkv_bias && other.experts.shared_feed_forward == 9 && other.experts.aux_coefficient == 0.001));
  BOOST_TEST((other.has_shared_expert(0) && !other.has_shared_expert(1)));
  BOOST_TEST((other.windows == std::vector<std::int64_t>{3, 0, 3, 0, 0}));
  const Json document = to_json(other, "float32");
  BOOST_TEST((document["qkv_bias"] == false && document["shared_expert_intermediate_size"] == 9));
  BOOST_TEST((parse_hf_config(document.dump(), "c").windows == other.windows));
  BOOST_TEST(has(error_of(text(R"({"shared_expert_intermediate_size": 0})"), ExitCode::input),
                 "shared_expert_intermediate_size"));
  BOOST_TEST(has(error_of(text(R"({"attention_bias": false})"), ExitCode::usage), "attention_bias"));
  BOOST_TEST(of(R"({"sliding_window": 0})").windows.empty());
  BOOST_TEST(has(error_of(text(R"({"use_sliding_window": true, "sliding_window": 0})"), ExitCode::input),
                 "sliding_window is 0"));
}

BOOST_AUTO_TEST_CASE(other_families_are_refused_by_name) {
  const std::string tried = "config.json: cannot use it as a model's configuration: ";
  BOOST_TEST(error_of(R"({"model_type": "gpt_oss"})", ExitCode::usage) ==
             tried + "model_type \"gpt_oss\" is not supported: it needs experts and attention sinks");
  BOOST_TEST(error_of(R"({"architectures": ["Qwen3NextForCausalLM"]})", ExitCode::usage) ==
             tried + "architectures \"Qwen3NextForCausalLM\" is not supported: it needs experts and linear attention");
  BOOST_TEST(error_of(R"({"model_type": "unheard-of"})", ExitCode::usage) ==
             tried + "model_type \"unheard-of\" is not supported");
  BOOST_TEST(has(error_of("{}", ExitCode::input), "model_type is missing"));
  BOOST_CHECK(
      parse_hf_config(with(llama, R"({"model_type": null, "architectures": ["LlamaForCausalLM"]})"), "c").family ==
      Family::llama);
}

BOOST_AUTO_TEST_CASE(mathematics_that_is_not_ours_is_refused_unless_switched_off) {
  for (const char* const more : {R"({"scale_attn_by_inverse_layer_idx": true})", R"({"reorder_and_upcast_attn": true})",
                                 R"({"add_cross_attention": true})", R"({"scale_attn_weights": false})",
                                 R"({"activation_function": "tanh"})", R"({"quantization_config": {"bits": 4}})"}) {
    BOOST_TEST(has(error_of(with(gpt2, more), ExitCode::usage), Json::parse(more).begin().key()));
  }
  for (const char* const more :
       {R"({"sliding_window": 4096})", R"({"layer_types": ["full_attention", "sliding_attention"]})",
        R"({"hidden_act": "gelu"})", R"({"use_sliding_window": true})", R"({"partial_rotary_factor": 0.5})"}) {
    BOOST_TEST(has(error_of(with(llama, more), ExitCode::usage), Json::parse(more).begin().key()));
  }
  BOOST_CHECK_NO_THROW(parse_hf_config(
      with(
          gpt2,
          R"({"scale_attn_by_inverse_layer_idx": false, "reorder_and_upcast_attn": false, "scale_attn_weights": true})"),
      "c"));
  BOOST_CHECK_NO_THROW(parse_hf_config(
      with(llama,
           R"({"sliding_window": null, "layer_types": ["full_attention", "full_attention"], "pretraining_tp": 1})"),
      "c"));
}

BOOST_AUTO_TEST_CASE(all_problems_are_reported_at_once) {
  const std::string message =
      error_of(R"({"model_type": "llama", "vocab_size": -3, "hidden_size": "wide", "num_hidden_layers": 2,
    "num_attention_heads": 4, "sliding_window": 7})",
               ExitCode::input);
  BOOST_TEST(has(message, "vocab_size is -3, not an integer from 1 to 2147483648"));
  BOOST_TEST(has(message, "hidden_size is \"wide\""));
  BOOST_TEST(has(message, "intermediate_size is missing"));
  BOOST_TEST(has(message, "sliding_window 7 is not supported"));
}

BOOST_AUTO_TEST_CASE(sizes_that_do_not_divide_are_refused) {
  BOOST_TEST(has(error_of(with(gpt2, R"({"n_head": 3})"), ExitCode::input), "n_embd 16 is not a multiple of n_head 3"));
  BOOST_TEST(has(error_of(with(llama, R"({"num_key_value_heads": 3})"), ExitCode::input), "num_key_value_heads 3"));
  BOOST_TEST(has(error_of(with(llama, R"({"head_dim": 5})"), ExitCode::input), "5 is odd"));
}

BOOST_AUTO_TEST_CASE(two_spellings_of_a_size_must_agree) {
  BOOST_TEST(parse_hf_config(with(gpt2, R"({"hidden_size": 16})"), "c").channels == 16);
  BOOST_TEST(
      has(error_of(with(gpt2, R"({"hidden_size": 32})"), ExitCode::input), "hidden_size is 32, but n_embd is 16"));
}

BOOST_AUTO_TEST_CASE(a_list_of_end_tokens_is_kept_and_its_first_is_ours) {
  const ModelConfig config = parse_hf_config(with(llama, R"({"eos_token_id": [7, 8], "bos_token_id": null})"), "c");
  BOOST_TEST(config.eos_token == 7);
  BOOST_TEST(config.bos_token == -1);
  const Json document = to_json(config, "bfloat16");
  BOOST_TEST((document["eos_token_id"] == Json::array({7, 8})));
  BOOST_TEST(document["bos_token_id"].is_null());
}

BOOST_AUTO_TEST_CASE(what_is_written_reads_back_equal_and_keeps_keys_that_we_do_not_know) {
  ModelConfig config = parse_hf_config(
      with(llama,
           R"({"my_key": {"a": 1}, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, "head_dim": 6})"),
      "c");
  config.tied_head = true;
  const Json document = to_json(config, "float32");
  BOOST_TEST(document["my_key"]["a"] == 1);
  BOOST_TEST(document["rope_theta"] == 5e5);
  BOOST_TEST(document["rope_parameters"]["rope_theta"] == 5e5);
  BOOST_TEST(document["torch_dtype"] == "float32");
  BOOST_TEST(document["dtype"] == "float32");
  const ModelConfig again = parse_hf_config(document.dump(), "c");
  BOOST_TEST(again.tied_head);
  BOOST_TEST(again.head_size == 6);
  BOOST_TEST(to_json(again, "float32").dump() == document.dump());
}

BOOST_AUTO_TEST_CASE(a_dropout_turned_off_is_written_as_off) {
  ModelConfig config = parse_hf_config(with(gpt2, R"({"resid_pdrop": 0.2})"), "c");
  BOOST_TEST((config.dropout == DropoutRates{0.1, 0.1, 0.2}));
  config.dropout = {};
  BOOST_TEST(!parse_hf_config(to_json(config, "float32").dump(), "c").dropout.any());
}

BOOST_AUTO_TEST_CASE(deep_or_overlong_documents_are_refused_before_they_are_parsed) {
  BOOST_TEST(has(error_of(std::string(100000, '['), ExitCode::input), "nest deeper"));
  BOOST_TEST(has(error_of(R"({"vocab_size": 1e999})", ExitCode::input), "too large"));
}

BOOST_AUTO_TEST_CASE(mutated_documents_end_in_a_config_or_an_error) {
  const RandomStream random(11, "config fuzz");
  int accepted = 0;
  for (std::uint64_t round = 0; round < 2000; ++round) {
    std::string text =
        round % 2 == 0
            ? gpt2
            : with(round % 4 == 1 ? llama : with(llama, R"({"model_type": "qwen2", "num_key_value_heads": 2})"),
                   R"({"rope_parameters": {"rope_theta": 1e4, "rope_type": "yarn", "factor": 2, "beta_fast": 9,
                       "original_max_position_embeddings": 64}, "eos_token_id": [1, 2], "layer_types": ["full_attention", "full_attention"]})");
    const std::uint64_t edits = 1 + random.below(10 * round, 4);
    for (std::uint64_t edit = 0; edit < edits; ++edit) {
      const std::uint64_t bits = random.bits(10 * round + 1 + edit);
      const std::size_t at = bits % text.size();
      switch (bits >> 60 & 3) {
        case 0: text[at] = static_cast<char>(bits >> 32 & 0xff); break;
        case 1: text.erase(at, bits >> 40 & 7); break;
        case 2: text.insert(at, 1, "0123456789-.eE[]{}\",:n"[bits >> 32 & 15]); break;
        default: text.insert(at, text.substr(text.size() / 2, bits >> 40 & 31)); break;
      }
    }
    try {
      const ModelConfig config = parse_hf_config(text, "fuzz");
      parse_hf_config(to_json(config, "float32").dump(-1, ' ', false, Json::error_handler_t::replace), "again");
      ++accepted;
    } catch (const Error& error) {
      BOOST_REQUIRE(error.code() == ExitCode::input || error.code() == ExitCode::usage);
    }
  }
  BOOST_TEST(accepted > 20);
  BOOST_TEST(accepted < 1900);
}

BOOST_AUTO_TEST_SUITE_END()
