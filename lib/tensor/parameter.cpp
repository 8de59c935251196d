#include "tensor/parameter.hpp"

#include "base/error.hpp"
#include "tensor/unit.hpp"

namespace lockstep {

Parameter::Parameter(Unit& unit, LogicalTensor description, ParameterPlace place)
    : unit_(&unit),
      description_(std::move(description)),
      place_(std::move(place)),
      shape_(place_.part.extent),
      elements_(lockstep::elements(place_.part)) {
  if (description_.view.empty()) return;
  // The last dimension of a tensor that is cut by a view of it stands for the rest of the view's.
  shape_.resize(description_.shape.size(), 1);
  shape_.back() = 1;
  std::int64_t before = 1;
  for (std::size_t dim = 0; dim + 1 < shape_.size(); ++dim) before *= shape_[dim];
  shape_.back() = before == 0 ? 0 : elements_ / before;
}

Parameter::Accumulation Parameter::touch() {
  invariant(is_trained(), "a frozen parameter has no gradient");
  return {local_gradient_, touches_++ == 0 ? 0.0 : 1.0};
}

void Parameter::accumulate(const at::Tensor& contribution) {
  invariant(contribution.sizes() == at::IntArrayRef(shape()), "a gradient has the shape of its parameter");
  const Accumulation target = touch();
  if (target.beta == 0) {
    target.gradient.copy_(contribution);
  } else {
    target.gradient.add_(contribution);
  }
}

}  // namespace lockstep
