// Walks a region that is stored in two row-major arrays at once, run by run. Copies between pieces and fingerprints use
// it.
#pragma once

#include "layout/shape.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A run of elements that is contiguous in both arrays: `length` elements, from index in_a of the array that holds box
/// a and from in_b of the one that holds box b.
struct BoxRun {
  std::int64_t in_a = 0;
  std::int64_t in_b = 0;
  std::int64_t length = 0;
};

/// Calls `visit` for each run of `region`, in row-major order, with runs as long as both boxes allow. `region` lies in
/// both boxes.
void for_each_run(const Box& region, const Box& a, const Box& b, const std::function<void(const BoxRun&)>& visit);

/// Returns the runs of elements that two boxes of one tensor have in common: `part` of box `a`, in the view of shape
/// `as_a`, and box `b`, in the view of shape `as_b`. Both shapes have the same number of elements, in the same order.
/// Pure.
std::vector<BoxRun> runs_between(const Box& part, const Box& a, const Shape& as_a, const Box& b, const Shape& as_b);

/// True if a box that was read from a file lies in a tensor of this shape: the same number of dimensions, nothing
/// negative, nothing outside. The empty box nothing() is also valid, for a scalar too. Pure; never overflows.
bool lies_in(const Box& box, const Shape& global);

/// Converts a box between two views of a tensor: the box of the view `to` with the elements of `box` of the view
/// `from`, in the same order; nullopt if they form no box. Both shapes have the same number of elements. Takes time for
/// each run.
std::optional<Box> box_in_view(const Box& box, const Shape& from, const Shape& to);

/// Splits a box of the view `from` into parts that are boxes in the view `to`, along one dimension after the other.
/// Calls `visit` with each part and its box in `to`; their elements have the same order.
void for_each_box_in_view(const Box& box, const Shape& from, const Shape& to,
                          const std::function<void(const Box& part, const Box& seen)>& visit);

/// Returns the rows of the view `to` that cover all elements of a box of the view `from`; everything for a scalar. The
/// box is not empty. Pure.
Box rows_in_view(const Box& box, const Shape& from, const Shape& to);

/// Returns the smallest box that covers the elements [first, first + count) of `box`, in row-major order. Count is 1 or
/// more. Pure.
Box box_around(const Box& box, std::int64_t first, std::int64_t count);

/// Returns the rows [first, first + count) of dim 0 of a box of rank 1 or more.
Box rows_of(const Box& box, std::int64_t first, std::int64_t count);

/// The box as part of a dataset's path: "0:3,4:8"; "scalar" for a scalar.
std::string path_text(const Box& box);

}  // namespace lockstep
