#include "layout/box_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep {

void for_each_run(const Box& region, const Box& a, const Box& b, const std::function<void(const BoxRun&)>& visit) {
  const std::size_t dims = region.extent.size();
  std::int64_t length = elements(region);
  if (length == 0) return;
  if (dims == 0) return visit({0, 0, 1});

  Shape stride_a(dims, 1);
  Shape stride_b(dims, 1);
  for (std::size_t d = dims - 1; d > 0; --d) {
    stride_a[d - 1] = stride_a[d] * a.extent[d];
    stride_b[d - 1] = stride_b[d] * b.extent[d];
  }
  std::size_t outer = dims - 1;  // dims [outer, end) make one run: all after the first of them are whole in both boxes
  while (outer > 0 && region.extent[outer] == a.extent[outer] && region.extent[outer] == b.extent[outer]) --outer;
  std::int64_t run = 1;
  for (std::size_t d = outer; d < dims; ++d) run *= region.extent[d];

  Shape at(outer, 0);  // the position of the run within the region, over the outer dims
  std::int64_t in_a = 0;
  std::int64_t in_b = 0;
  for (std::size_t d = 0; d < dims; ++d) {
    in_a += (region.begin[d] - a.begin[d]) * stride_a[d];
    in_b += (region.begin[d] - b.begin[d]) * stride_b[d];
  }
  for (; length > 0; length -= run) {
    visit({in_a, in_b, run});
    for (std::size_t d = outer; d-- > 0;) {
      in_a += stride_a[d];
      in_b += stride_b[d];
      if (++at[d] < region.extent[d]) break;
      in_a -= at[d] * stride_a[d];
      in_b -= at[d] * stride_b[d];
      at[d] = 0;
    }
  }
}

std::vector<BoxRun> runs_between(const Box& part, const Box& a, const Shape& as_a, const Box& b, const Shape& as_b) {
  std::vector<BoxRun> common;
  if (as_a == as_b) {
    for_each_run(intersect(part, b), a, b, [&](const BoxRun& run) { common.push_back(run); });
    return common;
  }
  std::vector<BoxRun> places_in_a, runs_of_b;  // a: the whole tensor
  for_each_run(part, a, whole(as_a),
               [&](const BoxRun& run) { places_in_a.push_back({run.in_b, run.in_a, run.length}); });
  for_each_run(b, whole(as_b), b, [&](const BoxRun& run) { runs_of_b.push_back(run); });
  auto next = runs_of_b.begin();
  for (const BoxRun& run : places_in_a) {
    const std::int64_t end = run.in_a + run.length;
    while (next != runs_of_b.end() && next->in_a + next->length <= run.in_a) ++next;
    for (auto it = next; it != runs_of_b.end() && it->in_a < end; ++it) {
      const std::int64_t from = std::max(run.in_a, it->in_a), to = std::min(end, it->in_a + it->length);
      common.push_back({run.in_b + from - run.in_a, it->in_b + from - it->in_a, to - from});
    }
  }
  return common;
}

bool lies_in(const Box& box, const Shape& global) {
  if (box == nothing(global)) return true;
  if (box.begin.size() != global.size() || box.extent.size() != global.size()) return false;
  for (std::size_t d = 0; d < global.size(); ++d) {
    const bool inside = box.begin[d] >= 0 && box.begin[d] <= global[d] && box.extent[d] >= 0 &&
                        box.extent[d] <= global[d] - box.begin[d];
    if (!inside) return false;
  }
  return true;
}

namespace {

// Its elements as stretches [first, second) of the row-major tensor, with something between any two.
std::vector<std::pair<std::int64_t, std::int64_t>> stretches_of(const Box& box, const Shape& global) {
  std::vector<std::pair<std::int64_t, std::int64_t>> stretches;
  for_each_run(box, whole(global), box, [&](const BoxRun& run) {
    if (stretches.empty() || stretches.back().second != run.in_a) stretches.emplace_back(run.in_a, run.in_a);
    stretches.back().second = run.in_a + run.length;
  });
  return stretches;
}

Shape place_of(std::int64_t element, const Shape& global) {
  Shape place(global.size(), 0);
  for (std::size_t d = global.size(); d-- > 0; element /= global[d]) place[d] = element % global[d];
  return place;
}

}  // namespace

// A box is given by its first and its last element; whether it is the one depends on those between.
std::optional<Box> box_in_view(const Box& box, const Shape& from, const Shape& to) {
  if (from == to) return box;
  if (empty(box)) return nothing(to);
  const auto stretches = stretches_of(box, from);
  Box view{place_of(stretches.front().first, to), place_of(stretches.back().second - 1, to)};
  for (std::size_t d = 0; d < to.size(); ++d) {
    view.extent[d] += 1 - view.begin[d];
    if (view.extent[d] <= 0) return std::nullopt;
  }
  if (elements(view) != elements(box) || stretches_of(view, to) != stretches) return std::nullopt;
  return view;
}

// Best along the dimension whose slices are boxes already; a slice along all of them is an element, and one.
void for_each_box_in_view(const Box& box, const Shape& from, const Shape& to,
                          const std::function<void(const Box& part, const Box& seen)>& visit) {
  if (empty(box)) return;
  if (const auto seen = box_in_view(box, from, to)) return visit(box, *seen);
  const auto slice = [&](std::size_t dim, std::int64_t at) {
    Box part = box;
    part.begin[dim] += at;
    part.extent[dim] = 1;
    return part;
  };
  std::optional<std::size_t> along;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (box.extent[d] == 1) continue;
    if (!along) along = d;
    if (!box_in_view(slice(d, 0), from, to)) continue;
    along = d;
    break;
  }
  for (std::int64_t i = 0; i < box.extent[*along]; ++i) for_each_box_in_view(slice(*along, i), from, to, visit);
}

Box rows_in_view(const Box& box, const Shape& from, const Shape& to) {
  if (to.empty()) return whole(to);
  std::int64_t begin = 0, last = 0;  // of the elements, in their order
  for (std::size_t dim = 0; dim < from.size(); ++dim) {
    begin = begin * from[dim] + box.begin[dim];
    last = last * from[dim] + box.begin[dim] + box.extent[dim] - 1;
  }
  const std::int64_t row = elements(to) / to[0];
  return rows_of(whole(to), begin / row, last / row + 1 - begin / row);
}

Box box_around(const Box& box, std::int64_t first, std::int64_t count) {
  Box around = box;
  std::int64_t row = elements(box);
  for (std::size_t dim = 0; dim < box.extent.size(); ++dim) {
    row /= box.extent[dim];
    const std::int64_t begin = first / row, end = (first + count - 1) / row + 1;
    around.begin[dim] = box.begin[dim] + begin;
    around.extent[dim] = end - begin;
    if (end - begin > 1) break;
    first -= begin * row;
  }
  return around;
}

Box rows_of(const Box& box, std::int64_t first, std::int64_t count) {
  Box rows = box;
  rows.begin[0] += first;
  rows.extent[0] = count;
  return rows;
}

std::string path_text(const Box& box) {
  if (box.extent.empty()) return "scalar";
  std::string text;
  for (std::size_t d = 0; d < box.extent.size(); ++d) {
    text += fmt::format("{}{}:{}", d == 0 ? "" : ",", box.begin[d], box.begin[d] + box.extent[d]);
  }
  return text;
}

}  // namespace lockstep
