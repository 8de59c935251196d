// The choice of attention on a GPU, and the memory of flash attention.
#include "architecture/gpu_attention.hpp"

#include "architecture/block_profile.hpp"
#include "unit/architecture/configs.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

BOOST_AUTO_TEST_SUITE(gpu_attention)

using namespace lockstep;

namespace {

std::string choice(const AttentionUse& use) {
  const GpuAttentionChoice chosen = choose_gpu_attention(use);
  return chosen.attention == GpuAttention::flash ? "flash" + std::string(chosen.reason) : std::string(chosen.reason);
}

/// By hand, for one number of segments: copies of sums and their rows.
std::int64_t rows_of_sums(std::int64_t rows, std::int64_t segments, std::int64_t heads, std::int64_t multiprocessors) {
  std::int64_t copies = 1;
  while (copies * segments * heads < multiprocessors) ++copies;
  return copies * (rows + 128 * segments);
}

}  // namespace

BOOST_AUTO_TEST_CASE(flash_takes_short_types_without_dropout_and_heads_in_eighths) {
  for (const DType type : {DType::bf16, DType::f16}) {
    for (const std::int64_t size : {8, 64, 72, 128, 256}) BOOST_TEST(choice({type, size}) == "flash");
    BOOST_TEST(choice({type, 64, true}) == "dropout");
    BOOST_TEST(choice({type, 64, false, true}) == "parallel.ring");
    BOOST_TEST(choice({type, 12}) == "the size of heads is not a multiple of 8");
    BOOST_TEST(choice({type, 264}) == "heads have more than 256 elements");
  }
  BOOST_TEST(choice({DType::f32, 64}) == "fp32");
  BOOST_TEST(choice({DType::f64, 64, true}) == "fp64");
}

BOOST_AUTO_TEST_CASE(memory_of_flash_attention_is_that_of_its_tensors) {
  // 12 heads of 64, 1024 rows of one segment, 132 multiprocessors: 11 copies of 1152 rows of sums
  const AttentionShape shape{12, 12, 64};
  const FlashCall call{.rows = 1024, .multiprocessors = 132, .has_output = true};
  const AttentionScratch scratch = flash_scratch(shape, call);
  const std::int64_t output = 1024 * 768 * 2, log_sums = 1024 * 12 * 4, products = 1152 * 12 * 4;
  BOOST_TEST(scratch.forward == output + log_sums);
  BOOST_TEST(scratch.backward == log_sums + 3 * output + std::int64_t{11 * 1152} * 768 * 4 + products);
  FlashCall other = call;
  other.rotates = true;
  BOOST_TEST(flash_scratch(shape, other).forward == scratch.forward + 3 * output);
  BOOST_TEST(flash_scratch(shape, other).backward == scratch.backward);  // it lies where the gradient will be
  other.has_output = false;
  BOOST_TEST(flash_scratch(shape, other).backward == scratch.backward + output);
  BOOST_TEST(flash_scratch(shape, {.fewest_segments = 0, .most_segments = 0, .multiprocessors = 132}).backward == 0);
}

BOOST_AUTO_TEST_CASE(grouped_keys_have_gradients_for_each_head_and_sums_have_padded_columns) {
  const FlashCall call{.rows = 100, .fewest_segments = 4, .most_segments = 4, .multiprocessors = 8, .has_output = true};
  const auto backward = [&](const AttentionShape& shape) { return flash_scratch(shape, call).backward; };
  const std::int64_t rows = 100 + 4 * 128;
  BOOST_TEST(backward({4, 2, 80}) ==
             100 * 4 * 4 + 100 * 8 * 80 * 2 + 2 * 100 * 4 * 80 * 2 + rows * 4 * 96 * 4 + rows * 16);
  BOOST_TEST(backward({4, 4, 136}) == 100 * 4 * 4 + 100 * 12 * 136 * 2 + rows * 4 * 192 * 4 + rows * 16);
}

BOOST_AUTO_TEST_CASE(the_worst_number_of_segments_is_planned_for) {
  for (const std::int64_t heads : {1, 3, 12})
    for (const std::int64_t rows : {64, 1000, 40000})
      for (const std::int64_t fewest : {1, 2, 7})
        for (const std::int64_t most : {7, 40, 500}) {
          std::int64_t worst = 0;
          for (std::int64_t segments = fewest; segments <= most; ++segments)
            worst = std::max(worst, rows_of_sums(rows, segments, heads, 132));
          const AttentionScratch scratch = flash_scratch({heads, heads, 32}, {.rows = rows,
                                                                              .fewest_segments = fewest,
                                                                              .most_segments = most,
                                                                              .multiprocessors = 132,
                                                                              .has_output = true});
          const std::int64_t beside = heads * (rows * 4 + rows * 96 * 2 + (rows + 128 * most) * 4);
          BOOST_TEST(scratch.backward - beside == worst * heads * 32 * 4);
        }
}

BOOST_AUTO_TEST_CASE(a_block_on_a_gpu_plans_the_memory_of_flash_attention) {
  ModelConfig config = tiny_llama();
  config.head_size = 8;
  const auto workspace = [&](std::int64_t length, DType compute, int multiprocessors, std::int64_t segments = 1) {
    const BatchShape batch{
        .samples = 2, .length = length, .compute = compute, .multiprocessors = multiprocessors, .segments = segments};
    return profile(describe(config), 1, batch).backward_workspace_bytes;
  };
  const auto scratch = [&](std::int64_t rows, int multiprocessors, std::int64_t most_segments) {
    return flash_scratch({4, 2, 8}, {.rows = rows,
                                     .fewest_segments = 2,
                                     .most_segments = most_segments,
                                     .multiprocessors = multiprocessors,
                                     .rotates = true,
                                     .has_output = true})
        .backward;
  };
  // Rows 512, C 12, Q 32, KV 16, F 20. When attention's backward runs, its own output is still there. Of what forward
  // left, gone are in bf16 norm out, gate, up and product, and in fp32 x2; there are, beside the scratch memory, in
  // bf16 the gradients of the output and of q, k and v.
  const std::int64_t gone = 512 * 2 * (12 + 20 + 20 + 20) + 512 * 4 * 12, more = 512 * 2 * (32 + 64);
  BOOST_TEST(workspace(256, DType::bf16, 8) == scratch(512, 8, 2) + more - gone);
  BOOST_TEST(workspace(256, DType::bf16, 80) == scratch(512, 80, 2) + more - gone);
  // Documents of 256 tokens or more are planned for, and no more documents than there can be.
  BOOST_TEST(workspace(1024, DType::bf16, 8, 100) - workspace(1024, DType::bf16, 8) ==
             scratch(2048, 8, 8) - scratch(2048, 8, 2));
  BOOST_TEST(workspace(1024, DType::bf16, 8, 2) - workspace(1024, DType::bf16, 8) ==
             scratch(2048, 8, 4) - scratch(2048, 8, 2));
  BOOST_TEST(workspace(256, DType::f32, 8) < workspace(256, DType::bf16, 8));
}

BOOST_AUTO_TEST_SUITE_END()
