// How numbers spread: least, greatest, mean, deviation and norm, of numbers that come one by one or of parts that are
// put together.
#pragma once

#include <cstdint>

namespace lockstep {

/// Numbers that are not finite are counted, and count in nothing else.
struct Statistics {
  std::int64_t finite = 0;
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
  std::int64_t zeros = 0;
  double min = 0;  // of finite values; 0 without any, as are the next two
  double max = 0;
  double mean = 0;
  double squares = 0;  // Σ (value − mean)²

  void add(double value);
  /// Takes in another part, however far apart the means are (Chan, Golub and LeVeque, "Updating formulae and a pairwise
  /// algorithm for computing sample variances", 1979).
  void add(const Statistics& other);
  /// As if each value had been multiplied with a factor above 0.
  void scale(double factor);
  double deviation() const;  // of the population; 0 without finite values
  double norm() const;       // √Σ value²
};

}  // namespace lockstep
