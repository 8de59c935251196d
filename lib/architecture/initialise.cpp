#include "architecture/initialise.hpp"

#include "base/error.hpp"
#include "base/random.hpp"
#include "layout/box_runs.hpp"

#include <algorithm>

namespace lockstep {

namespace {

template <class Number>
void fill(const LogicalTensor& tensor, std::uint64_t seed, const Box& box, std::span<Number> out) {
  invariant(contains(whole(view_of(tensor)), box) && static_cast<std::int64_t>(out.size()) == elements(box),
            "the box of initial values lies inside the tensor");
  switch (tensor.initial.kind) {
    case Initial::Kind::zeros: std::fill(out.begin(), out.end(), Number{0}); return;
    case Initial::Kind::ones: std::fill(out.begin(), out.end(), Number{1}); return;
    case Initial::Kind::normal: break;
  }
  const RandomStream stream(seed, "initial " + tensor.name);
  for_each_run(box, whole(view_of(tensor)), box, [&](const BoxRun& run) {
    const auto first = static_cast<std::uint64_t>(run.in_a);
    const std::span values = out.subspan(static_cast<std::size_t>(run.in_b), static_cast<std::size_t>(run.length));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<Number>(tensor.initial.std * stream.normal(first + i));
  });
}

}  // namespace

void initialise(const LogicalTensor& tensor, std::uint64_t seed, const Box& box, std::span<float> out) {
  fill(tensor, seed, box, out);
}
void initialise(const LogicalTensor& tensor, std::uint64_t seed, const Box& box, std::span<double> out) {
  fill(tensor, seed, box, out);
}

}  // namespace lockstep
