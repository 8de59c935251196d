#include "architecture/block_profile.hpp"

#include "unit/architecture/configs.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(profiles)

BOOST_AUTO_TEST_CASE(flops_of_all_blocks_and_passes_add_up_to_the_flops_of_the_tokens) {
  for (const ModelConfig& config : {tiny_gpt2(), tiny_llama(), tiny_qwen3(), tiny_qwen3_moe(), tiny_qwen2_moe()}) {
    const Architecture model = describe(config);
    const BatchShape batch{3, 5, DType::f32};
    double sum = 0;
    std::int64_t parameters = 0;
    for (std::size_t block = 0; block < model.blocks.size(); ++block) {
      const BlockProfile cost = profile(model, block, batch);
      sum += cost.forward_flops + cost.backward_input_flops + cost.backward_weight_flops;
      parameters += cost.parameter_elements;
    }
    BOOST_TEST(sum == 15 * flops_per_token(model, 5), boost::test_tools::tolerance(1e-12));
    BOOST_TEST(parameters == parameter_count(model));
  }
}

BOOST_AUTO_TEST_CASE(a_gpt2_layer_keeps_what_its_backward_reads) {
  const BlockProfile cost = profile(describe(tiny_gpt2()), 1, {2, 3, DType::bf16});
  // rows 6, C 8, F 32, H 2. In bf16: norm out, qkv, attention out, norm out, activation in and out. In fp32: x, x2,
  // statistics, row sums of attention.
  const std::int64_t inner = 6 * 2 * (8 + 24 + 8 + 8 + 32 + 32);
  BOOST_TEST(cost.saved_bytes == inner + 6 * 4 * (8 + 8) + 2 * 6 * 2 * 4 + 6 * 2 * 4);
  BOOST_TEST(cost.input_bytes == 6 * 8 * 4);
  // The output's gradient in bf16 and that of the activation, beside the input's gradient, whose time has not come.
  BOOST_TEST(cost.backward_workspace_bytes == 6 * 2 * (8 + 32) - 6 * 4 * 8);
  BOOST_TEST(cost.forward_workspace_bytes == 0);
  // Without autograd, at the end: norm out, attention out, x2, norm out, activation in and out.
  BOOST_TEST(cost.inference_workspace_bytes == 6 * 2 * (8 + 8 + 8 + 32 + 32) + 6 * 4 * 8);
  BOOST_TEST(cost.parameter_bytes == cost.parameter_elements * 2);
}

BOOST_AUTO_TEST_CASE(a_llama_layer_keeps_fewer_keys_than_queries_and_three_wide_rows_of_the_mlp) {
  const BlockProfile cost = profile(describe(tiny_llama()), 1, {1, 4, DType::f32});
  // rows 4, C 12, Q 24, KV 12, F 20: x, norm out, q, k, v, attention out, x2, norm out, gate, up, product
  const std::int64_t stream = 4 * 4 * (12 + 12 + 24 + 12 + 12 + 24 + 12 + 12 + 20 + 20 + 20);
  BOOST_TEST(cost.saved_bytes == stream + 2 * 4 * 4 + 4 * 4 * 4);
}

BOOST_AUTO_TEST_CASE(norms_of_queries_and_keys_keep_what_was_before_them) {
  const BlockProfile cost = profile(describe(tiny_qwen3()), 1, {1, 4, DType::bf16});
  // rows 4, C 12, Q 24, KV 12, F 20, H 4 + 2. In bf16: norm out, q, k, v before and behind norms, attention out, norm
  // out, gate, up, product. In fp32: x, x2, statistics of norms, row sums, statistics of heads.
  const std::int64_t inner = 4 * 2 * (12 + 2 * (24 + 12 + 12) + 24 + 12 + 20 + 20 + 20);
  BOOST_TEST(cost.saved_bytes == inner + 4 * 4 * (12 + 12) + 2 * 4 * 4 + 4 * 4 * 4 + 4 * 4 * (4 + 2));
}

BOOST_AUTO_TEST_CASE(a_layer_of_experts_keeps_the_rows_of_those_that_tokens_go_to) {
  const BlockProfile cost = profile(describe(tiny_qwen3_moe()), 2, {1, 4, DType::bf16});
  // rows 4, C 12, Q 24, KV 12, H 4 + 2; E 3, k 2, F 5. Attention as above. In bf16: norm out, and of 2 rows a token
  // what experts are given, gate, up, product and what they give. In fp32: x, x2, statistics of norms, row sums,
  // statistics of heads, probabilities and weights. Integers: experts and rows, and the first row of each expert.
  const std::int64_t attention = 4 * 2 * (12 + 2 * (24 + 12 + 12) + 24);
  const std::int64_t rows = 2 * 4 * 2 * (12 + 5 + 5 + 5 + 12);
  const std::int64_t wide = 4 * 4 * (12 + 12) + 2 * 4 * 4 + 4 * 4 * 4 + 4 * 4 * (4 + 2) + 4 * 4 * (3 + 2);
  BOOST_TEST(cost.saved_bytes == attention + 4 * 2 * 12 + rows + wide + 2 * 4 * 2 * 4 + 4 * 8);
  BOOST_TEST(cost.recomputations[0].kept_bytes == 4 * 2 * 4);  // where tokens go
  // q with k and v, attention output, router, and of 2 rows a token gate with up, down
  BOOST_TEST(cost.deferred_bytes == 4 * 2 * ((12 + 48) + (24 + 12) + (12 + 3) + 2 * (12 + 10) + 2 * (5 + 12)));
}

BOOST_AUTO_TEST_CASE(a_shared_expert_keeps_what_an_mlp_does_and_a_gate_for_each_row) {
  ModelConfig unshared = tiny_qwen2_moe();
  unshared.experts.shared_feed_forward = 0;
  const BatchShape batch{1, 4, DType::bf16};
  const BlockProfile cost = profile(describe(tiny_qwen2_moe()), 2, batch),
                     without = profile(describe(unshared), 2, batch);
  // rows 4, C 12, F 7: gate, up, product, and the row's own gate; what both read is kept once
  BOOST_TEST(cost.saved_bytes - without.saved_bytes == 4 * 2 * (7 + 7 + 7 + 1));
  BOOST_TEST(cost.deferred_bytes - without.deferred_bytes == 4 * 2 * (1 + 14 + 7 + 12));
  BOOST_TEST(cost.forward_flops - without.forward_flops == 2. * 4 * 12 * (1 + 3 * 7));
  BOOST_TEST(cost.parameter_elements - without.parameter_elements == 12 * (1 + 3 * 7));
  const auto more = [&](KeepSet keeps) {
    const Recomputation &own = cost.recomputations[keeps.index()], &other = without.recomputations[keeps.index()];
    return std::pair(own.kept_bytes - other.kept_bytes, own.flops - other.flops);
  };
  BOOST_CHECK((more({}) == std::pair<std::int64_t, double>(0, 2 * 4 * 12 * (1 + 14))));
  BOOST_CHECK((more({Keep::experts}) == more({})));
  BOOST_CHECK((more({Keep::projections, Keep::mlp}) == std::pair<std::int64_t, double>(4 * 2 * 14, 2 * 4 * 12)));
}

BOOST_AUTO_TEST_CASE(what_is_kept_for_a_repetition_is_not_computed_again_nor_the_product_that_ends_a_layer) {
  const auto again = [](const ModelConfig& config, std::size_t block, const BatchShape& batch, KeepSet keeps) {
    return profile(describe(config), block, batch).recomputations[keeps.index()];
  };
  // rows 6, C 8, F 32, H 2: attention's output in bf16 and row sums in fp32; qkv, x2 in fp32, activation in.
  const BatchShape narrow{2, 3, DType::bf16};
  const std::int64_t attention = 6 * 2 * 8 + 6 * 4 * 2, matmul = 6 * 2 * (24 + 32) + 6 * 4 * 8;
  BOOST_TEST(again(tiny_gpt2(), 1, narrow, {}).kept_bytes == 0);
  BOOST_TEST(again(tiny_gpt2(), 1, narrow, {Keep::attention}).kept_bytes == attention);
  BOOST_TEST(again(tiny_gpt2(), 1, narrow, {Keep::projections, Keep::mlp}).kept_bytes == matmul);
  BOOST_TEST(again(tiny_gpt2(), 1, narrow, {Keep::attention, Keep::projections, Keep::mlp, Keep::experts}).kept_bytes ==
             attention + matmul);
  BOOST_TEST(again(tiny_gpt2(), 1, narrow, {Keep::projections}).kept_bytes == 6 * 2 * 24 + 6 * 4 * 8);
  BOOST_TEST(again(tiny_gpt2(), 1, narrow, {Keep::mlp}).kept_bytes == 6 * 2 * 32);
  const double forward = profile(describe(tiny_gpt2()), 1, narrow).forward_flops;
  const double products = 2. * 6 * 8 * (24 + 8 + 32);
  BOOST_TEST(again(tiny_gpt2(), 1, narrow, {}).flops == forward - 2. * 6 * 32 * 8);
  BOOST_TEST(again(tiny_gpt2(), 1, narrow, {Keep::attention}).flops == products);
  BOOST_TEST(again(tiny_gpt2(), 1, narrow, {Keep::attention, Keep::projections}).flops == 2. * 6 * 8 * 32);
  BOOST_TEST(again(tiny_gpt2(), 1, narrow, {Keep::attention, Keep::mlp}).flops == 2. * 6 * 8 * (24 + 8));
  BOOST_TEST(again(tiny_gpt2(), 1, narrow, {Keep::attention, Keep::projections, Keep::mlp}).flops == 0);
  // rows 4, C 12, Q 24, KV 12, H 4; E 3, k 2, F 5: of experts gate, up and what they give; the router decides again.
  const BatchShape wide{1, 4, DType::f32};
  const std::int64_t chosen = 4 * 2 * 4, rows = 2 * 4 * 4 * (5 + 5 + 12);
  BOOST_TEST(again(tiny_qwen3_moe(), 2, wide, {Keep::experts}).kept_bytes == chosen + rows);
  BOOST_TEST(again(tiny_qwen3_moe(), 2, wide, {Keep::projections, Keep::mlp}).kept_bytes ==
             chosen + 4 * 4 * (24 + 12 + 12 + 12));
  BOOST_TEST(again(tiny_qwen3_moe(), 2, wide, {Keep::attention, Keep::projections, Keep::mlp, Keep::experts}).flops ==
             2. * 4 * 12 * 3);
  BOOST_TEST(again(tiny_qwen3_moe(), 2, wide, {}).flops == profile(describe(tiny_qwen3_moe()), 2, wide).forward_flops);
}

BOOST_AUTO_TEST_CASE(a_window_takes_work_from_attention_and_not_from_products_with_weights) {
  const Architecture model = describe(tiny_qwen3());
  const BlockProfile full = profile(model, 1, {1, 8, DType::f32}), windowed = profile(model, 2, {1, 8, DType::f32});
  BOOST_TEST(full.forward_flops - windowed.forward_flops == 4.0 * 8 * (8 - 3) * 24);  // of 8 rows, 2 products, H·D 24
  BOOST_TEST(full.backward_weight_flops == windowed.backward_weight_flops);
  BOOST_TEST(full.saved_bytes == windowed.saved_bytes);
}

BOOST_AUTO_TEST_CASE(the_head_keeps_one_gradient_of_the_logits_and_gives_one_number) {
  const BlockProfile cost = profile(describe(tiny_llama()), 4, {1, 4, DType::f32});
  BOOST_TEST(cost.saved_bytes == 4 * 4 * (12 + 12 + 13) + 4 * 4);
  BOOST_TEST(cost.output_bytes == 8);
  BOOST_TEST(profile(describe(tiny_llama()), 0, {1, 4, DType::f32}).saved_bytes == 0);
}

BOOST_AUTO_TEST_CASE(between_the_halves_of_a_backward_each_product_keeps_its_input_and_its_output_gradient) {
  const auto deferred = [](const ModelConfig& config, std::size_t block, const BatchShape& batch) {
    return profile(describe(config), block, batch).deferred_bytes;
  };
  // rows 6, C 8, F 32: qkv, attention output, up, down
  BOOST_TEST(deferred(tiny_gpt2(), 1, {2, 3, DType::bf16}) == 6 * 2 * ((8 + 24) + (8 + 8) + (8 + 32) + (32 + 8)));
  // rows 4, C 12, Q 24, KV 12, F 20: q with k and v, attention output, gate with up, down
  BOOST_TEST(deferred(tiny_llama(), 1, {1, 4, DType::f32}) ==
             4 * 4 * ((12 + 24 + 12 + 12) + (24 + 12) + (12 + 20 + 20) + (20 + 12)));
  BOOST_TEST(deferred(tiny_llama(), 4, {1, 4, DType::f32}) == 4 * 4 * (12 + 13));  // V 13
  BOOST_TEST(deferred(tiny_llama(), 0, {1, 4, DType::f32}) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
