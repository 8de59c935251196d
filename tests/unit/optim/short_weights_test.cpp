#include "tensor/kernels/short_weights_kernel.hpp"

#include "base/random.hpp"
#include "optim/optimizer.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <boost/test/unit_test.hpp>

#include <ATen/Parallel.h>

#include <cmath>
#include <memory>
#include <vector>

BOOST_AUTO_TEST_SUITE(short_weights)

using namespace lockstep;

namespace {

const std::vector<LogicalTensor> tensors{{.name = "w", .role = Role::up, .shape = {67, 65}}};

/// A unit of one matrix and what updates it.
struct Updated {
  Unit unit;
  std::unique_ptr<Optimizer> optimizer;

  Updated(const OptimizerOptions& options, WeightMemory weights)
      : unit("u", tensors, Precision::bf16,
             states_of(options, DType::f32)[static_cast<std::size_t>(update_rule_index(options, tensors.front()))], {},
             {.weights = weights}),
        optimizer(make_optimizer(options, {unit.parameters().front().get()})) {}
};

OptimizerOptions options_of(OptimizerName name, bool kahan, StateType state = StateType::weights) {
  OptimizerOptions options;
  options.name = name;
  options.momentum = name == OptimizerName::sgd ? 0.9 : 0;
  options.state_dtype = state;
  options.kahan = kahan;
  options.adafactor_scale = true;  // which reads weights
  return options;
}

void fill(const at::Tensor& tensor, const RandomStream& stream, std::uint64_t& next, double scale) {
  const at::Tensor values = at::empty(tensor.sizes(), at::kFloat);
  for (std::int64_t i = 0; i < values.numel(); ++i)
    values.mutable_data_ptr<float>()[i] = static_cast<float>(scale * stream.normal(next++));
  tensor.copy_(values);
}

/// The mean difference of weights, with what is kept of rounding, after `steps` from those that fp32 keeps.
double distance(const OptimizerOptions& options, int steps) {
  OptimizerOptions plain = options;
  plain.kahan = false;
  Updated wide(plain, WeightMemory::master), narrow(options, WeightMemory::compute);
  const RandomStream stream(3, "weights");
  std::uint64_t next = 0;
  fill(narrow.unit.master(), stream, next, 1);
  wide.unit.master().copy_(narrow.unit.master());
  for (int step = 0; step < steps; ++step) {
    fill(narrow.unit.gradient(), stream, next, 1);
    narrow.unit.gradient().add_(1);  // a way to go
    wide.unit.gradient().copy_(narrow.unit.gradient());
    for (Updated* const each : {&wide, &narrow}) each->optimizer->update(each->unit, step, 1e-4, 1);
  }
  at::Tensor held = narrow.unit.master().to(at::kFloat);
  if (options.kahan) held = held.add(narrow.unit.state().back());
  return held.sub(wide.unit.master()).abs().mean().item<double>();
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_rounding_takes_is_kept_and_comes_back) {
  constexpr std::int64_t count = 1001;
  const RandomStream stream(1, "values");
  const at::Tensor wide = at::empty({count}, at::kFloat), back = at::empty({count}, at::kFloat);
  const at::Tensor weight = at::empty({count}, at::kBFloat16), rest = at::empty({count}, at::kBFloat16);
  std::uint64_t next = 0;
  fill(wide, stream, next, 3);
  const auto bits = [](const at::Tensor& tensor) { return static_cast<Bf16*>(tensor.mutable_data_ptr()); };
  round_weights(count, wide.const_data_ptr<float>(), bits(weight), bits(rest));
  BOOST_TEST(weight.equal(wide.to(at::kBFloat16)));
  BOOST_TEST(rest.equal(wide.sub(weight.to(at::kFloat)).to(at::kBFloat16)));
  widen_weights(count, bits(weight), bits(rest), back.mutable_data_ptr<float>());
  BOOST_TEST(back.sub(wide).abs().div(wide.abs()).max().item<double>() < std::ldexp(1.0, -17));
  widen_weights(count, bits(weight), nullptr, back.mutable_data_ptr<float>());
  BOOST_TEST(back.equal(weight.to(at::kFloat)));
}

BOOST_AUTO_TEST_CASE(each_rule_updates_in_fp32_and_rounds_once_for_any_threads) {
  for (const OptimizerName name :
       {OptimizerName::adamw, OptimizerName::lion, OptimizerName::sgd, OptimizerName::muon, OptimizerName::adafactor})
    for (const bool kahan : {false, true})
      for (const StateType state : {StateType::weights, StateType::bf16})
        for (const int threads : {1, 3}) {
          const bool has_one_type = name == OptimizerName::sgd || name == OptimizerName::adafactor;
          if (has_one_type && state == StateType::bf16) continue;
          const int before = at::get_num_threads();
          at::set_num_threads(threads);
          Updated wide(options_of(name, false, state), WeightMemory::master),
              narrow(options_of(name, kahan, state), WeightMemory::compute);
          BOOST_TEST((narrow.unit.master().scalar_type() == at::kBFloat16 &&
                      narrow.unit.compute().is_same(narrow.unit.master()) &&
                      narrow.unit.gradient().scalar_type() == at::kFloat));
          const RandomStream stream(2, "steps");
          std::uint64_t next = 0;
          fill(narrow.unit.master(), stream, next, 1);
          at::Tensor rest = at::empty({0}, at::kFloat);
          for (int step = 0; step < 3; ++step) {
            fill(narrow.unit.gradient(), stream, next, 1);
            wide.unit.gradient().copy_(narrow.unit.gradient());
            wide.unit.master().copy_(narrow.unit.master());
            if (kahan) wide.unit.master().add_(narrow.unit.state().back());
            for (Updated* const each : {&wide, &narrow}) each->optimizer->update(each->unit, step, 0.01, 0.5);
            const at::Tensor& expected = wide.unit.master();
            BOOST_TEST(narrow.unit.master().equal(expected.to(at::kBFloat16)));
            if (kahan)
              BOOST_TEST(narrow.unit.state().back().equal(
                  expected.sub(narrow.unit.master().to(at::kFloat)).to(at::kBFloat16)));
          }
          for (std::size_t i = 0; i < wide.unit.state().size(); ++i)
            BOOST_TEST(wide.unit.state()[i].equal(narrow.unit.state()[i]));
          at::set_num_threads(before);
        }
}

BOOST_AUTO_TEST_CASE(with_compensation_weights_stay_fifty_times_nearer_to_those_of_fp32) {
  for (const OptimizerName name :
       {OptimizerName::adamw, OptimizerName::lion, OptimizerName::sgd, OptimizerName::adafactor}) {
    const double without = distance(options_of(name, false), 100), with = distance(options_of(name, true), 100);
    BOOST_TEST(50 * with < without, with << " with, " << without << " without");
  }
}

BOOST_AUTO_TEST_SUITE_END()
