// Shapes of tensors, and boxes: half-open regions of a tensor. Files, ranks and requests name parts of tensors by them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

using Shape = std::vector<std::int64_t>;  // () is a scalar with one element

std::int64_t elements(const Shape& shape);
std::string to_text(const Shape& shape);  // "(3, 4)"

/// A half-open region [begin, begin + extent) of a logical tensor; may be empty.
struct Box {
  Shape begin;
  Shape extent;
  bool operator==(const Box&) const = default;
};

Box whole(const Shape& shape);  // the box of all elements
/// The box without elements: all extents 0. A scalar has no extent, so its empty box has one: [0:0].
Box nothing(const Shape& shape);
std::int64_t elements(const Box& box);
bool empty(const Box& box);
Box intersect(const Box& a, const Box& b);  // of equal rank (or one is empty); empty extents are 0, never negative
bool contains(const Box& outer, const Box& inner);  // an empty box is inside every box
std::string to_text(const Box& box);                // "[0:3, 4:8]"

}  // namespace lockstep
