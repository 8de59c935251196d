#include "tensor/parameter.hpp"

#include "base/error.hpp"
#include "tensor/unit.hpp"

namespace lockstep {

Parameter::Parameter(Unit& unit, LogicalTensor description, std::int64_t offset)
    : unit_(&unit),
      description_(std::move(description)),
      elements_(lockstep::elements(description_.shape)),
      offset_(offset),
      master_(view(unit.master())),
      compute_(view(unit.compute())),
      gradient_(view(unit.gradient())) {
  for (const at::Tensor& kept : unit.state()) state_.push_back(view(kept));
}

at::Tensor Parameter::view(const at::Tensor& flat) const {
  return flat.narrow(0, offset_, elements_).view(description_.shape);
}

Parameter::Accumulation Parameter::touch() { return {gradient_, touches_++ == 0 ? 0.0 : 1.0}; }

void Parameter::accumulate(const at::Tensor& contribution) {
  invariant(contribution.sizes() == at::IntArrayRef(description_.shape), "a gradient has the shape of its parameter");
  const Accumulation target = touch();
  if (target.beta == 0) {
    target.gradient.copy_(contribution);
  } else {
    target.gradient.add_(contribution);
  }
}

}  // namespace lockstep
