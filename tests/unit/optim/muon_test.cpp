#include "optim/muon.hpp"

#include "base/random.hpp"
#include "tensor/kernels/orthogonalise_kernel.hpp"

#include "compute_copy.hpp"

#include <ATen/core/Tensor.h>

#include <boost/test/unit_test.hpp>

#include <ATen/Parallel.h>

#include <cmath>
#include <vector>

BOOST_AUTO_TEST_SUITE(muon)

using namespace lockstep;

namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& left, const Matrix& right) {
  Matrix made(left.size(), std::vector<double>(right[0].size()));
  for (std::size_t i = 0; i < left.size(); ++i)
    for (std::size_t k = 0; k < right.size(); ++k)
      for (std::size_t j = 0; j < right[0].size(); ++j) made[i][j] += left[i][k] * right[k][j];
  return made;
}

Matrix transposed(const Matrix& matrix) {
  Matrix made(matrix[0].size(), std::vector<double>(matrix.size()));
  for (std::size_t i = 0; i < matrix.size(); ++i)
    for (std::size_t j = 0; j < matrix[0].size(); ++j) made[j][i] = matrix[i][j];
  return made;
}

/// X ← 3.4445·X − 4.7750·(XXᵀ)X + 2.0315·(XXᵀ)²X, five times, whatever the shape: the same for X and its transpose.
Matrix brute_force(Matrix x) {
  double squares = 0;
  for (const auto& row : x)
    for (const double value : row) squares += value * value;
  for (auto& row : x)
    for (double& value : row) value /= std::sqrt(squares);
  for (int step = 0; step < 5; ++step) {
    const Matrix once = product(product(x, transposed(x)), x), twice = product(product(x, transposed(x)), once);
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t j = 0; j < x[0].size(); ++j)
        x[i][j] = 3.4445 * x[i][j] - 4.7750 * once[i][j] + 2.0315 * twice[i][j];
  }
  return x;
}

Matrix drawn(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  const RandomStream stream(seed, "matrix");
  std::uint64_t next = 0;
  Matrix made(static_cast<std::size_t>(rows), std::vector<double>(static_cast<std::size_t>(cols)));
  for (auto& row : made)
    for (double& value : row) value = stream.normal(next++);
  return made;
}

template <class M>
std::vector<M> flat(const Matrix& matrix) {
  std::vector<M> made;
  for (const auto& row : matrix)
    for (const double value : row) made.push_back(static_cast<M>(value));
  return made;
}

template <class M>
double error_of(std::int64_t rows, std::int64_t cols, IterationType type) {
  const Matrix matrix = drawn(rows, cols, 3);
  std::vector<M> ours = flat<M>(matrix);
  orthogonalise<M>(ours.data(), rows, cols, 5, type);
  const std::vector<double> expected = flat<double>(brute_force(matrix));
  double worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(ours[i]) - expected[i]));
  return worst;
}

/// Two steps with momentum 0.9 of a stack of two matrices (3, 4), as the documentation of Muon says.
std::vector<double> two_steps(bool nesterov, bool in_out, MuonAdjust adjust) {
  OptimizerOptions options;
  options.name = OptimizerName::muon;
  options.muon_momentum = 0.9;
  options.muon_nesterov = nesterov;
  options.muon_adjust = adjust;
  options.muon_lr = 2 * options.lr;
  options.weight_decay = 0.3;
  Unit unit("u", {{.name = "w", .role = Role::up, .shape = {6, 4}, .matrix_rows = 3, .in_out = in_out}},
            Precision::fp64, state_of(options, DType::f64));
  const Muon optimizer(options, {unit.parameters()[0].get()});
  const Matrix start = drawn(6, 4, 5);
  std::ranges::copy(flat<double>(start), values_of<double>(unit.parameters()[0]->master()).begin());
  std::vector<double> weights = flat<double>(start), kept(24);
  const double out = in_out ? 4 : 3, in = in_out ? 3 : 4;
  const double factor = adjust == MuonAdjust::original ? std::sqrt(std::max(1.0, out / in)) : 0.2 * 2;
  for (int step = 0; step < 2; ++step) {
    const std::vector<double> gradient = flat<double>(drawn(6, 4, 7 + static_cast<std::uint64_t>(step)));
    std::ranges::copy(gradient, values_of<double>(unit.parameters()[0]->gradient()).begin());
    optimizer.update(unit, step, 0.01, 0.5);
    for (std::size_t first = 0; first < 24; first += 12) {
      Matrix direction(3, std::vector<double>(4));
      for (std::size_t i = 0; i < 12; ++i) {
        const double g = 0.5 * gradient[first + i];
        kept[first + i] = 0.9 * kept[first + i] + 0.1 * g;
        direction[i / 4][i % 4] = nesterov ? 0.1 * g + 0.9 * kept[first + i] : kept[first + i];
      }
      const std::vector<double> orthogonal = flat<double>(brute_force(direction));
      for (std::size_t i = 0; i < 12; ++i)
        weights[first + i] = weights[first + i] * (1 - 0.02 * 0.3) - 0.02 * factor * orthogonal[i];
    }
  }
  const auto ours = values_of<double>(unit.parameters()[0]->master());
  for (std::size_t i = 0; i < 24; ++i) weights[i] -= ours[i];
  return weights;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_iteration_is_that_of_brute_force_for_every_shape) {
  for (const auto& [rows, cols] :
       {std::pair{1L, 1L}, {1L, 9L}, {9L, 1L}, {5L, 7L}, {33L, 12L}, {40L, 40L}, {17L, 65L}}) {
    BOOST_TEST(error_of<double>(rows, cols, IterationType::of_matrix) < 1e-12, rows << " x " << cols);
    BOOST_TEST(error_of<float>(rows, cols, IterationType::of_matrix) < 2e-5, rows << " x " << cols);
    BOOST_TEST(error_of<float>(rows, cols, IterationType::bf16) < 0.1, rows << " x " << cols);
  }
}

BOOST_AUTO_TEST_CASE(all_directions_of_a_gradient_become_about_equally_long) {
  std::vector<double> matrix = flat<double>(drawn(40, 60, 11));
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] *= i / 60 == 0 ? 50 : 1;  // one row is far longer
  orthogonalise<double>(matrix.data(), 40, 60, 5, IterationType::of_matrix);
  for (std::size_t row = 0; row < 40; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < 60; ++i) squares += matrix[row * 60 + i] * matrix[row * 60 + i];
    BOOST_TEST((std::sqrt(squares) > 0.6 && std::sqrt(squares) < 1.3), row << ": " << std::sqrt(squares));
  }
}

BOOST_AUTO_TEST_CASE(two_steps_equal_the_documented_update_of_each_matrix_of_a_stack) {
  for (const bool nesterov : {false, true})
    for (const bool in_out : {false, true})
      for (const MuonAdjust adjust : {MuonAdjust::original, MuonAdjust::match_rms_adamw})
        for (const double difference : two_steps(nesterov, in_out, adjust)) BOOST_TEST(std::abs(difference) < 1e-13);
}

BOOST_AUTO_TEST_CASE(updates_have_the_same_bits_for_any_number_of_threads_and_copies_follow) {
  const auto run = [](Precision precision, int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    OptimizerOptions options;
    options.name = OptimizerName::muon;
    options.state_dtype = StateType::bf16;
    Unit unit(
        "u",
        {{.name = "w", .role = Role::up, .shape = {190, 301}}, {.name = "v", .role = Role::down, .shape = {301, 190}}},
        precision, state_of(options, DType::f32));
    const RandomStream stream(2, "threads");
    std::uint64_t next = 0;
    for (float& gradient : values_of<float>(unit.gradient())) gradient = static_cast<float>(stream.normal(next++));
    const Muon optimizer(options, {unit.parameters()[0].get(), unit.parameters()[1].get()});
    for (int step = 0; step < 2; ++step) optimizer.update(unit, step, 0.01, 0.3);
    at::set_num_threads(before);
    BOOST_TEST(test::compute_copy_error(unit) == 0);
    return unit.master().clone();
  };
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const at::Tensor one = run(precision, 1);
    for (const int threads : {2, 3, 7}) BOOST_TEST(one.equal(run(precision, threads)), threads);
  }
}

BOOST_AUTO_TEST_CASE(hidden_matrices_are_updated_by_muon_and_all_else_by_adamw_but_for_groups) {
  OptimizerOptions options;
  options.name = OptimizerName::muon;
  const auto way = [&](Role role, Shape shape, const std::string& name = "x") {
    const int index = update_rule_index(options, {.name = name, .role = role, .shape = std::move(shape)});
    return update_rules_of(options).at(static_cast<std::size_t>(index)).name;
  };
  BOOST_TEST(
      (way(Role::query, {4, 4}) == OptimizerName::muon && way(Role::expert_down, {8, 4}) == OptimizerName::muon));
  BOOST_TEST(
      (way(Role::token_embedding, {9, 4}) == OptimizerName::adamw && way(Role::head, {9, 4}) == OptimizerName::adamw));
  BOOST_TEST((way(Role::router, {2, 4}) == OptimizerName::adamw && way(Role::mlp_norm, {4}) == OptimizerName::adamw));
  options.groups = {{"a", {.match = NamePattern::parse("wte"), .name = OptimizerName::sgd}},
                    {"b", {.match = NamePattern::parse("ln"), .name = OptimizerName::muon}}};
  BOOST_TEST((way(Role::token_embedding, {9, 4}, "wte") == OptimizerName::sgd));
  BOOST_CHECK_EXCEPTION(way(Role::mlp_norm, {4}, "ln"), Error, [](const Error& error) {
    return std::string(error.what()) ==
           "optimizer.groups.b: 'ln' assigns the tensor ln to muon, but it is not a matrix";
  });
  // a matrix (8, 4) in fp32: its direction, two matrices and two squares, and two of these in bf16
  const std::vector<LogicalTensor> tensors{{.name = "x", .role = Role::query, .shape = {8, 4}}};
  UnitPlan unit;
  unit.parameters = {0};
  constexpr int iteration = (2 * 32 + 2 * 16) * 4 + (32 + 16) * 2;
  BOOST_TEST(update_bytes(options, tensors, {unit}, DType::f32) == 32 * 4 + iteration);
  BOOST_TEST(update_bytes({}, tensors, {unit}, DType::f32) == 0);
  unit.update_exchanges = {{.row_bytes = 16, .rows = 1}, {.row_bytes = 128, .rows = 1}};  // of which ranks have parts
  BOOST_TEST(update_bytes(options, tensors, {unit}, DType::f32) == 2 * (16 + 128) + iteration);
  const UpdateStates states = states_of(options, DType::f32);
  BOOST_TEST((states.size() == 3 && states[0].size() == 1 && states[1].size() == 2 && states[2].empty()));
}

BOOST_AUTO_TEST_SUITE_END()
