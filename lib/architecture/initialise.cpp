#include "architecture/initialise.hpp"

#include "base/error.hpp"
#include "base/random.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// Calls run(first, count, offset) for each contiguous run of the box: global index of its first element, length, place in the output.
template <class Run>
void for_each_run(const Shape& shape, const Box& box, Run run) {
  if (empty(box)) return;
  if (shape.empty()) return run(std::uint64_t{0}, std::size_t{1}, std::size_t{0});
  const std::size_t last = shape.size() - 1;
  const auto count = static_cast<std::size_t>(box.extent[last]);
  Shape position = box.begin;
  for (std::size_t offset = 0;; offset += count) {
    std::uint64_t index = 0;
    for (std::size_t dim = 0; dim <= last; ++dim) {
      index = index * static_cast<std::uint64_t>(shape[dim]) + static_cast<std::uint64_t>(position[dim]);
    }
    run(index, count, offset);
    std::size_t dim = last;
    while (dim > 0 && ++position[dim - 1] == box.begin[dim - 1] + box.extent[dim - 1]) {
      position[dim - 1] = box.begin[dim - 1];
      --dim;
    }
    if (dim == 0) return;
  }
}

template <class Number>
void fill(const LogicalTensor& tensor, std::uint64_t seed, const Box& box, std::span<Number> out) {
  invariant(contains(whole(tensor.shape), box) && static_cast<std::int64_t>(out.size()) == elements(box), "initial values of a box inside the tensor");
  switch (tensor.initial.kind) {
    case Initial::Kind::zeros: std::fill(out.begin(), out.end(), Number{0}); return;
    case Initial::Kind::ones: std::fill(out.begin(), out.end(), Number{1}); return;
    case Initial::Kind::normal: break;
  }
  const RandomStream stream(seed, "initial " + tensor.name);
  for_each_run(tensor.shape, box, [&](std::uint64_t first, std::size_t count, std::size_t offset) {
    for (std::size_t i = 0; i < count; ++i) out[offset + i] = static_cast<Number>(tensor.initial.std * stream.normal(first + i));
  });
}

}  // namespace

void initialise(const LogicalTensor& tensor, std::uint64_t seed, const Box& box, std::span<float> out) { fill(tensor, seed, box, out); }
void initialise(const LogicalTensor& tensor, std::uint64_t seed, const Box& box, std::span<double> out) { fill(tensor, seed, box, out); }

}  // namespace lockstep
