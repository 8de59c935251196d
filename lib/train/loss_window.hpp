// The recent losses of a run, and what is out of line with them: spikes are told of, never acted upon.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace lockstep {

class LossWindow {
 public:
  static constexpr std::size_t capacity = 100;  // losses remembered
  static constexpr std::size_t least = 20;      // before so many are known, nothing is out of line
  static constexpr int deviations = 6;

  /// Remembers a finite loss in place of the oldest; a spike counts like any other, so that a lasting rise is told of
  /// once. Local.
  void add(double loss);
  /// mean + 6 σ of the remembered losses (σ of the population: Σ (x − mean)² / n); nothing while they are too few.
  /// Local.
  std::optional<double> limit() const;

 private:
  std::array<double, capacity> losses_{};
  std::size_t added_ = 0;  // ever
};

}  // namespace lockstep
