#include "exchange/hf_config.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/random.hpp"

#include <boost/test/unit_test.hpp>

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
  const HfConfig config = parse_hf_config(gpt2, "config.json");
  BOOST_CHECK(config.family == Family::gpt2);
  BOOST_TEST(config.feed_forward == 64);
  BOOST_TEST(config.head_size == 4);
  BOOST_TEST(config.kv_heads == 4);
  BOOST_TEST(config.tied_head);
  BOOST_TEST(config.dropout == 0.1);   // transformers' default when the keys are absent
  BOOST_TEST(config.eos_token == -1);  // 50256 lies outside this vocabulary
  BOOST_CHECK(config.activation == Activation::gelu_tanh);
  BOOST_CHECK(config.norm == Norm::layer_norm);
}

BOOST_AUTO_TEST_CASE(a_llama_config_has_the_defaults_of_its_family) {
  const HfConfig config = parse_hf_config(llama, "config.json");
  BOOST_CHECK(config.family == Family::llama);
  BOOST_TEST(config.kv_heads == 4);
  BOOST_TEST(config.head_size == 4);
  BOOST_TEST(!config.tied_head);
  BOOST_TEST(!config.attention_bias);
  BOOST_TEST(config.gated_mlp);
  BOOST_TEST(config.rope_theta == 10000);
  BOOST_TEST(config.norm_eps == 1e-6);
  BOOST_TEST(config.max_positions == 2048);
  BOOST_TEST(config.bos_token == 1);
}

BOOST_AUTO_TEST_CASE(both_spellings_of_rope_are_read) {
  BOOST_TEST(parse_hf_config(with(llama, R"({"rope_theta": 5e5})"), "c").rope_theta == 5e5);
  BOOST_TEST(parse_hf_config(with(llama, R"({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}})"), "c")
                 .rope_theta == 5e5);
  BOOST_TEST(parse_hf_config(with(llama, R"({"rope_theta": 5e5, "rope_scaling": null})"), "c").rope_theta == 5e5);
  BOOST_TEST(
      has(error_of(with(llama, R"({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}})"), ExitCode::input),
          "rope_theta"));
}

BOOST_AUTO_TEST_CASE(rope_scaling_is_refused_by_name_in_either_spelling) {
  BOOST_TEST(has(error_of(with(llama, R"({"rope_scaling": {"type": "linear", "factor": 2}})"), ExitCode::usage),
                 "rope_scaling.rope_type \"linear\" is not supported"));
  BOOST_TEST(has(error_of(with(llama, R"({"rope_parameters": {"rope_type": "llama3", "factor": 8}})"), ExitCode::usage),
                 "rope_parameters.rope_type \"llama3\" is not supported"));
}

BOOST_AUTO_TEST_CASE(other_families_are_refused_by_name) {
  BOOST_TEST(error_of(R"({"model_type": "mistral"})", ExitCode::usage) ==
             "config.json: cannot use it as a model's configuration: model_type \"mistral\" is not supported");
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
      with(llama, R"({"sliding_window": null, "layer_types": ["full_attention"], "pretraining_tp": 1})"), "c"));
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
  const HfConfig config = parse_hf_config(with(llama, R"({"eos_token_id": [7, 8], "bos_token_id": null})"), "c");
  BOOST_TEST(config.eos_token == 7);
  BOOST_TEST(config.bos_token == -1);
  const Json document = to_json(config, "bfloat16");
  BOOST_TEST((document["eos_token_id"] == Json::array({7, 8})));
  BOOST_TEST(document["bos_token_id"].is_null());
}

BOOST_AUTO_TEST_CASE(what_is_written_reads_back_equal_and_keeps_keys_that_we_do_not_know) {
  HfConfig config = parse_hf_config(
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
  const HfConfig again = parse_hf_config(document.dump(), "c");
  BOOST_TEST(again.tied_head);
  BOOST_TEST(again.head_size == 6);
  BOOST_TEST(to_json(again, "float32").dump() == document.dump());
}

BOOST_AUTO_TEST_CASE(a_dropout_turned_off_is_written_as_off) {
  HfConfig config = parse_hf_config(with(gpt2, R"({"resid_pdrop": 0.2})"), "c");
  BOOST_TEST(config.dropout == 0.2);
  config.dropout = 0;
  BOOST_TEST(parse_hf_config(to_json(config, "float32").dump(), "c").dropout == 0);
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
            : with(llama,
                   R"({"rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}, "eos_token_id": [1, 2]})");
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
      const HfConfig config = parse_hf_config(text, "fuzz");
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
