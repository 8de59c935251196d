#include "tensor/kernels/statistics_kernel.hpp"

#include "quant/float16.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

BOOST_AUTO_TEST_SUITE(statistics_kernel)

using namespace lockstep;

namespace {

template <class T>
T stored(double value) {
  T result;
  store(result, static_cast<Math<T>>(value));
  return result;
}

/// One value after the other, in extended precision.
template <class T>
void expect_brute_force(const std::vector<T>& values) {
  long double sum = 0, squares = 0;
  std::int64_t finite = 0, nan = 0, infinite = 0, zeros = 0;
  double least = std::numeric_limits<double>::infinity(), greatest = -least;
  for (const T& each : values) {
    const auto value = static_cast<double>(load(each));
    if (std::isnan(value)) ++nan;
    if (std::isinf(value)) ++infinite;
    if (!std::isfinite(value)) continue;
    ++finite;
    zeros += value == 0 ? 1 : 0;
    sum += value;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  const long double mean = finite == 0 ? 0 : sum / static_cast<long double>(finite);
  for (const T& each : values) {
    const auto value = static_cast<double>(load(each));
    if (std::isfinite(value)) squares += (value - mean) * (value - mean);
  }
  const Statistics got = statistics_of(values.data(), static_cast<std::int64_t>(values.size()));
  BOOST_TEST((got.finite == finite && got.nan == nan && got.infinite == infinite && got.zeros == zeros));
  if (finite == 0) return;
  BOOST_TEST((got.min == least && got.max == greatest));
  BOOST_TEST(std::abs(got.mean - static_cast<double>(mean)) <= 1e-14 * (greatest - least) + 1e-15 * std::abs(got.mean));
  BOOST_TEST(std::abs(got.squares - static_cast<double>(squares)) <= 1e-13 * static_cast<double>(squares));
}

template <class T>
void expect_brute_force_of_many() {
  for (const std::int64_t count : {0, 1, 7, 4095, 4096, 4097, 50000}) {
    std::vector<T> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(stored<T>(i % 5 == 0 ? 0 : 3 + std::sin(static_cast<double>(i))));
    expect_brute_force(values);
    if (count < 7) continue;
    values[static_cast<std::size_t>(count) - 1] = stored<T>(std::numeric_limits<double>::quiet_NaN());
    values[static_cast<std::size_t>(count) / 2] = stored<T>(-std::numeric_limits<double>::infinity());
    expect_brute_force(values);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_of_each_type_come_to_what_they_come_to_one_by_one) {
  expect_brute_force_of_many<double>();
  expect_brute_force_of_many<float>();
  expect_brute_force_of_many<Bf16>();
  expect_brute_force_of_many<Fp16>();
}

BOOST_AUTO_TEST_CASE(values_whose_sum_is_beyond_the_type_are_finite) {
  const std::vector<double> values(5000, 1.7e308);
  const Statistics got = statistics_of(values.data(), std::ssize(values));
  BOOST_TEST((got.finite == 5000 && got.infinite == 0 && got.max == 1.7e308));
  BOOST_TEST(std::abs(got.mean - 1.7e308) <= 1e-12 * 1.7e308);
}

BOOST_AUTO_TEST_SUITE_END()
