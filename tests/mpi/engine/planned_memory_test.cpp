// Memory of blocks that ranks share, or whose rows they share: the plan against the count, and each call of a function
// against its description. On one rank: tests/unit/engine/memory_test.cpp.
#include "composition_job.hpp"
#include "tensor/functions/checked_function.hpp"
#include "tensor/live_memory.hpp"
#include "tensor/runtime.hpp"

#include <boost/test/unit_test.hpp>

#include <utility>

BOOST_AUTO_TEST_SUITE(planned_memory)

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr double not_counted = 64 << 10;  // of the batch, and numbers for each row

/// With a shared expert, and biases of queries, keys and values.
Architecture large_qwen2_moe() {
  return describe(parse_hf_config(
      R"({"model_type": "qwen2_moe", "vocab_size": 29, "max_position_embeddings": 16, "hidden_size": 384,
          "num_hidden_layers": 3, "num_attention_heads": 12, "intermediate_size": 768, "num_key_value_heads": 4,
          "tie_word_embeddings": false, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256,
          "shared_expert_intermediate_size": 512, "router_aux_loss_coef": 0.1, "output_router_logits": true})",
      "test"));
}

/// Trains one step, with each call compared; returns the planned peak and the counted one, in bytes
/// beside those that are held for the whole run.
std::pair<double, double> peaks(const Composition& how, Precision precision) {
  const std::int64_t before = live_bytes();
  Job job(all_ranks(), how, precision, std::nullopt);
  const bool compared = compares_calls();
  compare_calls(true);
  reset_peak_live_bytes();
  job.step(0);
  compare_calls(compared);
  const auto held = static_cast<double>(job.planned(Arena::device));
  return {static_cast<double>(job.peak(Arena::device).peak_bytes) - held,
          static_cast<double>(peak_live_bytes() - before) - held};
}

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_that_two_ranks_share_take_the_memory_of_their_plan) {
  if (test::world().size() != 2) return;
  set_up_runtime(1);
  drawn_models()["large qwen3"] = tiny_qwen3(
      {.vocabulary = vocabulary, .width = 384, .layers = 3, .heads = 12, .intermediate = 1056, .key_value_heads = 4});
  drawn_models()["large qwen2_moe"] = large_qwen2_moe();
  for (const char* family : {"large qwen3", "large qwen2_moe"})
    for (Composition how : {Composition{.tensor = 2}, {.tensor = 2, .sequence = true}, {.ulysses = 2}, {.ring = 2}}) {
      const bool has_experts = architecture_of(family).config.experts.count > 0;
      if (has_experts && how.tensor > 1 && !how.sequence) continue;
      how.family = family;
      how.micro_batch = global_batch;
      how.optimizer = OptimizerName::sgd;
      const auto [planned, counted] = peaks(how, Precision::fp32);
      const std::string text = fmt::format("{}: {} bytes planned, {} counted", how.text(), planned, counted);
      BOOST_TEST(counted < 1.05 * planned + not_counted, text);
      // Padding goes to no expert, and the plan does not know how many rows it is.
      if (!has_experts || how.ring == 1) BOOST_TEST(counted > 0.95 * planned - not_counted, text);
      peaks(how, Precision::bf16);
    }
  drawn_models().erase("large qwen3");
  drawn_models().erase("large qwen2_moe");
}

BOOST_AUTO_TEST_SUITE_END()
