#include "optim/sgd.hpp"

#include "base/random.hpp"

#include "compute_copy.hpp"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <ATen/Parallel.h>

#include <cmath>

BOOST_AUTO_TEST_SUITE(sgd)

using namespace lockstep;

namespace {

/// The largest difference after six steps from what torch.optim.SGD documents, in double.
template <class M>
double worst_error(Precision precision, double momentum, bool nesterov) {
  OptimizerOptions options;
  options.name = OptimizerName::sgd;
  options.momentum = momentum;
  options.nesterov = nesterov;
  options.weight_decay = 0.3;
  options.groups = {{"b", {.match = NamePattern::parse("b"), .lr_scale = 0.5}}};
  Unit unit("u", {{"w", Role::up, {37, 5}, {}, {}}, {"b", Role::up_bias, {37}, {}, {}}}, precision,
            state_of(options, master_dtype(precision)));
  const std::vector<Parameter*> parameters{unit.parameters()[0].get(), unit.parameters()[1].get()};
  const Sgd sgd(options, parameters);
  const RandomStream stream(1, "sgd");
  std::uint64_t next = 0;
  std::vector<std::vector<double>> weights(2), kept(2);
  for (std::size_t p = 0; p < 2; ++p) {
    for (M& weight : values_of<M>(parameters[p]->master())) {
      weight = static_cast<M>(stream.normal(next++));
      weights[p].push_back(weight);
      kept[p].push_back(0);
    }
  }
  for (int step = 0; step < 6; ++step) {
    for (std::size_t p = 0; p < 2; ++p) {
      const double lr = p == 0 ? 0.01 : 0.005, decay = p == 0 ? 0.3 : 0;
      const auto gradient = values_of<M>(parameters[p]->gradient());
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = static_cast<M>(stream.normal(next++));
        const double g = 0.25 * static_cast<double>(gradient[i]) + decay * weights[p][i];
        kept[p][i] = momentum * kept[p][i] + g;
        weights[p][i] -= lr * (nesterov ? g + momentum * kept[p][i] : kept[p][i]);
      }
    }
    sgd.update(unit, step, 0.01, 0.25);
  }
  double worst = 0;
  for (std::size_t p = 0; p < 2; ++p) {
    const auto weight = values_of<M>(parameters[p]->master());
    for (std::size_t i = 0; i < weight.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(weight[i]) - weights[p][i]));
  }
  worst = std::max(worst, test::compute_copy_error(unit));
  return worst;
}

}  // namespace

BOOST_AUTO_TEST_CASE(six_steps_equal_the_documented_algorithm_in_every_precision) {
  for (const auto& [momentum, nesterov] : {std::pair{0.0, false}, {0.9, false}, {0.9, true}}) {
    BOOST_TEST(worst_error<double>(Precision::fp64, momentum, nesterov) < 1e-14);
    BOOST_TEST(worst_error<float>(Precision::fp32, momentum, nesterov) < 1e-6);
    BOOST_TEST(worst_error<float>(Precision::bf16, momentum, nesterov) < 1e-6);
    BOOST_TEST(worst_error<float>(Precision::fp16, momentum, nesterov) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(updates_have_the_same_bits_for_any_number_of_threads) {
  const auto run = [](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    OptimizerOptions options;
    options.name = OptimizerName::sgd;
    options.momentum = 0.9;
    options.nesterov = true;
    Unit unit("u", {{"w", Role::up, {300, 301}, {}, {}}}, Precision::fp32, state_of(options, DType::f32));
    const RandomStream stream(2, "threads");
    std::uint64_t next = 0;
    for (float& weight : values_of<float>(unit.master())) weight = static_cast<float>(stream.normal(next++));
    for (float& gradient : values_of<float>(unit.gradient())) gradient = static_cast<float>(stream.normal(next++));
    const Sgd sgd(options, {unit.parameters()[0].get()});
    for (int step = 0; step < 2; ++step) sgd.update(unit, step, 0.01, 0.3);
    const auto values = values_of<float>(unit.master());
    at::set_num_threads(before);
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> one = run(1);
  for (const int threads : {2, 3, 5, 7}) BOOST_TEST((run(threads) == one), threads);
}

BOOST_AUTO_TEST_CASE(only_momentum_takes_memory) {
  OptimizerOptions options;
  options.name = OptimizerName::sgd;
  BOOST_TEST(state_of(options, DType::f32).empty());
  options.momentum = 0.5;
  BOOST_TEST((state_of(options, DType::f64) == std::vector<StateDescription>{{"momentum_buffer", DType::f64}}));
}

BOOST_AUTO_TEST_SUITE_END()
