// The recent losses of a run, and the limit above which a loss is a spike. Spikes are only reported. A lasting rise:
// train/divergence.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace lockstep {

class LossWindow {
 public:
  static constexpr std::size_t capacity = 100;  // losses remembered
  static constexpr std::size_t least = 20;      // with fewer losses there is no limit
  static constexpr int deviations = 6;

  /// Remembers a finite loss in place of the oldest. A spike is remembered like any other loss, so a lasting rise is
  /// reported only once. Local.
  void add(double loss);
  /// Returns mean + 6 σ of the remembered losses (σ of the population: Σ (x − mean)² / n); nothing if they are too few.
  /// Local.
  std::optional<double> limit() const;

 private:
  std::array<double, capacity> losses_{};
  std::size_t added_ = 0;  // ever
};

}  // namespace lockstep
