// Elements of any type as numbers, for looking at them: exact except for 64-bit integers beyond 2^53. Nothing is
// computed with these.
#pragma once

#include "layout/dtype.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

/// The value of the element at the beginning of `bytes`. Bytes of fp8 follow the OCP formats E4M3 (no infinity) and
/// E5M2.
double value_of(DType dtype, std::span<const std::byte> bytes);

/// Least, greatest, mean and deviation of numbers that come one by one, and how many are not finite (they count in
/// nothing else).
class Statistics {
 public:
  void add(double value);
  std::int64_t finite() const { return finite_; }
  std::int64_t nan() const { return nan_; }
  std::int64_t infinite() const { return infinite_; }
  std::int64_t zeros() const { return zeros_; }
  double min() const { return min_; }  // of finite values; 0 without any, as are the next three
  double max() const { return max_; }
  double mean() const { return mean_; }
  double deviation() const;  // of the population

 private:
  std::int64_t finite_ = 0;
  std::int64_t nan_ = 0;
  std::int64_t infinite_ = 0;
  std::int64_t zeros_ = 0;
  double min_ = 0;
  double max_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of squared distances from the mean (Welford)
};

}  // namespace lockstep
