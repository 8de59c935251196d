#include "optim/lion.hpp"

#include "base/random.hpp"

#include "compute_copy.hpp"

#include <ATen/core/Tensor.h>

#include <boost/test/unit_test.hpp>

#include <ATen/Parallel.h>

#include <cmath>

BOOST_AUTO_TEST_SUITE(lion)

using namespace lockstep;

namespace {

OptimizerOptions options_with(StateType state) {
  OptimizerOptions options;
  options.name = OptimizerName::lion;
  options.betas = {0.9, 0.99};
  options.weight_decay = 0.3;
  options.state_dtype = state;
  options.groups = {{"b", {.match = NamePattern::parse("b"), .lr_scale = 0.5}}};
  return options;
}

/// The largest difference after six steps from algorithm 2 of the paper, in double.
template <class M>
double worst_error(Precision precision) {
  const OptimizerOptions options = options_with(StateType::weights);
  Unit unit("u",
            {{.name = "w", .role = Role::up, .shape = {37, 5}}, {.name = "b", .role = Role::up_bias, .shape = {37}}},
            precision, state_of(options, master_dtype(precision)));
  const std::vector<Parameter*> parameters{unit.parameters()[0].get(), unit.parameters()[1].get()};
  const Lion optimizer(options, parameters);
  const RandomStream stream(1, "lion");
  std::uint64_t next = 0;
  std::vector<std::vector<double>> weights(2), kept(2);
  for (std::size_t p = 0; p < 2; ++p) {
    for (M& weight : values_of<M>(parameters[p]->master())) {
      weight = static_cast<M>(stream.normal(next++));
      weights[p].push_back(static_cast<double>(weight));
      kept[p].push_back(0);
    }
  }
  for (int step = 0; step < 6; ++step) {
    for (std::size_t p = 0; p < 2; ++p) {
      const double lr = p == 0 ? 0.01 : 0.005, decay = p == 0 ? 0.3 : 0;
      const auto gradient = values_of<M>(parameters[p]->gradient());
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = static_cast<M>(stream.normal(next++));
        const double g = 0.25 * static_cast<double>(gradient[i]), c = 0.9 * kept[p][i] + 0.1 * g;
        weights[p][i] -= lr * ((c > 0 ? 1 : c < 0 ? -1 : 0) + decay * weights[p][i]);
        kept[p][i] = 0.99 * kept[p][i] + 0.01 * g;
      }
    }
    optimizer.update(unit, step, 0.01, 0.25);
  }
  double worst = test::compute_copy_error(unit);
  for (std::size_t p = 0; p < 2; ++p) {
    const auto weight = values_of<M>(parameters[p]->master());
    for (std::size_t i = 0; i < weight.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(weight[i]) - weights[p][i]));
  }
  return worst;
}

}  // namespace

BOOST_AUTO_TEST_CASE(six_steps_equal_the_published_algorithm_in_every_precision) {
  BOOST_TEST(worst_error<double>(Precision::fp64) < 1e-14);
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    BOOST_TEST(worst_error<float>(precision) < 1e-6);
}

BOOST_AUTO_TEST_CASE(an_average_in_bf16_is_that_in_fp32_rounded_and_threads_do_not_matter) {
  const auto run = [](StateType state, int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const OptimizerOptions options = options_with(state);
    Unit unit("u", {{.name = "w", .role = Role::up, .shape = {300, 301}}}, Precision::fp32,
              state_of(options, DType::f32));
    const RandomStream stream(2, "threads");
    std::uint64_t next = 0;
    for (float& gradient : values_of<float>(unit.gradient())) gradient = static_cast<float>(stream.normal(next++));
    const Lion optimizer(options, {unit.parameters()[0].get()});
    optimizer.update(unit, 0, 0.01, 0.3);
    at::set_num_threads(before);
    return unit.state()[0].clone();
  };
  const at::Tensor one = run(StateType::bf16, 1);
  BOOST_TEST(one.equal(run(StateType::weights, 1).to(at::kBFloat16)));
  for (const int threads : {2, 3, 7}) BOOST_TEST(one.equal(run(StateType::bf16, threads)));
}

BOOST_AUTO_TEST_SUITE_END()
