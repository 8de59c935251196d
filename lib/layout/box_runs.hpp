// These functions walk a region that lies in two row-major arrays at once, run by run, as copying between pieces and
// fingerprints need it.
#pragma once

#include "layout/shape.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Consecutive elements in both arrays: `length` elements from `in_a` of the array that holds box a, and from `in_b` of
/// the one of b.
struct BoxRun {
  std::int64_t in_a = 0;
  std::int64_t in_b = 0;
  std::int64_t length = 0;
};

/// Calls `visit` for each run of `region`, in row-major order, with runs as long as both boxes allow. `region` lies in
/// both.
void for_each_run(const Box& region, const Box& a, const Box& b, const std::function<void(const BoxRun&)>& visit);

/// The runs of elements that `part` of box `a` of a tensor that is seen as `as_a` has in common with box `b` of it seen
/// as `as_b`, in their order, which views share. Both shapes have as many elements. Pure.
std::vector<BoxRun> runs_between(const Box& part, const Box& a, const Shape& as_a, const Box& b, const Shape& as_b);

/// True if a box that was read from a file is one of a tensor of this shape: as many dimensions, nothing negative,
/// nothing outside. Of a scalar also the empty box nothing(). Pure; overflows nowhere.
bool lies_in(const Box& box, const Shape& global);

/// The box of a tensor of shape `to` whose elements, in order, are those of `box` where the tensor is seen as `from`;
/// nothing if no box is. Both shapes have as many elements, and the box is one of `from`. Takes time for each run.
std::optional<Box> box_in_view(const Box& box, const Shape& from, const Shape& to);

/// Cuts a box of a tensor that is seen as `from` into parts, along one dimension after the other, until each is a box
/// where it is seen as `to`: calls `visit` with the part and that box. Their elements have the same order.
void for_each_box_in_view(const Box& box, const Shape& from, const Shape& to,
                          const std::function<void(const Box& part, const Box& seen)>& visit);

/// The rows of a tensor of shape `to` that have all elements of a box of it, where it is seen as `from`; all of a
/// scalar. The box is not empty. Pure.
Box rows_in_view(const Box& box, const Shape& from, const Shape& to);

/// The smallest box that has the elements [first, first + count) of `box`, in row-major order. Count is 1 or more.
/// Pure.
Box box_around(const Box& box, std::int64_t first, std::int64_t count);

/// The rows [first, first + count) of dim 0 of a box of rank 1 or more.
Box rows_of(const Box& box, std::int64_t first, std::int64_t count);

/// The box as part of a dataset's path: "0:3,4:8"; "scalar" for a scalar.
std::string path_text(const Box& box);

}  // namespace lockstep
