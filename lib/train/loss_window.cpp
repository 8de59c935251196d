#include "train/loss_window.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

namespace lockstep {

void LossWindow::add(double loss) {
  if (std::isfinite(loss)) losses_[added_++ % capacity] = loss;
}

std::optional<double> LossWindow::limit() const {
  if (added_ < least) return std::nullopt;
  const std::span known = std::span(losses_).first(std::min(added_, capacity));
  const auto count = static_cast<double>(known.size());
  const double mean = std::accumulate(known.begin(), known.end(), 0.0) / count;
  const double squares = std::transform_reduce(known.begin(), known.end(), 0.0, std::plus<>(),
                                               [mean](double x) { return (x - mean) * (x - mean); });
  return mean + deviations * std::sqrt(squares / count);
}

}  // namespace lockstep
