#include "base/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

void Statistics::add(double value) {
  if (std::isnan(value)) {
    ++nan;
  } else if (std::isinf(value)) {
    ++infinite;
  } else {
    min = finite == 0 ? value : std::min(min, value);
    max = finite == 0 ? value : std::max(max, value);
    zeros += value == 0 ? 1 : 0;
    ++finite;
    const double distance = value - mean;
    mean += distance / static_cast<double>(finite);
    squares += distance * (value - mean);
  }
}

void Statistics::add(const Statistics& other) {
  nan += other.nan;
  infinite += other.infinite;
  if (other.finite == 0) return;
  min = finite == 0 ? other.min : std::min(min, other.min);
  max = finite == 0 ? other.max : std::max(max, other.max);
  zeros += other.zeros;
  const auto before = static_cast<double>(finite), more = static_cast<double>(other.finite), all = before + more;
  const double distance = other.mean - mean;
  mean += distance * (more / all);
  squares += other.squares + distance * distance * (before * more / all);
  finite += other.finite;
}

void Statistics::scale(double factor) {
  min *= factor;
  max *= factor;
  mean *= factor;
  squares *= factor * factor;
}

double Statistics::deviation() const { return finite == 0 ? 0 : std::sqrt(squares / static_cast<double>(finite)); }

double Statistics::norm() const { return std::sqrt(squares + static_cast<double>(finite) * mean * mean); }

}  // namespace lockstep
