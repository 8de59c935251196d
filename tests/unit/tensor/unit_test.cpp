#include "tensor/unit.hpp"

#include "base/error.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <boost/test/unit_test.hpp>

#include <limits>

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

BOOST_AUTO_TEST_CASE(only_bf16_has_a_separate_compute_copy_which_is_the_rounded_weights) {
  Unit plain("u", three_tensors(), Precision::fp32);
  BOOST_TEST(plain.compute().data_ptr() == plain.master().data_ptr());
  Unit narrow("u", three_tensors(), Precision::bf16);
  narrow.parameters()[0]->master().fill_(1.0 + 0x1p-7 + 0x1p-12);
  BOOST_TEST(narrow.parameters()[0]->compute()[0][0].item<double>() == 0);
  narrow.update_compute_copy();
  BOOST_TEST(narrow.parameters()[0]->compute()[0][0].item<double>() == 1.0 + 0x1p-7);
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

BOOST_AUTO_TEST_SUITE_END()
