#include "quant/error_statistics.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {

void ErrorStatistics::add(std::span<const float> original, std::span<const float> decoded) {
  invariant(original.size() == decoded.size(), "compared spans have equal length");
  for (std::size_t i = 0; i < original.size(); ++i) {
    const double value = static_cast<double>(original[i]);
    const double error = static_cast<double>(decoded[i]) - value;
    max_abs = std::max(max_abs, std::abs(error));
    squared_error += error * error;
    squared_original += value * value;
  }
  count += static_cast<std::int64_t>(original.size());
}

void ErrorStatistics::add(const ErrorStatistics& other) {
  count += other.count;
  max_abs = std::max(max_abs, other.max_abs);
  squared_error += other.squared_error;
  squared_original += other.squared_original;
}

double ErrorStatistics::relative_l2() const {
  if (squared_error == 0) return 0;
  if (squared_original == 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(squared_error / squared_original);
}

double ErrorStatistics::sqnr_db() const { return -20 * std::log10(relative_l2()); }

}  // namespace lockstep
