// The sums of a step and the statistics of values on the device, run on the host, against plain loops in double.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/round.cu"
#include "cuda/kernels/step_sums.cu"
#include "cuda/kernels/value_statistics.cu"
#include "kernel_checks.hpp"

#include <limits>

BOOST_AUTO_TEST_SUITE(cuda_step_sums)

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class M>
void check_squares(std::int64_t count, Start start) {
  Values<M> values(normal_values(count, 1), start);
  const Results found = in_any_order([&]() -> Results {
    Values<double> sum(std::vector<double>{3});
    cuda::add_square_sum<M>(values.data(), count, sum.data());
    return {sum.all()};
  });
  double wanted = 3;
  for (const double value : values.all()) wanted += value * value;
  check_near(found[0], {wanted}, 1e-13, std::to_string(count) + " squares");
}

std::vector<double> numbers(const Statistics& of) {
  return {static_cast<double>(of.finite),
          static_cast<double>(of.nan),
          static_cast<double>(of.infinite),
          static_cast<double>(of.zeros),
          of.min,
          of.max,
          of.mean,
          of.squares};
}

/// Two passes over the values, and no merging.
std::vector<double> wanted_statistics(const std::vector<double>& values) {
  Statistics all;
  double sum = 0;
  for (const double value : values) {
    if (std::isnan(value)) ++all.nan;
    if (std::isinf(value)) ++all.infinite;
    if (!std::isfinite(value)) continue;
    all.min = all.finite == 0 ? value : std::min(all.min, value);
    all.max = all.finite == 0 ? value : std::max(all.max, value);
    all.zeros += value == 0 ? 1 : 0;
    ++all.finite;
    sum += value;
  }
  if (all.finite > 0) all.mean = sum / static_cast<double>(all.finite);
  for (const double value : values) all.squares += std::isfinite(value) ? std::pow(value - all.mean, 2) : 0;
  return numbers(all);
}

template <class T>
void check_statistics(std::vector<double> more, const std::string& type, Start start = Start::aligned) {
  const std::vector<double> earlier{2, 5};
  Values<T> before(earlier), values(more, start);
  const Results found = in_any_order([&]() -> Results {
    Statistics all;
    cuda::add_statistics<T>(before.data(), before.count(), &all);
    cuda::add_statistics<T>(values.data(), values.count(), &all);
    return {numbers(all)};
  });
  std::vector<double> everything = values.all();
  everything.insert(everything.end(), earlier.begin(), earlier.end());
  check_near(found[0], wanted_statistics(everything), 1e-12, type + ", " + std::to_string(more.size()));
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_are_rounded_to_nearest_with_nan_and_infinities) {
  for_each_type([]<class T>(const std::string& type) {
    std::vector<double> values = normal_values(1037, 1, 100);
    values[3] = NAN;
    values[1030] = infinity;
    values[1031] = -infinity;
    for (const Start start : {Start::aligned, Start::unaligned}) {
      Values<Math<T>> x(values, start);
      Values<T> y(x.count(), start), wanted(x.all());
      cuda::round_to<T>(x.data(), x.count(), y.data());
      check_near(y.all(), wanted.all(), 0, type);
    }
  });
}

BOOST_AUTO_TEST_CASE(squares_are_added_in_double) {
  for (const std::int64_t count : {0, 1, 5, 4096, 10001}) {
    check_squares<float>(count, Start::aligned);
    check_squares<double>(count, Start::unaligned);
  }
}

BOOST_AUTO_TEST_CASE(losses_are_summed_and_values_added) {
  for (const std::int64_t count : {0, 1, 3000}) {
    Values<double> values(normal_values(count, 1)), sum(1);
    cuda::sum_in_order(values.data(), count, sum.data());
    double wanted = 0;
    for (const double value : values.all()) wanted += value;
    check_near(sum.all(), {wanted}, 1e-13, "sum");
  }
  struct {
    double value;
    bool counts;
    double wanted;
  } const cases[] = {{2, true, 3}, {2, false, 1}, {infinity, false, infinity}, {NAN, false, NAN}};
  for (const auto& of : cases) {
    double sum = 1;
    cuda::add_value(&of.value, of.counts, &sum);
    BOOST_TEST(near(sum, of.wanted, 0));
  }
}

BOOST_AUTO_TEST_CASE(statistics_agree_with_two_passes) {
  for_each_type([]<class T>(const std::string& type) {
    check_statistics<T>({}, type);
    check_statistics<T>({0, -0.0, 3}, type);
    check_statistics<T>({NAN, infinity, -infinity}, type);
    std::vector<double> values = normal_values(9001, 1);
    for (double& value : values) value += 1000;
    values[5000] = NAN;
    values[8999] = infinity;
    values[17] = 0;
    check_statistics<T>(values, type, Start::unaligned);
  });
  const std::vector<double> large(5000, 1e308);  // whose sum is beyond fp64
  Statistics of_large;
  cuda::add_statistics<double>(large.data(), 5000, &of_large);
  check_near(numbers(of_large), {5000, 0, 0, 0, 1e308, 1e308, 1e308, 0}, 1e-12, "large values");
}

BOOST_AUTO_TEST_SUITE_END()
