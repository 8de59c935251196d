#include "architecture/architecture.hpp"

#include "base/error.hpp"
#include "exchange/file_tensors.hpp"
#include "unit/architecture/configs.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <map>

using namespace lockstep;

namespace {
const LogicalTensor& tensor_of(const Architecture& architecture, const std::string& name) {
  for (const BlockDescription& block : architecture.blocks) {
    for (const LogicalTensor& tensor : block.tensors) {
      if (tensor.name == name) return tensor;
    }
  }
  fail(ExitCode::bug, "the model has no tensor {}", name);
}
}  // namespace

BOOST_AUTO_TEST_SUITE(architecture)

BOOST_AUTO_TEST_CASE(gpt2_has_a_block_for_the_embedding_one_a_layer_and_one_for_the_head) {
  const Architecture model = describe(tiny_gpt2());
  BOOST_TEST(model.blocks.size() == 4u);
  BOOST_TEST(model.blocks[2].layer == 1);
  BOOST_TEST((tensor_of(model, "transformer.h.1.attn.c_attn.weight").shape == Shape{8, 24}));
  BOOST_TEST((tensor_of(model, "transformer.h.0.mlp.c_fc.weight").shape == Shape{8, 32}));
  BOOST_TEST((tensor_of(model, "transformer.h.0.mlp.c_proj.weight").shape == Shape{32, 8}));
  BOOST_TEST((tensor_of(model, "transformer.wpe.weight").shape == Shape{6, 8}));
}

BOOST_AUTO_TEST_CASE(a_tied_head_is_an_alias_and_is_stored_once) {
  const Architecture model = describe(tiny_gpt2());
  BOOST_TEST(tensor_of(model, "lm_head.weight").alias_of == "transformer.wte.weight");
  for (const LogicalTensor& tensor : stored_tensors(model)) BOOST_TEST(tensor.name != "lm_head.weight");
  const std::int64_t layer = 2 * 8 + 8 * 24 + 24 + 8 * 8 + 8 + 2 * 8 + 8 * 32 + 32 + 32 * 8 + 8;
  BOOST_TEST(parameter_count(model) == 11 * 8 + 6 * 8 + 2 * layer + 2 * 8);
  BOOST_TEST(matmul_parameter_count(model) == 2 * (8 * 24 + 8 * 8 + 2 * 8 * 32) + 11 * 8);
}

BOOST_AUTO_TEST_CASE(llama_heads_may_be_wider_than_the_stream_and_key_value_heads_fewer) {
  const Architecture model = describe(tiny_llama());
  BOOST_TEST((tensor_of(model, "model.layers.2.self_attn.q_proj.weight").shape == Shape{24, 12}));
  BOOST_TEST((tensor_of(model, "model.layers.2.self_attn.k_proj.weight").shape == Shape{12, 12}));
  BOOST_TEST((tensor_of(model, "model.layers.2.self_attn.o_proj.weight").shape == Shape{12, 24}));
  BOOST_TEST((tensor_of(model, "model.layers.0.mlp.down_proj.weight").shape == Shape{12, 20}));
  BOOST_TEST(tensor_of(model, "lm_head.weight").alias_of == "");
  BOOST_TEST(model.blocks[1].tensors.size() == 9u);  // no biases
}

BOOST_AUTO_TEST_CASE(biases_appear_where_the_config_asks_for_them) {
  ModelConfig config = tiny_llama();
  config.qkv_bias = config.output_bias = true;
  config.mlp_bias = true;
  const Architecture model = describe(config);
  BOOST_TEST((tensor_of(model, "model.layers.1.self_attn.v_proj.bias").shape == Shape{12}));
  BOOST_TEST((tensor_of(model, "model.layers.1.mlp.gate_proj.bias").shape == Shape{20}));
  BOOST_TEST(model.blocks[1].tensors.size() == 16u);
}

BOOST_AUTO_TEST_CASE(norms_of_queries_and_keys_have_a_weight_for_each_element_of_a_head) {
  const Architecture model = describe(tiny_qwen3());
  BOOST_TEST((tensor_of(model, "model.layers.1.self_attn.q_norm.weight").shape == Shape{6}));
  BOOST_CHECK(tensor_of(model, "model.layers.1.self_attn.k_norm.weight").initial.kind == Initial::Kind::ones);
  BOOST_TEST(model.blocks[1].tensors.size() == 11u);
}

BOOST_AUTO_TEST_CASE(a_layer_of_experts_has_a_router_and_two_stacks_and_a_token_is_multiplied_with_a_part_of_them) {
  const Architecture model = describe(tiny_qwen3_moe());
  BOOST_TEST((tensor_of(model, "model.layers.0.mlp.up_proj.weight").shape == Shape{20, 12}));
  BOOST_TEST((tensor_of(model, "model.layers.1.mlp.gate.weight").shape == Shape{3, 12}));
  BOOST_TEST((tensor_of(model, "model.layers.1.mlp.experts.gate_up_proj").shape == Shape{30, 12}));
  BOOST_TEST((tensor_of(model, "model.layers.1.mlp.experts.down_proj").shape == Shape{36, 5}));
  BOOST_TEST(model.blocks[2].tensors.size() == 11u);
  const std::int64_t attention = 12 * (24 + 12 + 12 + 24), norms = 2 * 12 + 2 * 6;
  BOOST_TEST(parameter_count(model) ==
             2 * 13 * 12 + 2 * (attention + norms) + 3 * 12 * 20 + 3 * 12 + 3 * 3 * 12 * 5 + 12);
  BOOST_TEST(matmul_parameter_count(model) == 13 * 12 + 2 * attention + 3 * 12 * 20 + 3 * 12 + 2 * 3 * 12 * 5);
}

BOOST_AUTO_TEST_CASE(a_shared_expert_is_the_mlp_of_its_layer_with_a_row_that_gates_it) {
  const Architecture model = describe(tiny_qwen2_moe());
  BOOST_TEST((tensor_of(model, "model.layers.1.mlp.shared_expert.gate_proj.weight").shape == Shape{7, 12}));
  BOOST_TEST((tensor_of(model, "model.layers.1.mlp.shared_expert.up_proj.weight").shape == Shape{7, 12}));
  BOOST_TEST((tensor_of(model, "model.layers.1.mlp.shared_expert.down_proj.weight").shape == Shape{12, 7}));
  BOOST_TEST((tensor_of(model, "model.layers.1.mlp.shared_expert_gate.weight").shape == Shape{1, 12}));
  BOOST_CHECK(tensor_of(model, "model.layers.1.mlp.shared_expert.up_proj.weight").role == Role::up);
  BOOST_TEST((tensor_of(model, "model.layers.0.mlp.gate_proj.weight").shape == Shape{20, 12}));
  const std::int64_t attention = 12 * (24 + 12 + 12 + 24), norms = 2 * 12, biases = 24 + 12 + 12;
  const std::int64_t shared = 3 * 12 * 7 + 12, dense = 3 * 12 * 20, router = 3 * 12, expert = 3 * 12 * 5;
  BOOST_TEST(parameter_count(model) ==
             2 * 13 * 12 + 2 * (attention + norms + biases) + dense + router + 3 * expert + shared + 12);
  BOOST_TEST(matmul_parameter_count(model) == 13 * 12 + 2 * attention + dense + router + 2 * expert + shared);
}

BOOST_AUTO_TEST_CASE(files_have_a_matrix_of_each_expert_one_behind_the_other_in_its_stack) {
  const Architecture model = describe(tiny_qwen3_moe());
  std::map<std::string, FileTensor> files;
  for (const FileTensor& file : file_tensors(model.config, stored_tensors(model))) files[file.tensor.name] = file;
  BOOST_TEST(files.size() == stored_tensors(model).size() - 2 + 9);
  const auto check = [&](const std::string& name, const Shape& shape, const std::string& stored, std::int64_t row) {
    const FileTensor& file = files.at("model.layers.1.mlp." + name);
    BOOST_TEST((file.tensor.shape == shape && file.row == row && file.stored == "model.layers.1.mlp." + stored), name);
  };
  check("gate.weight", {3, 12}, "gate.weight", 0);
  check("experts.0.gate_proj.weight", {5, 12}, "experts.gate_up_proj", 0);
  check("experts.0.up_proj.weight", {5, 12}, "experts.gate_up_proj", 5);
  check("experts.2.gate_proj.weight", {5, 12}, "experts.gate_up_proj", 20);
  check("experts.2.down_proj.weight", {12, 5}, "experts.down_proj", 24);
}

BOOST_AUTO_TEST_CASE(gpt2_scales_the_start_of_residual_projections_by_depth) {
  const Architecture model = describe(tiny_gpt2());
  BOOST_TEST(tensor_of(model, "transformer.h.0.attn.c_proj.weight").initial.std == 0.02 / 2,
             boost::test_tools::tolerance(1e-15));
  BOOST_TEST(tensor_of(model, "transformer.h.0.mlp.c_proj.weight").initial.std == 0.02 / 2,
             boost::test_tools::tolerance(1e-15));
  BOOST_TEST(tensor_of(model, "transformer.h.0.mlp.c_fc.weight").initial.std == 0.02);
  BOOST_CHECK(tensor_of(model, "transformer.h.0.ln_1.weight").initial.kind == Initial::Kind::ones);
  BOOST_CHECK(tensor_of(model, "transformer.h.0.attn.c_attn.bias").initial.kind == Initial::Kind::zeros);
}

BOOST_AUTO_TEST_CASE(gpt2_small_has_124_439_808_parameters_and_the_flops_of_the_paper) {
  const ModelConfig config =
      parse_hf_config(R"({"model_type":"gpt2","vocab_size":50257,"n_embd":768,"n_layer":12,"n_head":12,
    "n_positions":1024,"resid_pdrop":0,"embd_pdrop":0,"attn_pdrop":0})",
                      "gpt2.json");
  const Architecture model = describe(config);
  BOOST_TEST(parameter_count(model) == 124439808);  // the published model
  const double matrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
  BOOST_TEST(flops_per_token(model, 1024) == 6 * matrices + 12.0 * 12 * 768 * 1024);
}

BOOST_AUTO_TEST_SUITE_END()
