#include "layout/shape.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace lockstep {

std::int64_t elements(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::string to_text(const Shape& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

Box whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

Box nothing(const Shape& shape) {
  const std::size_t dims = std::max<std::size_t>(shape.size(), 1);
  return {Shape(dims, 0), Shape(dims, 0)};
}

std::int64_t elements(const Box& box) { return elements(box.extent); }

bool empty(const Box& box) { return std::find(box.extent.begin(), box.extent.end(), 0) != box.extent.end(); }

Box intersect(const Box& a, const Box& b) {
  if (a.extent.size() != b.extent.size()) {
    if (empty(a)) return a;
    invariant(empty(b), "intersected boxes have the same number of dimensions");
    return b;
  }
  Box result = a;
  for (std::size_t dim = 0; dim < a.extent.size(); ++dim) {
    const std::int64_t begin = std::max(a.begin[dim], b.begin[dim]);
    const std::int64_t end = std::min(a.begin[dim] + a.extent[dim], b.begin[dim] + b.extent[dim]);
    result.begin[dim] = begin;
    result.extent[dim] = std::max<std::int64_t>(end - begin, 0);
  }
  return result;
}

bool contains(const Box& outer, const Box& inner) {
  if (empty(inner)) return true;
  if (outer.extent.size() != inner.extent.size()) return false;
  for (std::size_t dim = 0; dim < outer.extent.size(); ++dim) {
    if (inner.begin[dim] < outer.begin[dim]) return false;
    if (inner.begin[dim] + inner.extent[dim] > outer.begin[dim] + outer.extent[dim]) return false;
  }
  return true;
}

std::string to_text(const Box& box) {
  std::string text = "[";
  for (std::size_t dim = 0; dim < box.extent.size(); ++dim)
    text += fmt::format("{}{}:{}", dim == 0 ? "" : ", ", box.begin[dim], box.begin[dim] + box.extent[dim]);
  return text + "]";
}

}  // namespace lockstep
