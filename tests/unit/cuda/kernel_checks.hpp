// Memory and comparisons for tests of kernels.
#pragma once

#include "cuda_on_host/grid.hpp"
#include "tensor/kernels/number.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

template <class T>
T rounded(double value) {
  T result;
  store(result, static_cast<Math<T>>(value));
  return result;
}

/// Where values lie in memory: on a border of 16 bytes, or one element behind one.
enum class Start { aligned, unaligned };

/// Exactly as many values as a kernel may touch, NaN at first.
template <class T>
class Values {
 public:
  explicit Values(std::int64_t count, Start start = Start::aligned)
      : count_(count), offset_(start == Start::aligned ? 0 : sizeof(T)), bytes_(offset_ + size()) {
    std::fill(bytes_.begin(), bytes_.end(), std::byte{0xff});
  }
  Values(const std::vector<double>& values, Start start = Start::aligned)
      : Values(static_cast<std::int64_t>(values.size()), start) {
    for (std::int64_t i = 0; i < count_; ++i) {
      if constexpr (std::is_integral_v<T>)
        data()[i] = static_cast<T>(values[static_cast<std::size_t>(i)]);
      else
        data()[i] = rounded<T>(values[static_cast<std::size_t>(i)]);
    }
  }

  T* data() { return reinterpret_cast<T*>(bytes_.data() + offset_); }
  std::int64_t count() const { return count_; }
  double operator[](std::int64_t i) const {
    const T value = reinterpret_cast<const T*>(bytes_.data() + offset_)[i];
    if constexpr (std::is_integral_v<T>)
      return static_cast<double>(value);
    else
      return static_cast<double>(load(value));
  }
  std::vector<double> all() const {
    std::vector<double> values;
    for (std::int64_t i = 0; i < count_; ++i) values.push_back((*this)[i]);
    return values;
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(count_) * sizeof(T); }
  std::int64_t count_;
  std::size_t offset_;
  std::vector<std::byte> bytes_;
};

inline std::vector<double> normal_values(std::int64_t count, std::uint32_t seed, double deviation = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = normal(generator);
  return values;
}

/// The relative error of a value that is rounded to T, and of some sums before.
template <class T>
constexpr double rounding = std::is_same_v<T, double>  ? 1e-12
                            : std::is_same_v<T, float> ? 4e-6
                            : std::is_same_v<T, Bf16>  ? 0.004
                                                       : 0.0006;

inline bool near(double actual, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::abs(actual - expected) <= tolerance * (1 + std::abs(expected));
}

/// Checks that each value is within `tolerance` times 1 + |expected|.
inline void check_near(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance,
                       const std::string& what) {
  BOOST_REQUIRE_EQUAL(actual.size(), expected.size());
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = actual.size(); i-- > 0;) {
    if (near(actual[i], expected[i], tolerance)) continue;
    ++wrong;
    first = i;
  }
  BOOST_CHECK_MESSAGE(wrong == 0, what << ": " << wrong << " of " << actual.size() << " values are wrong, the first ["
                                       << first << "]: " << actual[first] << " instead of " << expected[first]);
}

using Results = std::vector<std::vector<double>>;

/// The results of `run` in one order of threads and blocks. Checks that another order has the same bits.
inline Results in_any_order(const std::function<Results()>& run) {
  on_host::draw_orders(1);
  const Results first = run();
  on_host::draw_orders(2);
  const Results second = run();
  BOOST_REQUIRE_EQUAL(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i)
    BOOST_CHECK_MESSAGE(std::memcmp(first[i].data(), second[i].data(), first[i].size() * sizeof(double)) == 0,
                        "result " << i << " depends on the order of threads");
  return first;
}

/// Calls body.operator()<T>(name) for each storage type.
template <class Body>
void for_each_type(const Body& body) {
  body.template operator()<float>(std::string("fp32"));
  body.template operator()<double>(std::string("fp64"));
  body.template operator()<Bf16>(std::string("bf16"));
  body.template operator()<Fp16>(std::string("fp16"));
}

}  // namespace lockstep::test
