#include "optim/adamw.hpp"
#include "optim/gradient_norm.hpp"

#include "base/random.hpp"

#include "compute_copy.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <ATen/Parallel.h>

#include <cmath>
#include <limits>

BOOST_AUTO_TEST_SUITE(adamw)

using namespace lockstep;

namespace {

double squared_norm(const Unit& unit, int part = 0, int parts = 1) {
  const at::Tensor sum = at::zeros({}, at::kDouble);
  add_squared_norm(unit, sum, part, parts);
  return sum.item<double>();
}

std::vector<LogicalTensor> tensors() { return {{"w", Role::up, {37, 5}, {}, {}}, {"b", Role::up_bias, {37}, {}, {}}}; }

template <class M>
void fill(const at::Tensor& tensor, std::string_view name) {
  const RandomStream stream(1, name);
  auto values = values_of<M>(tensor);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<M>(stream.normal(i));
}

/// One element through `steps` of Loshchilov and Hutter's algorithm 2 as PyTorch documents it, in double.
double reference(double weight, const std::vector<double>& gradients, const OptimizerOptions& options, double lr,
                 double decay) {
  double m = 0, v = 0;
  for (std::size_t t = 1; t <= gradients.size(); ++t) {
    const double g = gradients[t - 1];
    weight -= lr * decay * weight;
    m = options.betas[0] * m + (1 - options.betas[0]) * g;
    v = options.betas[1] * v + (1 - options.betas[1]) * g * g;
    const double m_hat = m / (1 - std::pow(options.betas[0], t)), v_hat = v / (1 - std::pow(options.betas[1], t));
    weight -= lr * m_hat / (std::sqrt(v_hat) + options.eps);
  }
  return weight;
}

template <class M>
double worst_error(Precision precision) {
  Unit unit("u", tensors(), precision, state_of({}, master_dtype(precision)));
  std::vector<Parameter*> parameters{unit.parameters()[0].get(), unit.parameters()[1].get()};
  for (Parameter* p : parameters) fill<M>(p->master(), p->name());
  std::vector<std::vector<double>> start;
  for (Parameter* p : parameters)
    start.emplace_back(values_of<M>(p->master()).begin(), values_of<M>(p->master()).end());
  OptimizerOptions options;
  options.betas = {0.9, 0.99};
  options.weight_decay = 0.3;
  options.groups = {{"b", {.match = NamePattern::parse("b"), .lr_scale = 0.5}}};
  const AdamW adamw(options, parameters);
  std::vector<std::vector<std::vector<double>>> history(2);
  for (std::size_t i = 0; i < 2; ++i) history[i].resize(start[i].size());
  for (int step = 0; step < 7; ++step) {
    for (std::size_t i = 0; i < 2; ++i) {
      fill<M>(parameters[i]->gradient(), fmt::format("{} {}", i, step));
      const auto gradient = values_of<M>(parameters[i]->gradient());
      for (std::size_t e = 0; e < gradient.size(); ++e)
        history[i][e].push_back(0.25 * static_cast<double>(gradient[e]));
    }
    adamw.update(unit, step, 0.01, 0.25);
  }
  double worst = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto weight = values_of<M>(parameters[i]->master());
    for (std::size_t e = 0; e < weight.size(); ++e) {
      const double expected = reference(start[i][e], history[i][e], options, i == 1 ? 0.005 : 0.01, i == 1 ? 0 : 0.3);
      worst = std::max(worst, std::abs(static_cast<double>(weight[e]) - expected));
    }
  }
  worst = std::max(worst, test::compute_copy_error(unit));
  return worst;
}

}  // namespace

BOOST_AUTO_TEST_CASE(seven_steps_equal_the_published_algorithm_in_every_precision) {
  BOOST_TEST(worst_error<double>(Precision::fp64) < 1e-14);
  BOOST_TEST(worst_error<float>(Precision::fp32) < 1e-6);
  BOOST_TEST(worst_error<float>(Precision::bf16) < 1e-6);  // and the copy is the master rounded
  BOOST_TEST(worst_error<float>(Precision::fp16) < 1e-6);
}

BOOST_AUTO_TEST_CASE(updates_and_norms_have_the_same_bits_for_any_number_of_threads) {
  const auto run = [](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    Unit unit("u", {{"w", Role::up, {300, 301}, {}, {}}}, Precision::fp32, state_of({}, DType::f32));
    fill<float>(unit.parameters()[0]->master(), "w");
    fill<float>(unit.parameters()[0]->gradient(), "g");
    AdamW(OptimizerOptions{}, {unit.parameters()[0].get()}).update(unit, 0, 0.01, 1);
    const auto values = values_of<float>(unit.master());
    std::pair<std::vector<float>, double> result{{values.begin(), values.end()}, squared_norm(unit)};
    at::set_num_threads(before);
    return result;
  };
  BOOST_TEST((run(1) == run(3)));
}

BOOST_AUTO_TEST_CASE(the_norm_is_that_of_all_gradients_and_shows_what_is_not_finite) {
  Unit unit("u", tensors(), Precision::fp32);
  unit.parameters()[0]->gradient().fill_(2);
  unit.parameters()[1]->gradient().fill_(-3);
  BOOST_TEST(squared_norm(unit) == 37 * 5 * 4 + 37 * 9);
  unit.parameters()[1]->gradient()[5].fill_(std::numeric_limits<float>::quiet_NaN());
  BOOST_TEST(std::isnan(squared_norm(unit)));
}

BOOST_AUTO_TEST_CASE(shares_of_a_norm_add_up_to_it_for_any_number_of_ranks) {
  Unit unit("u", tensors(), Precision::fp32);
  unit.gradient().fill_(2);  // padding too: sums of these are exact
  for (const int parts : {1, 2, 3, 7, 500}) {
    double sum = 0;
    for (int part = 0; part < parts; ++part) sum += squared_norm(unit, part, parts);
    BOOST_TEST(sum == 4.0 * static_cast<double>(unit.length()), "in " << parts << " shares");
  }
}

BOOST_AUTO_TEST_CASE(clipping_scales_down_to_the_limit_and_never_up) {
  BOOST_TEST(clip_factor(0.5, 1.0) == 1);
  BOOST_TEST(std::abs(clip_factor(4, 1.0) - 0.25) < 1e-6);
  BOOST_TEST(clip_factor(4, std::nullopt) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
