// Statistics of the error of decoded values against the originals, accumulated piece by piece in fp64.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep {

struct ErrorStatistics {
  std::int64_t count = 0;
  double max_abs = 0;           // largest |decoded - original|
  double squared_error = 0;     // Σ (decoded - original)²
  double squared_original = 0;  // Σ original²

  /// Adds another piece; spans of equal length.
  void add(std::span<const float> original, std::span<const float> decoded);
  void add(const ErrorStatistics& other);
  /// ‖decoded - original‖ / ‖original‖; 0 for equal values, infinite if only the original is zero.
  double relative_l2() const;
  /// Signal to quantisation noise in dB, -20·log10 of relative_l2; infinite for equal values.
  double sqnr_db() const;
};

}  // namespace lockstep
