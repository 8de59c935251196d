#include "tensor/parameter.hpp"

#include "base/error.hpp"
#include "tensor/unit.hpp"

namespace lockstep {

Parameter::Parameter(Unit& unit, LogicalTensor description, ParameterPlace place)
    : unit_(&unit),
      description_(std::move(description)),
      place_(std::move(place)),
      elements_(lockstep::elements(place_.part)) {}

Parameter::Accumulation Parameter::touch() {
  invariant(is_trained(), "what is frozen has no gradient");
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
