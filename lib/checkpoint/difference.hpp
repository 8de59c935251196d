// Text for messages about two copies of the same state that differ: the first difference in values, and the elements
// that differ in a tensor. Which ranks hold which copy: checkpoint/sides.hpp.
#pragma once

#include "base/json_fwd.hpp"
#include "layout/dtype.hpp"
#include "layout/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lockstep {

/// Returns the first value that differs, with its path: "schedule.last_lr[2] is 0.1 against 0.2"; empty if all are
/// equal. Pure.
std::string first_difference(const Json& one, const Json& other);

/// Counts the elements that differ between two copies of boxes of one tensor. The copies are added in parts.
class ElementDifferences {
 public:
  explicit ElementDifferences(DType dtype) : dtype_(dtype) {}
  /// Adds elements [first, first + n) of `box`, in row-major order, from both copies; both spans have n elements.
  void add(const Box& box, std::int64_t first, std::span<const std::byte> one, std::span<const std::byte> other);
  /// Returns "3 of 40 elements, the first at (2, 7): 0.5 against 0.25, by at most 0.25". Elements with NaN on one side
  /// are counted separately and do not enter the distance.
  std::string text() const;

 private:
  DType dtype_;
  std::int64_t looked_at_ = 0;
  std::int64_t different_ = 0;
  std::int64_t no_numbers_ = 0;  // of the different ones: NaN on one side
  double most_ = 0;              // largest distance of two numbers
  std::string first_;            // place and values of the first difference
};

}  // namespace lockstep
