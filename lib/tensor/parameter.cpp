#include "tensor/parameter.hpp"

#include "base/error.hpp"
#include "tensor/unit.hpp"

namespace lockstep {

Parameter::Parameter(Unit& unit, LogicalTensor description, std::int64_t offset)
    : unit_(&unit), description_(std::move(description)), elements_(lockstep::elements(description_.shape)), offset_(offset) {}

at::Tensor Parameter::view(const at::Tensor& flat) const { return flat.narrow(0, offset_, elements_).view(description_.shape); }

at::Tensor Parameter::master() const { return view(unit_->master()); }
at::Tensor Parameter::compute() const { return view(unit_->compute()); }
at::Tensor Parameter::gradient() const { return view(unit_->gradient()); }
at::Tensor Parameter::first_moment() const { return view(unit_->first_moment()); }
at::Tensor Parameter::second_moment() const { return view(unit_->second_moment()); }

Parameter::Accumulation Parameter::touch() { return {gradient(), touches_++ == 0 ? 0.0 : 1.0}; }

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
