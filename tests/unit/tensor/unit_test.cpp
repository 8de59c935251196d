#include "tensor/unit.hpp"

#include "base/error.hpp"
#include "tensor/live_memory.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <boost/test/unit_test.hpp>

#include <limits>
#include <memory>
#include <numeric>

BOOST_AUTO_TEST_SUITE(units)

using namespace lockstep;

namespace {

std::vector<LogicalTensor> three_tensors() {
  return {{"a", Role::up, {3, 5}, {}, {}},
          {"b", Role::up_bias, {5}, {}, {}},
          {"empty", Role::gate, {0, 4}, {}, {}},
          {"c", Role::down, {2, 2, 2}, {}, {}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(parameters_are_aligned_views_of_their_units_buffers) {
  for (const Precision precision : {Precision::fp32, Precision::fp64, Precision::bf16}) {
    const Unit unit("u", three_tensors(), precision);
    BOOST_TEST(unit.parameters().size() == 4u);
    for (const auto& parameter : unit.parameters()) {
      BOOST_TEST(parameter->offset() * unit.master().element_size() % 64 == 0);
      parameter->master().fill_(parameter->offset() + 1);
      BOOST_TEST(parameter->gradient().sizes() == at::IntArrayRef(parameter->shape()));
    }
    BOOST_TEST(unit.master()[0].item<double>() == 1);
    BOOST_TEST(unit.master()[unit.parameters()[3]->offset() + 7].item<double>() == unit.parameters()[3]->offset() + 1);
    BOOST_TEST(unit.master()[15].item<double>() == 0);  // padding
  }
}

BOOST_AUTO_TEST_CASE(types_narrower_than_the_masters_have_a_compute_copy_which_is_the_rounded_weights) {
  Unit plain("u", three_tensors(), Precision::fp32);
  BOOST_TEST(plain.compute().data_ptr() == plain.master().data_ptr());
  Unit narrow("u", three_tensors(), Precision::bf16);
  narrow.parameters()[0]->master().fill_(1.0 + 0x1p-7 + 0x1p-12);
  BOOST_TEST(narrow.parameters()[0]->compute()[0][0].item<double>() == 0);
  narrow.update_compute_copy();
  BOOST_TEST(narrow.parameters()[0]->compute()[0][0].item<double>() == 1.0 + 0x1p-7);
  Unit half("u", three_tensors(), Precision::fp16);
  half.parameters()[0]->master().fill_(1.0 + 0x1p-10 + 0x1p-12);
  half.update_compute_copy();
  BOOST_TEST(half.parameters()[0]->compute()[0][0].item<double>() == 1.0 + 0x1p-10);
}

BOOST_AUTO_TEST_CASE(the_first_gradient_of_a_step_overwrites_and_later_ones_add) {
  Unit unit("u", three_tensors(), Precision::fp64);
  Parameter& parameter = *unit.parameters()[1];
  parameter.gradient().fill_(std::numeric_limits<double>::quiet_NaN());
  unit.zero_grad();
  parameter.accumulate(at::full({5}, 2.0, at::kFloat));
  parameter.accumulate(at::full({5}, 3.0, at::kDouble));
  BOOST_TEST(parameter.touches() == 2);
  BOOST_TEST(parameter.gradient().eq(5).all().item<bool>());
  unit.zero_grad();
  BOOST_TEST(parameter.touches() == 0);
  parameter.accumulate(at::ones({5}, at::kDouble));
  BOOST_TEST(parameter.gradient().eq(1).all().item<bool>());
  BOOST_CHECK_THROW(parameter.accumulate(at::ones({4}, at::kDouble)), Error);
}

BOOST_AUTO_TEST_CASE(what_nothing_touched_has_gradient_zero_in_the_end) {
  Unit unit("u", three_tensors(), Precision::fp32);
  unit.gradient().fill_(7);
  unit.zero_grad();
  unit.parameters()[1]->accumulate(at::ones({5}, at::kFloat));
  unit.finish_gradients();
  BOOST_TEST(unit.parameters()[0]->gradient().eq(0).all().item<bool>());
  BOOST_TEST(unit.parameters()[1]->gradient().eq(1).all().item<bool>());
  BOOST_TEST(unit.parameters()[3]->gradient().eq(0).all().item<bool>());
}

BOOST_AUTO_TEST_CASE(shards_of_any_number_of_ranks_hold_every_element_once_and_are_of_one_length) {
  for (const int shards : {2, 3, 4, 7}) {
    const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}, {"dp_shard", shards}});
    std::vector<std::unique_ptr<Unit>> units;
    for (Rank rank = 0; rank < world_size(mesh); ++rank)
      units.push_back(std::make_unique<Unit>("u", three_tensors(), Precision::fp32, std::vector<StateDescription>{},
                                             ShardPlace{mesh, {{"dp_shard"}, shards}, rank}));
    const Unit plain("u", three_tensors(), Precision::fp32);
    const ShardMap& map = units.front()->shard_map();
    check(map);
    BOOST_TEST(map.whole_length == plain.length());
    std::vector<int> held(static_cast<std::size_t>(map.whole_length), 0);
    for (const auto& pieces : map.pieces)
      for (const ShardPiece& piece : pieces)
        for (std::int64_t i = 0; i < piece.length; ++i) ++held[static_cast<std::size_t>(piece.whole + i)];
    for (const auto& parameter : plain.parameters())
      for (std::int64_t i = 0; i < parameter->elements(); ++i)
        BOOST_REQUIRE_EQUAL(held[static_cast<std::size_t>(parameter->offset() + i)], 1);
    BOOST_TEST(std::accumulate(held.begin(), held.end(), 0) == 15 + 5 + 8);
    for (Rank rank = 0; rank < world_size(mesh); ++rank) {
      const Unit& unit = *units[static_cast<std::size_t>(rank)];
      BOOST_TEST((unit.shard_map() == map && unit.length() == map.shard_length && unit.is_cut()));
      for (std::size_t i = 0; i < unit.parameters().size(); ++i) {
        const Parameter& parameter = *unit.parameters()[i];
        BOOST_TEST((parameter.box() == box_of(parameter.layout(), rank)));
        BOOST_TEST(parameter.offset() == plain.parameters()[i]->offset());
        BOOST_TEST(parameter.master().sizes() == at::IntArrayRef(parameter.box().extent));
        BOOST_TEST(parameter.shard_offset() % 16 == 0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(whole_memory_is_lent_to_a_unit_that_is_cut_and_taken_back) {
  const Mesh mesh = make_mesh("world", {{"dp_shard", 2}});
  Unit unit("u", three_tensors(), Precision::bf16, {}, {mesh, {{"dp_shard"}, 2}, 1});
  Parameter& c = *unit.parameters()[3];
  BOOST_TEST((!c.compute().defined() && !c.local_gradient().defined()));
  const at::Tensor whole = at::zeros({unit.whole_length()}, at::kBFloat16);
  unit.lend_weights(whole, 4);
  whole[c.offset() + 7].fill_(3);
  BOOST_TEST(c.compute().sizes() == at::IntArrayRef(c.shape()));
  BOOST_TEST(c.compute()[1][1][1].item<double>() == 3);
  const void* view = c.compute().unsafeGetTensorImpl();
  unit.lend_weights({});
  BOOST_TEST(!c.compute().defined());
  unit.lend_weights(whole, 4);
  BOOST_TEST(c.compute().unsafeGetTensorImpl() == view);  // no new views
  const at::Tensor moved = at::ones({unit.whole_length()}, at::kBFloat16);
  unit.lend_weights(moved, 4);
  BOOST_TEST(c.compute().eq(1).all().item<bool>());

  const at::Tensor gradient = at::full({unit.whole_length()}, 9.0, at::kFloat);
  unit.lend_local_gradient(gradient, 5);
  c.accumulate(at::full({2, 2, 2}, 2.0));
  unit.finish_gradients();
  BOOST_TEST(gradient[c.offset()].item<double>() == 2);
  BOOST_TEST(unit.parameters()[0]->local_gradient().eq(0).all().item<bool>());
  unit.lend_local_gradient(gradient, 5);
  BOOST_TEST(c.touches() == 0);  // lent anew: forgotten
}

BOOST_AUTO_TEST_CASE(shards_and_their_state_may_lie_in_host_memory_and_whole_units_only_with_their_state) {
  const std::vector<StateDescription> moments{{"exp_avg"}, {"exp_avg_sq"}};
  const auto on_host = [&](const OffloadOptions& offload, const ShardPlace& place) {
    const std::int64_t before = live_bytes(Arena::host);
    const Unit unit("u", three_tensors(), Precision::fp32, moments, place, unit_memory_of(offload, false));
    return std::pair(live_bytes(Arena::host) - before, unit.length() * 4);
  };
  const ShardPlace cut{make_mesh("world", {{"dp_shard", 2}}), {.axes = {"dp_shard"}, .shards = 2}, 0};
  const auto [of_whole, whole] = on_host({.shards = true}, {});
  BOOST_TEST(of_whole == 0);
  BOOST_TEST(on_host({.optimizer = true}, {}).first == 2 * whole);
  const auto [of_shard, shard] = on_host({.shards = true}, cut);
  BOOST_TEST(of_shard == 4 * shard);  // weights, gradient and both moments
  BOOST_TEST(on_host({.optimizer = true}, cut).first == 2 * shard);
}

BOOST_AUTO_TEST_SUITE_END()
