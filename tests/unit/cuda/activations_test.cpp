// The activations of the device, run on the host, against the functions in double and their difference quotients.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/activations.cu"
#include "distant_memory.hpp"
#include "kernel_checks.hpp"

#include <limits>

BOOST_AUTO_TEST_SUITE(cuda_activations)

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr Activation all_activations[] = {Activation::gelu_tanh, Activation::gelu_erf, Activation::silu,
                                          Activation::relu};

double value(Activation activation, double x) {
  switch (activation) {
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf: return 0.5 * x * (1 + std::erf(x / std::sqrt(2)));
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::relu: return x > 0 ? x : 0;
  }
  return NAN;
}
double slope(Activation activation, double x) {
  constexpr double step = 1e-5;
  return (value(activation, x + step) - value(activation, x - step)) / (2 * step);
}

struct Case {
  std::int64_t rows, columns;
  Start start = Start::aligned;
  bool has_bias = true;  // for gated ones: row gates
};

template <class T>
void check(const Case& of, Activation activation, const std::string& type) {
  const std::int64_t count = of.rows * of.columns;
  Values<T> u(normal_values(count, 1, 3), of.start), dy(normal_values(count, 2), of.start);
  Values<T> bias(normal_values(of.columns, 3), of.start);
  T* const given = of.has_bias ? bias.data() : nullptr;
  const Results found = in_any_order([&]() -> Results {
    Values<T> y(count, of.start), du(count, of.start);
    cuda::activation_forward<T>(activation, u.data(), given, of.rows, of.columns, y.data());
    cuda::activation_backward<T>(activation, dy.data(), u.data(), given, of.rows, of.columns, du.data());
    return {y.all(), du.all()};
  });
  Results wanted(2);
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = u[i] + (of.has_bias ? bias[i % of.columns] : 0);
    wanted[0].push_back(value(activation, x));
    wanted[1].push_back(dy[i] * slope(activation, x));
  }
  const std::string name = type + ", activation " + std::to_string(static_cast<int>(activation));
  check_near(found[0], wanted[0], rounding<T>, name + ", y");
  check_near(found[1], wanted[1], rounding<T> + 1e-8, name + ", du");
}

template <class T>
void check_gated(const Case& of, Activation activation, const std::string& type) {
  const std::int64_t count = of.rows * of.columns;
  Values<T> gate_up(normal_values(2 * count, 1, 2), of.start), dy(normal_values(count, 2), of.start);
  Values<T> row_gates(normal_values(of.rows, 3), of.start);
  T* const given = of.has_bias ? row_gates.data() : nullptr;
  const Results found = in_any_order([&]() -> Results {
    Values<T> y(count, of.start), dgate_up(2 * count, of.start), drow_gates(of.rows);
    cuda::gated_forward<T>(activation, gate_up.data(), given, of.rows, of.columns, y.data());
    cuda::gated_backward<T>(activation, dy.data(), gate_up.data(), given, of.rows, of.columns, dgate_up.data(),
                            of.has_bias ? drow_gates.data() : nullptr);
    return {y.all(), dgate_up.all(), drow_gates.all()};
  });
  Results wanted{std::vector<double>(count), std::vector<double>(2 * count), std::vector<double>(of.rows)};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = i / of.columns, at = row * 2 * of.columns + i % of.columns;
    const double g = gate_up[at], up = gate_up[at + of.columns];
    const double open = of.has_bias ? 1 / (1 + std::exp(-row_gates[row])) : 1;
    wanted[0][i] = open * value(activation, g) * up;
    wanted[1][at] = open * dy[i] * up * slope(activation, g);
    wanted[1][at + of.columns] = open * dy[i] * value(activation, g);
    wanted[2][row] += dy[i] * value(activation, g) * up * open * (1 - open);
  }
  const std::string name = type + ", gated by " + std::to_string(static_cast<int>(activation));
  check_near(found[0], wanted[0], 2 * rounding<T>, name + ", y");
  check_near(found[1], wanted[1], 2 * rounding<T> + 1e-8, name + ", dgate_up");
  if (of.has_bias) check_near(found[2], wanted[2], 2 * rounding<T> + 1e-8, name + ", drow_gates");
}

}  // namespace

BOOST_AUTO_TEST_CASE(functions_and_slopes_agree_with_double_in_all_types) {
  for_each_type([]<class T>(const std::string& type) {
    for (const Activation activation : all_activations) {
      check<T>({3, 17}, activation, type);
      check<T>({5, 64, Start::unaligned, false}, activation, type);
      check_gated<T>({3, 40}, activation, type);
      check_gated<T>({2, 19, Start::unaligned, false}, activation, type);
    }
  });
}

BOOST_AUTO_TEST_CASE(rows_longer_and_shorter_than_a_block_are_complete) {
  for (const Start start : {Start::aligned, Start::unaligned}) {
    check<Bf16>({2, 4099, start}, Activation::silu, "bf16");
    check<float>({70, 8, start}, Activation::silu, "fp32");
    check<float>({301, 1, start}, Activation::silu, "fp32");
    check_gated<float>({2, 2052, start}, Activation::silu, "fp32");
    check_gated<float>({67, 12, start, false}, Activation::silu, "fp32");
  }
}

BOOST_AUTO_TEST_CASE(there_may_be_more_than_2_to_the_32_values) {
  constexpr std::int64_t rows = 5000000, columns = 1000, last = rows * columns - 1;
  DistantMemory<float> u(rows * columns), gate_up(2 * rows * columns), y(rows * columns);
  u.data()[last] = gate_up.data()[2 * last + 1] = 3;
  gate_up.data()[2 * last + 1 - columns] = 2;
  const on_host::LastBlocks only(1);
  cuda::activation_forward<float>(Activation::relu, u.data(), nullptr, rows, columns, y.data());
  BOOST_TEST(y.data()[last] == 3);
  cuda::gated_forward<float>(Activation::relu, gate_up.data(), nullptr, rows, columns, y.data());
  BOOST_TEST(y.data()[last] == 6);
}

BOOST_AUTO_TEST_CASE(numbers_at_the_ends_of_the_range_stay_what_they_are) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const Activation activation : all_activations) {
    Values<float> u({1e6, -1e6, 0, -0.0, infinity, NAN, 90, -90}), dy(std::vector<double>(8, 1)), y(8), du(8);
    cuda::activation_forward<float>(activation, u.data(), nullptr, 1, 8, y.data());
    cuda::activation_backward<float>(activation, dy.data(), u.data(), nullptr, 1, 8, du.data());
    const double nan_in = activation == Activation::relu ? 0 : NAN;
    check_near(y.all(), {1e6, 0, 0, 0, infinity, nan_in, 90, 0}, 1e-6, "y");
    for (const std::int64_t i : {0, 6}) BOOST_TEST(du[i] == 1);
    for (const std::int64_t i : {1, 7}) BOOST_TEST(du[i] == 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
