#include "architecture/tensor_parallel.hpp"

#include "architecture/block_profile.hpp"
#include "architecture/units.hpp"
#include "base/error.hpp"
#include "harness/tiny_models.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <string>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(tensor_parallel)

namespace {

Architecture shared(int ranks, bool tied = false) {
  Architecture model =
      tiny_llama({.vocabulary = 29, .width = 24, .heads = 12, .intermediate = 22, .key_value_heads = 6, .tied = tied});
  cut_over(model, {.ranks = ranks});
  return model;
}

std::string refusal(const Architecture& of, int ranks) {
  Architecture model = of;
  try {
    cut_over(model, sharing_among(ranks, model.config));
  } catch (const Error& error) {
    BOOST_TEST((error.code() == ExitCode::usage));
    return error.what();
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_CASE(matrices_are_cut_by_whole_heads_by_the_width_and_by_the_vocabulary_and_norms_are_not) {
  const std::map<std::string, Shape> longest{{"model.embed_tokens.weight", {10, 24}},
                                             {"model.layers.0.input_layernorm.weight", {24}},
                                             {"model.layers.0.self_attn.q_proj.weight", {8, 24}},
                                             {"model.layers.0.self_attn.k_proj.weight", {4, 24}},
                                             {"model.layers.0.self_attn.v_proj.weight", {4, 24}},
                                             {"model.layers.0.self_attn.o_proj.weight", {24, 8}},
                                             {"model.layers.0.mlp.gate_proj.weight", {8, 24}},
                                             {"model.layers.0.mlp.up_proj.weight", {8, 24}},
                                             {"model.layers.0.mlp.down_proj.weight", {24, 8}},
                                             {"model.norm.weight", {24}},
                                             {"lm_head.weight", {10, 24}}};
  std::size_t seen = 0;
  for (const LogicalTensor& tensor : stored_tensors(shared(3))) {
    const auto want = longest.find(tensor.name);
    if (want == longest.end()) continue;
    BOOST_TEST(longest_part(tensor, {.ranks = 3}) == want->second, boost::test_tools::per_element());
    BOOST_TEST(tensor.cut.has_value() == (tensor.name.find("norm") == std::string::npos), tensor.name);
    ++seen;
  }
  BOOST_TEST(seen == longest.size());
  for (const LogicalTensor& tensor : stored_tensors(shared(1))) BOOST_TEST(!tensor.cut.has_value());
}

BOOST_AUTO_TEST_CASE(what_one_rank_computes_is_its_share_and_all_shares_are_the_model) {
  const Architecture whole = shared(1);
  const ModelConfig part = part_of(whole.config, {.ranks = 2});
  BOOST_TEST(part.heads == 6);
  BOOST_TEST(part.kv_heads == 3);
  BOOST_TEST(part.feed_forward == 11);
  BOOST_TEST(part.vocabulary == 15);  // the other rank has 14
  BOOST_TEST(part.channels == 24);
  const auto flops = [](const ModelConfig& config, const Architecture& of) {
    Architecture own = of;
    own.config = config;
    return profile(own, 1, {2, 7, DType::f32}).forward_flops;
  };
  BOOST_TEST(2 * flops(part, whole) == flops(whole.config, whole), boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(what_ranks_hold_alike_has_units_of_its_own) {
  const std::vector<UnitPlan> units = units_of(shared(2), {}, {}, {.axes = {}, .blocks = {.ranks = 2}});
  std::vector<std::string> names;
  std::int64_t alike = 0;
  for (const UnitPlan& unit : units) {
    names.push_back(unit.name);
    BOOST_TEST(unit.alike.empty() == (unit.name.find("alike") == std::string::npos));
    if (!unit.alike.empty()) alike += unit.elements;
  }
  BOOST_TEST(names == (std::vector<std::string>{"embedding", "layer.0", "layer.0, alike", "layer.1", "layer.1, alike",
                                                "head", "head, alike"}),
             boost::test_tools::per_element());
  BOOST_TEST(alike == 5 * 32);  // norms of 24, each from a multiple of 64 bytes on
}

BOOST_AUTO_TEST_CASE(what_ranks_say_within_a_block_is_of_rows_and_a_long_loss_comes_in_slices) {
  const Architecture part = describe(part_of(shared(2).config, {.ranks = 2}));
  const std::size_t last = part.blocks.size() - 1;
  const BatchShape batch{.samples = 2, .length = 7, .compute = DType::bf16, .sharing = {.ranks = 2}};
  const BlockExchanges layer = profile(part, 1, batch).exchanges;
  BOOST_TEST(layer.forward.size() == 2u);
  BOOST_TEST(layer.forward[0].bytes() == 14 * 24 * 4);  // of the stream
  BOOST_TEST(layer.backward.size() == 2u);
  BOOST_TEST(layer.backward[0].bytes() == 14 * 24 * 2);
  BOOST_TEST(layer.backward[0].bytes_of(5, 1) == 5 * 24 * 2);
  Architecture wide = part;
  wide.config.vocabulary = logits_at_once / 5;
  const BlockExchanges head = profile(wide, last, batch).exchanges;
  BOOST_TEST(head.forward.size() == 3u);  // rows 0 to 4, 5 to 9, 10 to 13
  BOOST_TEST(head.forward[2].bytes() == 4 * 24);
  BOOST_TEST(head.forward[2].bytes_of(11, 2) == 24);
  BOOST_TEST(head.forward[2].bytes_of(10, 2) == 0);
  BOOST_TEST(head.backward.size() == 1u);
  BatchShape texts = batch;
  texts.texts = {.texts = 2, .piece = 7, .positions = 20};
  const BlockExchanges logits = profile(part, last, texts).exchanges;
  BOOST_TEST(logits.forward.size() == 1u);
  BOOST_TEST(logits.forward[0].bytes() == 2 * 15 * 4);
  BOOST_TEST(logits.forward[0].bytes_of(9, 1) == 15 * 4);  // of the texts in the pass
  BOOST_TEST(logits.backward.empty());
  const BlockProfile cached = profile(part, 1, texts);
  BOOST_TEST(cached.cache_bytes == 2 * 2 * part.config.kv_heads * part.config.head_size * 20 * 2);
  BOOST_TEST(cached.exchanges.forward.size() == 2u);
}

BOOST_AUTO_TEST_CASE(neighbours_have_the_same_key_heads_where_these_are_fewer_than_ranks_and_their_gradients_add_up) {
  Architecture model =
      tiny_qwen3({.vocabulary = 29, .width = 24, .heads = 12, .intermediate = 22, .key_value_heads = 2});
  const BlockSharing sharing = sharing_among(6, model.config);
  BOOST_TEST(sharing.key_replicas == 3);
  BOOST_TEST(sharing.axes() == (std::vector<AxisName>{"tp", "tp_keys"}), boost::test_tools::per_element());
  BOOST_TEST(sharing_among(2, model.config).key_replicas == 1);
  BOOST_TEST(part_of(model.config, sharing).heads == 2);
  BOOST_TEST(part_of(model.config, sharing).kv_heads == 1);
  cut_over(model, sharing);
  const Mesh mesh = make_mesh("world", {{"tp", 2}, {"tp_keys", 3}});
  for (const LogicalTensor& tensor : stored_tensors(model)) {
    const auto is = [&](const char* name) { return tensor.name == fmt::format("model.layers.0.self_attn.{}", name); };
    Layout layout = replicated(tensor.shape, DType::f32, mesh);
    if (tensor.cut) layout.splits.push_back(*tensor.cut);
    if (is("q_proj.weight"))  // 12 heads of 6 channels
      for (Rank rank = 0; rank < 6; ++rank) BOOST_TEST(box_of(layout, rank).begin[0] == rank * 12);
    if (is("k_proj.weight") || is("v_proj.weight")) {
      for (Rank rank = 0; rank < 6; ++rank) BOOST_TEST(box_of(layout, rank).begin[0] == rank / 3 * 6);
      BOOST_TEST(longest_part(tensor, sharing)[0] == 6);
      BOOST_TEST(tensor.summed == std::vector<AxisName>{"tp_keys"}, boost::test_tools::per_element());
    }
    if (is("q_norm.weight") || is("k_norm.weight")) {
      BOOST_TEST(!tensor.cut.has_value());
      BOOST_TEST(tensor.summed == sharing.axes(), boost::test_tools::per_element());
    }
  }
  std::vector<std::string> names;
  for (const UnitPlan& unit : units_of(model, {}, {}, {.axes = {}, .blocks = sharing})) names.push_back(unit.name);
  for (const char* name :
       {"layer.0", "layer.0, alike", "layer.0, summed over tp_keys", "layer.0, summed over tp+tp_keys"})
    BOOST_TEST((std::ranges::find(names, name) != names.end()), name);
}

BOOST_AUTO_TEST_CASE(queries_keys_and_values_in_one_matrix_are_cut_by_a_view_of_it) {
  Architecture model = tiny_gpt2({.vocabulary = 29, .width = 24, .heads = 4});
  cut_over(model, {.ranks = 2});
  for (const LogicalTensor& tensor : stored_tensors(model)) {
    if (tensor.name == "transformer.h.0.attn.c_attn.weight") {
      BOOST_TEST(tensor.view == (Shape{24, 3, 24}), boost::test_tools::per_element());
      BOOST_TEST(longest_part(tensor, {.ranks = 2}) == (Shape{24, 3, 12}), boost::test_tools::per_element());
    }
    if (tensor.name == "transformer.h.0.attn.c_attn.bias")
      BOOST_TEST(longest_part(tensor, {.ranks = 2}) == (Shape{3, 12}), boost::test_tools::per_element());
    if (tensor.name == "transformer.h.0.attn.c_proj.weight" || tensor.name == "transformer.h.0.mlp.c_proj.weight")
      BOOST_TEST(tensor.cut.value().dim == 0);  // (in, out)
    if (tensor.name == "transformer.h.0.mlp.c_fc.weight") BOOST_TEST(tensor.cut.value().dim == 1);
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_shared_is_refused_with_the_arithmetic) {
  BOOST_TEST(refusal(shared(1), 8) == "cannot divide 12 heads among parallel.tp 8: 12 mod 8 is 4");
  BOOST_TEST(refusal(shared(1), 4) == "cannot divide 6 key heads among parallel.tp 4: 6 mod 4 is 2, 4 mod 6 is 4");
  BOOST_TEST(refusal(tiny_llama({.vocabulary = 29, .width = 24, .heads = 6, .intermediate = 7, .key_value_heads = 6}),
                     6) == "cannot divide an MLP of 7 among parallel.tp 6: in parts of 2, the last rank has none");
  BOOST_TEST(refusal(shared(1), 6).empty());
}

BOOST_AUTO_TEST_SUITE_END()
