#include "optim/muon.hpp"

#include "base/error.hpp"
#include "optim/unit_stretches.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep {

namespace {

double adjustment(MuonAdjust adjust, const LogicalTensor& tensor) {
  const Shape shape = matrix_shape(tensor);
  const auto out = static_cast<double>(shape[tensor.in_out ? 1 : 0]),
             in = static_cast<double>(shape[tensor.in_out ? 0 : 1]);
  switch (adjust) {
    case MuonAdjust::original: return std::sqrt(std::max(1.0, out / in));
    case MuonAdjust::match_rms_adamw: return 0.2 * std::sqrt(std::max(out, in));
  }
  fail(ExitCode::bug, "unknown MuonAdjust {}", static_cast<int>(adjust));
}

}  // namespace

bool is_matrix(const LogicalTensor& tensor) { return tensor.shape.size() == 2; }

bool is_hidden_matrix(const LogicalTensor& tensor) {
  switch (tensor.role) {
    case Role::query:
    case Role::key:
    case Role::value:
    case Role::qkv:
    case Role::attention_output:
    case Role::gate:
    case Role::up:
    case Role::down:
    case Role::expert_gate_up:
    case Role::expert_down: return true;
    case Role::token_embedding:
    case Role::position_embedding:
    case Role::attention_norm:
    case Role::attention_norm_bias:
    case Role::query_bias:
    case Role::query_norm:
    case Role::key_bias:
    case Role::key_norm:
    case Role::value_bias:
    case Role::qkv_bias:
    case Role::attention_output_bias:
    case Role::mlp_norm:
    case Role::mlp_norm_bias:
    case Role::gate_bias:
    case Role::up_bias:
    case Role::down_bias:
    case Role::router:
    case Role::shared_expert_gate:
    case Role::final_norm:
    case Role::final_norm_bias:
    case Role::head: return false;
  }
  fail(ExitCode::bug, "unknown Role {}", static_cast<int>(tensor.role));
}

void Muon::update(Unit& unit, std::int64_t, double lr, double gradient_scale) const {
  with_update_kernels(unit, [&]<class M>(const Kernels<M>& on) { update_matrices<M>(on, unit, lr, gradient_scale); });
  complete_copy(unit);
}

template <class M>
void Muon::update_matrices(const Kernels<M>& on, Unit& unit, double lr, double gradient_scale) const {
  const auto memory = [&](std::int64_t length) {
    if (!directions_.defined() || directions_.numel() < length ||
        directions_.scalar_type() != unit.gradient().scalar_type())
      directions_ = at::empty({length}, unit.gradient().options());
    return pointer<M>(directions_);
  };
  if (unit.sharers() == nullptr) {
    for (const auto& parameter : unit.parameters()) {
      const Shape shape = matrix_shape(parameter->description());
      const std::int64_t count = parameter->shard_elements(), one = elements(shape);
      invariant(count % one == 0, "without sharers a rank has whole matrices");
      M* const directions = memory(count);
      lead(on, unit, *parameter, gradient_scale, directions);
      make_orthogonal(on, unit, directions, std::vector<Shape>(static_cast<std::size_t>(count / one), shape));
      follow(on, unit, *parameter, lr, directions);
    }
    return;
  }
  const MatrixExchange& exchange = exchange_of(unit);
  M* const directions = memory(unit.length());
  for (const auto& parameter : unit.parameters())
    lead(on, unit, *parameter, gradient_scale, directions + parameter->shard_offset());
  const at::Tensor matrices = exchange.to_owners(directions_);
  make_orthogonal(on, unit, pointer<M>(matrices), exchange.owned());
  exchange.back(matrices, directions_);
  for (const auto& parameter : unit.parameters())
    follow(on, unit, *parameter, lr, directions + parameter->shard_offset());
}

const MatrixExchange& Muon::exchange_of(const Unit& unit) const {
  const auto found = exchanges_.find(&unit);
  return found != exchanges_.end() ? found->second : exchanges_.try_emplace(&unit, unit, *unit.sharers()).first->second;
}

/// The momentum follows the gradient; where the weights are to go, as far as that says.
template <class M>
void Muon::lead(const Kernels<M>& on, Unit& unit, const Parameter& parameter, double gradient_scale,
                M* directions) const {
  const UpdateRule& rule = settings_.at(&parameter).rule;
  const auto momentum = static_cast<M>(rule.muon_momentum), scale = static_cast<M>(gradient_scale);
  const bool keeps = momentum != 0;
  invariant(rule_buffers(unit) == (keeps ? 1 : 0), "Muon with momentum has a momentum buffer");
  const std::int64_t offset = parameter.shard_offset(), count = parameter.shard_elements();
  const M* const gradient = pointer<M>(unit.gradient()) + offset;
  if (has_short_state(unit))
    on.muon_lead_short_state(count, scale, momentum, rule.muon_nesterov, gradient,
                             pointer<Bf16>(unit.state()[0]) + offset, directions);
  else
    on.muon_lead(count, scale, momentum, rule.muon_nesterov, gradient,
                 keeps ? pointer<M>(unit.state()[0]) + offset : nullptr, directions);
}

template <class M>
void Muon::make_orthogonal(const Kernels<M>& on, const Unit& unit, M* matrices,
                           const std::vector<Shape>& shapes) const {
  const bool is_short = unit.precision() == Precision::bf16 || unit.precision() == Precision::fp16;
  const std::int64_t steps = settings_.at(unit.parameters().front().get()).rule.muon_steps;  // of all in the unit
  for (const Shape& shape : shapes) {
    on.orthogonalise(matrices, shape[0], shape[1], steps, is_short ? IterationType::bf16 : IterationType::of_matrix);
    matrices += elements(shape);
  }
}

template <class M>
void Muon::follow(const Kernels<M>& on, Unit& unit, const Parameter& parameter, double lr, const M* directions) const {
  const ParameterSettings& settings = settings_.at(&parameter);
  const double rate = lr * settings.lr_scale;
  on.muon_follow(parameter.shard_offset(), parameter.shard_elements(), static_cast<M>(1 - rate * settings.weight_decay),
                 static_cast<M>(rate * adjustment(settings.rule.muon_adjust, parameter.description())),
                 updated_weights<M>(unit), directions);
}

}  // namespace lockstep
