#include "optim/gradient_norm.hpp"

#include "optim/adamw_kernel.hpp"

#include <algorithm>

namespace lockstep {

double squared_norm(const Unit& unit, int part, int parts) {
  const std::int64_t begin = unit.length() * part / parts, end = unit.length() * (part + 1) / parts;
  if (unit.precision() == Precision::fp64)
    return sum_of_squares<double>(values_of<double>(unit.gradient()).data() + begin, end - begin);
  return sum_of_squares<float>(values_of<float>(unit.gradient()).data() + begin, end - begin);
}

double clip_factor(double norm, std::optional<double> max_norm) {
  return max_norm ? std::min(1.0, *max_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace lockstep
