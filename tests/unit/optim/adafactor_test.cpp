#include "optim/adafactor.hpp"

#include "base/error.hpp"
#include "base/random.hpp"

#include "compute_copy.hpp"

#include <ATen/core/Tensor.h>

#include <boost/test/unit_test.hpp>

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

BOOST_AUTO_TEST_SUITE(adafactor)

using namespace lockstep;

namespace {

constexpr double decay = 0.3, gradient_scale = 0.25;

OptimizerOptions options_with(const UpdateRule& rule) {
  OptimizerOptions options;
  static_cast<UpdateRule&>(options) = rule;
  options.name = OptimizerName::adafactor;
  options.weight_decay = decay;
  options.groups = {{"b", {.match = NamePattern::parse("b"), .lr_scale = 0.5}}};
  return options;
}

const LogicalTensor stack{.name = "w", .role = Role::expert_down, .shape = {14, 33}, .matrix_rows = 7};
const LogicalTensor vector_of_some{.name = "b", .role = Role::up_bias, .shape = {37}};

std::vector<StateDescription> kept_of(const OptimizerOptions& options, const LogicalTensor& tensor, DType master) {
  return states_of(options, master)[static_cast<std::size_t>(update_rule_index(options, tensor))];
}

/// One matrix, or a vector as one row, of the paper's algorithms 4 and 5, in double, element by element.
struct Plain {
  std::size_t rows, columns;
  bool factored;
  std::vector<double> weights, row_means, column_means, squares, average;

  Plain(std::size_t of_rows, std::size_t of_columns, bool is_matrix)
      : rows(of_rows),
        columns(of_columns),
        factored(is_matrix),
        row_means(rows),
        column_means(columns),
        squares(rows * columns),
        average(rows * columns) {}

  static double rms(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum / static_cast<double>(values.size()));
  }

  void step(const UpdateRule& rule, double t, double lr, double weight_decay, const std::vector<double>& gradient) {
    const double beta = 1 - std::pow(t, rule.adafactor_decay), eps = rule.adafactor_eps[0];
    std::vector<double> update(rows * columns);
    if (factored) {
      for (std::size_t i = 0; i < rows; ++i) {
        double mean = 0;
        for (std::size_t j = 0; j < columns; ++j) mean += std::pow(gradient[i * columns + j], 2) + eps;
        row_means[i] = beta * row_means[i] + (1 - beta) * mean / static_cast<double>(columns);
      }
      for (std::size_t j = 0; j < columns; ++j) {
        double mean = 0;
        for (std::size_t i = 0; i < rows; ++i) mean += std::pow(gradient[i * columns + j], 2) + eps;
        column_means[j] = beta * column_means[j] + (1 - beta) * mean / static_cast<double>(rows);
      }
      double all = 0;
      for (const double mean : row_means) all += mean / static_cast<double>(rows);
      for (std::size_t i = 0; i < rows * columns; ++i)
        update[i] = gradient[i] / std::sqrt(row_means[i / columns] * column_means[i % columns] / all);
    } else {
      for (std::size_t i = 0; i < columns; ++i) {
        squares[i] = beta * squares[i] + (1 - beta) * (gradient[i] * gradient[i] + eps);
        update[i] = gradient[i] / std::sqrt(squares[i]);
      }
    }
    const double over = std::max(1.0, rms(update) / rule.adafactor_clip);
    double rate = rule.adafactor_relative_step ? std::min(lr, 1 / std::sqrt(t)) : lr;
    if (rule.adafactor_scale) rate *= std::max(rule.adafactor_eps[1], rms(weights));
    for (std::size_t i = 0; i < rows * columns; ++i) {
      average[i] = rule.adafactor_momentum * average[i] + (1 - rule.adafactor_momentum) * update[i] / over;
      weights[i] -= lr * weight_decay * weights[i] + rate * average[i];
    }
  }
};

/// The largest difference of weights after six steps from what the paper says of each matrix.
template <class M>
double worst_error(Precision precision, const LogicalTensor& tensor, const UpdateRule& rule, double lr) {
  const OptimizerOptions options = options_with(rule);
  Unit unit("u", {tensor}, precision, kept_of(options, tensor, master_dtype(precision)));
  Parameter* const parameter = unit.parameters()[0].get();
  const auto optimizer = make_optimizer(options, {parameter});
  const bool is_matrix = tensor.shape.size() == 2;
  const auto columns = static_cast<std::size_t>(tensor.shape.back()),
             rows = static_cast<std::size_t>(is_matrix ? tensor.matrix_rows : 1);
  std::vector<Plain> plain(is_matrix ? 2 : 1, Plain(rows, columns, is_matrix));
  const RandomStream stream(1, "adafactor");
  std::uint64_t next = 0;
  std::size_t at = 0;
  for (M& weight : values_of<M>(parameter->master())) {
    weight = static_cast<M>(0.5 * stream.normal(next++));
    plain[at++ / (rows * columns)].weights.push_back(static_cast<double>(weight));
  }
  BOOST_REQUIRE_EQUAL(at, plain.size() * rows * columns);
  for (int step = 0; step < 6; ++step) {
    std::vector<std::vector<double>> gradients(plain.size());
    at = 0;
    for (M& gradient : values_of<M>(parameter->gradient())) {
      const double size = std::exp(stream.normal(next++));  // columns differ, and steps
      gradient = static_cast<M>(size * stream.normal(next++));
      gradients[at++ / (rows * columns)].push_back(gradient_scale * static_cast<double>(gradient));
    }
    const double own_lr = is_matrix ? lr : 0.5 * lr;
    for (std::size_t i = 0; i < plain.size(); ++i)
      plain[i].step(rule, step + 1, own_lr, is_matrix ? decay : 0, gradients[i]);
    optimizer->update(unit, step, lr, gradient_scale);
  }
  double worst = test::compute_copy_error(unit);
  at = 0;
  for (const M weight : values_of<M>(parameter->master())) {
    const double expected = plain[at / (rows * columns)].weights[at % (rows * columns)];
    worst = std::max(worst, std::abs(static_cast<double>(weight) - expected));
    ++at;
  }
  return worst;
}

std::vector<UpdateRule> some_rules() {
  std::vector<UpdateRule> rules(6);
  rules[1].adafactor_scale = true;
  rules[2].adafactor_relative_step = true;
  rules[3].adafactor_momentum = 0.9;
  rules[4].adafactor_decay = -0.5;
  rules[4].adafactor_clip = 0.7;
  rules[5].adafactor_eps = {1e-2, 2};
  rules[5].adafactor_scale = true;
  return rules;
}

}  // namespace

BOOST_AUTO_TEST_CASE(six_steps_equal_the_published_algorithm_in_every_precision_and_of_each_matrix_of_a_stack) {
  for (const LogicalTensor& tensor : {stack, vector_of_some})
    for (const UpdateRule& rule : some_rules()) {
      const double lr = rule.adafactor_relative_step ? 1 : 0.01;  // above 1/√t
      BOOST_TEST(worst_error<double>(Precision::fp64, tensor, rule, lr) < 1e-13);
      for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
        BOOST_TEST(worst_error<float>(precision, tensor, rule, lr) < 1e-5 * (lr / 0.01));
    }
}

BOOST_AUTO_TEST_CASE(of_a_matrix_it_keeps_a_number_for_each_row_and_column_and_of_a_vector_for_each_element) {
  OptimizerOptions options = options_with({});
  Unit matrices("u", {stack}, Precision::fp32, kept_of(options, stack, DType::f32));
  BOOST_REQUIRE_EQUAL(matrices.state().size(), 2u);
  const Parameter& parameter = *matrices.parameters()[0];
  BOOST_TEST((parameter.state()[0].sizes() == at::IntArrayRef({2, 7})));
  BOOST_TEST((parameter.state()[1].sizes() == at::IntArrayRef({2, 33})));
  Unit vectors("v", {vector_of_some}, Precision::fp32, kept_of(options, vector_of_some, DType::f32));
  BOOST_REQUIRE_EQUAL(vectors.state().size(), 1u);
  BOOST_TEST((vectors.parameters()[0]->state()[0].sizes() == at::IntArrayRef({37})));
  options.adafactor_momentum = 0.5;
  BOOST_TEST(kept_of(options, stack, DType::f32).back().name == "exp_avg");
  BOOST_TEST(kept_of(options, vector_of_some, DType::f32).size() == 2u);
}

BOOST_AUTO_TEST_CASE(threads_do_not_matter) {
  const auto run = [](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    UpdateRule rule;
    rule.adafactor_scale = true;
    const OptimizerOptions options = options_with(rule);
    const LogicalTensor wide{.name = "w", .role = Role::up, .shape = {300, 301}};
    Unit unit("u", {wide}, Precision::fp32, kept_of(options, wide, DType::f32));
    const RandomStream stream(2, "threads");
    std::uint64_t next = 0;
    for (const at::Tensor& buffer : {unit.gradient(), unit.master()})
      for (float& value : values_of<float>(buffer)) value = static_cast<float>(stream.normal(next++));
    make_optimizer(options, {unit.parameters()[0].get()})->update(unit, 0, 0.01, 0.3);
    at::set_num_threads(before);
    return unit.master().clone();
  };
  const at::Tensor one = run(1);
  for (const int threads : {2, 3, 7}) BOOST_TEST(one.equal(run(threads)));
}

BOOST_AUTO_TEST_SUITE_END()
