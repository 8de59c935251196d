#include "model/text_cache.hpp"

#include "base/error.hpp"
#include "model/sampled_text.hpp"
#include "small_models.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(caches_of_texts)

using namespace lockstep;

namespace {

/// Each layer has a window of five positions.
Architecture small_mistral() {
  return describe(
      parse_hf_config(R"({"model_type": "mistral", "vocab_size": 29, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "hidden_act": "silu",
    "rms_norm_eps": 1e-6, "sliding_window": 5})",
                      "mistral.json"));
}

/// The logits after the last row of each segment of a pass.
at::Tensor logits_of(const Model& model, const TextPass& pass) {
  const at::NoGradGuard no_grad;
  const BatchTensors batch = to_tensors(pass, model.config());
  at::Tensor x;
  for (std::size_t i = 0; i + 1 < model.block_count(); ++i) x = model.block(i).forward(x, batch);
  std::vector<at::Tensor> last;
  for (std::size_t s = 1; s < pass.batch.documents.size(); ++s)
    last.push_back(x.narrow(0, pass.batch.documents[s] - 1, 1));
  return model.head().logits(at::cat(last));
}

/// The logits after the last of some tokens, computed at once and without a cache.
at::Tensor whole(const Model& model, std::span<const std::int32_t> tokens) {
  const TextPass pass = pass_over({{.tokens = tokens, .first = 0, .count = std::ssize(tokens)}});
  return model.logits(to_tensors(pass.batch, model.config())).select(0, -1);
}

std::vector<std::int32_t> tokens_from(std::int32_t first, std::int64_t count) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back((first + 7 * i + i * i) % 23);
  return tokens;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_over_a_cache_have_the_logits_of_the_whole_text) {
  for (const Architecture& architecture :
       {small_gpt2(), small_llama(), small_mistral(), small_qwen3_moe(), small_qwen2_moe()}) {
    Model model(architecture, Precision::fp64);
    model.initialise(3);
    for (const auto& unit : model.units()) unit->master().mul_(4);  // logits that differ
    const TextShape shape{.texts = 3, .piece = 4, .positions = 30};
    const TextCache cache(model, shape);
    const std::vector<std::int32_t> a = tokens_from(2, 30), b = tokens_from(5, 17);
    // Prompts of 10 and 3 tokens in pieces, in places 2 and 0; then tokens, of which one text ends first.
    std::int64_t of_a = 0, of_b = 0;
    const auto pass = [&](std::int64_t rows_a, std::int64_t rows_b) {
      std::vector<TextRows> rows;
      if (rows_a > 0) rows.push_back({.slot = 2, .tokens = a, .first = of_a, .count = rows_a});
      if (rows_b > 0) rows.push_back({.slot = 0, .tokens = b, .first = of_b, .count = rows_b});
      const at::Tensor logits = logits_of(model, pass_over(rows));
      of_a += rows_a;
      of_b += rows_b;
      const auto check = [&](std::int64_t row, const std::vector<std::int32_t>& text, std::int64_t seen) {
        const at::Tensor right = whole(model, std::span(text).first(static_cast<std::size_t>(seen)));
        const double difference = (logits[row] - right).abs().max().item<double>();
        BOOST_TEST(difference < 1e-12 * std::max(1.0, right.abs().max().item<double>()),
                   architecture.blocks.size() << " blocks, vocabulary " << architecture.config.vocabulary << ", after "
                                              << seen << " tokens: " << difference);
      };
      if (rows_a > 0) check(0, a, of_a);
      if (rows_b > 0) check(rows_a > 0 ? 1 : 0, b, of_b);
    };
    pass(4, 3);
    pass(4, 0);
    pass(2, 0);
    while (of_b < 17) pass(1, 1);
    while (of_a < 30) pass(1, 0);
  }
}

BOOST_AUTO_TEST_CASE(a_place_is_used_again_by_another_text) {
  Model model(small_llama(), Precision::fp64);
  model.initialise(3);
  const TextCache cache(model, {.texts = 1, .piece = 8, .positions = 16});
  for (const std::int32_t first : {1, 6}) {
    const std::vector<std::int32_t> text = tokens_from(first, 7);
    const at::Tensor logits = logits_of(model, pass_over({{.tokens = text, .first = 0, .count = 7}}));
    BOOST_TEST((logits[0] - whole(model, text)).abs().max().item<double>() < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(a_pass_without_a_cache_is_an_error) {
  Model model(small_llama(), Precision::fp32);
  model.initialise(3);
  const std::vector<std::int32_t> text{1, 2};
  const TextPass pass = pass_over({{.tokens = text, .first = 0, .count = 2}});
  {
    const TextCache taken_back(model, {.texts = 1, .piece = 2, .positions = 4});
  }
  BOOST_CHECK_EXCEPTION(logits_of(model, pass), Error, [](const Error& e) { return e.code() == ExitCode::bug; });
}

BOOST_AUTO_TEST_CASE(with_a_window_a_layer_keeps_what_a_pass_still_reads) {
  BOOST_TEST(cached_positions(0, {.texts = 1, .piece = 4, .positions = 30}) == 30);
  BOOST_TEST(cached_positions(5, {.texts = 1, .piece = 4, .positions = 30}) == 8);
  BOOST_TEST(cached_positions(5, {.texts = 1, .piece = 1, .positions = 30}) == 5);
  BOOST_TEST(cached_positions(50, {.texts = 1, .piece = 4, .positions = 30}) == 30);
}

BOOST_AUTO_TEST_CASE(a_pass_has_the_rows_of_its_texts_and_draws_where_these_end) {
  const std::vector<std::int32_t> a{4, 5, 6, 7}, b{8, 9};
  const TextPass pass =
      pass_over({{.slot = 1, .tokens = a, .first = 1, .count = 2}, {.slot = 0, .tokens = b, .first = 1, .count = 1}});
  BOOST_TEST(pass.batch.tokens == (std::vector<std::int32_t>{5, 6, 9}));
  BOOST_TEST(pass.batch.positions == (std::vector<std::int32_t>{1, 2, 1}));
  BOOST_TEST(pass.batch.documents == (std::vector<std::int64_t>{0, 2, 3}));
  BOOST_TEST(pass.slots == (std::vector<std::int32_t>{1, 0}));
  BOOST_TEST((pass.draws == std::vector<bool>{false, true}));
  BOOST_TEST(pass.length == 4);
}

BOOST_AUTO_TEST_SUITE_END()
