// How two copies of the same state differ, as people are told: the first place in values, the elements of a tensor.
// Who holds which copy: checkpoint/sides.hpp.
#pragma once

#include "base/json_fwd.hpp"
#include "layout/dtype.hpp"
#include "layout/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lockstep {

/// The first value that differs, with its path: "schedule.last_lr[2] is 0.1 against 0.2"; empty if all are equal. Pure.
std::string first_difference(const Json& one, const Json& other);

/// The elements that differ between two copies of boxes of one tensor, which come in parts.
class ElementDifferences {
 public:
  explicit ElementDifferences(DType dtype) : dtype_(dtype) {}
  /// Elements [first, first + n) of `box`, in row-major order, of both copies: as many bytes of each.
  void add(const Box& box, std::int64_t first, std::span<const std::byte> one, std::span<const std::byte> other);
  /// "3 of 40 elements, the first at (2, 7): 0.5 against 0.25, by at most 0.25"; where a side is NaN that is counted,
  /// and is no distance.
  std::string text() const;

 private:
  DType dtype_;
  std::int64_t looked_at_ = 0;
  std::int64_t different_ = 0;
  std::int64_t no_numbers_ = 0;  // of these: NaN on a side
  double most_ = 0;              // distance of two numbers
  std::string first_;            // place and values
};

}  // namespace lockstep
