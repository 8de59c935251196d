#include "architecture/context_parallel.hpp"

#include "architecture/block_profile.hpp"
#include "architecture/tensor_parallel.hpp"
#include "base/error.hpp"
#include "harness/tiny_models.hpp"

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>

#include <array>
#include <string>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(context_parallel)

namespace {

ModelConfig model(std::int64_t heads, std::int64_t key_heads) {
  return tiny_llama({.vocabulary = 29, .width = 24, .heads = heads, .intermediate = 22, .key_value_heads = key_heads})
      .config;
}

/// Axes and bytes of exchanges, in order.
std::string text(const std::vector<BlockExchange>& exchanges) {
  std::string text;
  for (const BlockExchange& exchange : exchanges)
    text += fmt::format("{} {}; ", exchange.axes.front(), exchange.bytes());
  return text;
}

constexpr std::size_t decoder = 1;  // the first, after the embedding

std::string refusal(const ModelConfig& config, std::int64_t tensor_ranks, int ulysses) {
  try {
    check_heads(config, tensor_ranks, {ulysses});
  } catch (const Error& error) {
    BOOST_TEST((error.code() == ExitCode::usage));
    return error.what();
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_CASE(key_heads_are_shared_out_or_had_several_times) {
  for (const auto& [keys, tensor, ulysses] :
       {std::array{12, 1, 4}, {2, 1, 4}, {1, 1, 12}, {6, 2, 3}, {2, 2, 6}, {2, 1, 1}})
    BOOST_TEST(refusal(model(12, keys), tensor, ulysses).empty());
  BOOST_TEST(refusal(model(12, 6), 2, 4) ==
             "cannot divide 12 heads among parallel.tp 2 × parallel.ulysses 4: 12 mod 8 is 4");
  BOOST_TEST(refusal(model(12, 6), 1, 4) ==
             "cannot divide 6 key heads among parallel.ulysses 4: 6 mod 4 is 2, and 4 mod 6 is 4");
  BOOST_TEST(refusal(model(12, 6), 2, 2) ==
             "cannot divide 3 key heads per rank of parallel.tp 2 among parallel.ulysses 2: 3 mod 2 is 1, "
             "and 2 mod 3 is 2");
}

BOOST_AUTO_TEST_CASE(ranks_that_share_rows_exchange_heads_around_attention_as_often_as_they_have_them) {
  const ModelConfig config = model(12, 2);  // heads of 2 elements
  BatchShape batch{2, 7, DType::bf16};      // 14 rows
  batch.sequence = {4};                     // 4 of each, and the key heads twice
  const Architecture whole = describe(config);
  const BlockExchanges alone = profile(whole, decoder, batch).exchanges;
  BOOST_TEST(text(alone.forward) == "ulysses 320; ulysses 192; ");
  BOOST_TEST(text(alone.backward) == "ulysses 192; ulysses 320; ");
  for (const std::size_t block : {std::size_t{0}, whole.blocks.size() - 1})
    BOOST_TEST((profile(whole, block, batch).exchanges == BlockExchanges{}));
  ModelConfig half = part_of(model(12, 12), {.ranks = 2});
  batch.sharing.ranks = 2;
  batch.sequence = {2};  // 7 rows of each
  const BlockExchanges both = profile(describe(half), decoder, batch).exchanges;
  BOOST_TEST(text(both.forward) == "ulysses 504; ulysses 168; tp 672; tp 672; ");
  BOOST_TEST(text(both.backward) == "tp 336; ulysses 168; ulysses 504; tp 336; ");
  const auto again = [&](KeepSet keeps) {
    return text(profile(describe(half), decoder, batch).recomputations[keeps.index()].exchanges);
  };
  BOOST_TEST(again({}) == "ulysses 504; ulysses 168; tp 672; ");
  BOOST_TEST(again({Keep::attention}) == "ulysses 504; tp 672; ");
  BOOST_TEST(again({Keep::projections, Keep::mlp}) == "ulysses 168; ");
  BOOST_TEST(again({Keep::projections}) == "ulysses 168; ");
  BOOST_TEST(again({Keep::mlp}) == "ulysses 504; ulysses 168; tp 672; ");
  BOOST_TEST(again({Keep::attention, Keep::projections, Keep::mlp}) == "");
  batch.sharing.rows = true;  // 4 rows of each of the 7
  BOOST_TEST(again({}) == "tp 192; ulysses 504; ulysses 168; tp 672; tp 192; ");
  BOOST_TEST(again({Keep::projections, Keep::mlp}) == "ulysses 168; ");
  BOOST_TEST(again({Keep::attention, Keep::projections}) == "tp 192; ");
  BOOST_TEST(again({Keep::mlp}) == "tp 192; ulysses 504; ulysses 168; tp 672; ");
  half.query_key_norm = true;  // is repeated, and the exchange of its result too
  BOOST_TEST(again({Keep::attention, Keep::projections, Keep::mlp}) == "ulysses 504; ");
}

BOOST_AUTO_TEST_CASE(keys_go_around_a_ring_and_in_backward_their_gradients_with_them_and_home) {
  BatchShape batch{2, 7, DType::bf16};
  batch.sequence = {2, 3};  // two rows in each of two parts of a sample: 8, and 4 of each along ulysses
  const BlockExchanges said = profile(describe(model(12, 2)), decoder, batch).exchanges;
  BOOST_TEST(text(said.forward) == "ulysses 256; ring 64; ring 64; ulysses 192; ");
  BOOST_TEST(text(said.backward) ==
             "ulysses 192; ring 64; ring 128; ring 64; ring 128; ring 128; ulysses 256; ");  // gradients in fp32
}

BOOST_AUTO_TEST_CASE(ranks_that_share_rows_sum_what_balances_experts_of_each_sample_in_training_alone) {
  const TinyModel of{.width = 24, .heads = 12, .intermediate = 9, .key_value_heads = 12};
  TinyModel balanced = of;
  balanced.aux = 0.1;
  BatchShape batch{3, 7, DType::bf16};  // 21 rows, 11 of each
  batch.sequence = {2};
  const auto said = [&](const Architecture& model, std::size_t layer) {
    return profile(model, decoder + layer, batch).exchanges;
  };
  const BlockExchanges with = said(tiny_mixtral(balanced), 0), without = said(tiny_mixtral(of), 0);
  BOOST_TEST(without.forward.size() == 2u);
  BOOST_TEST(with.forward.size() == 3u);
  BOOST_TEST((with.backward == without.backward));
  const BlockExchange& sum = with.forward.back();
  BOOST_TEST((sum.kind == BlockExchange::Kind::all_reduce && sum.dtype == DType::f32 && sum.in_training));
  BOOST_TEST(sum.bytes() == 3 * 2 * 5 * 4);  // of each sample two numbers for each of five experts
  BOOST_TEST(sum.bytes_of(7, 2) == 2 * 2 * 5 * 4);
  BOOST_TEST(sum.bytes_of(4, 1) == 2 * 5 * 4);
  BOOST_TEST(said(tiny_qwen3_moe(balanced), 0).forward.size() == 2u);  // a layer without experts
  BOOST_TEST(said(tiny_qwen3_moe(balanced), 1).forward.size() == 3u);
  batch.sequence = {};  // a pass over texts exchanges nothing along these axes
  batch.texts = {.texts = 3, .piece = 7, .positions = 20};
  BOOST_TEST(said(tiny_mixtral(balanced), 0).forward.empty());
}

BOOST_AUTO_TEST_SUITE_END()
