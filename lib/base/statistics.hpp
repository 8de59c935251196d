// Statistics of numbers: minimum, maximum, mean, deviation and norm. Numbers are added one by one, or parts are merged.
// Statistics of tensors: optim/tensor_statistics.hpp.
#pragma once

#include <cstdint>

namespace lockstep {

/// Numbers that are not finite are counted; the other statistics exclude them.
struct Statistics {
  std::int64_t finite = 0;
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
  std::int64_t zeros = 0;
  double min = 0;  // of finite values; 0 if there are none, like max and mean
  double max = 0;
  double mean = 0;
  double squares = 0;  // Σ (value − mean)²

  void add(double value);
  /// Merges another part; accurate for any means of the two (Chan, Golub and LeVeque, "Updating formulae and a pairwise
  /// algorithm for computing sample variances", 1979).
  void add(const Statistics& other);
  /// Multiplies each value by a factor above 0.
  void scale(double factor);
  double deviation() const;  // of the population; 0 without finite values
  double norm() const;       // √Σ value²
};

}  // namespace lockstep
