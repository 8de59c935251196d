#include "optim/muon.hpp"

#include "base/error.hpp"
#include "optim/unit_stretches.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep {

namespace {

constexpr std::int64_t elements_in_turn = 8192;  // of a thread

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
  with_state_type(unit, [&]<class M, class S>(M, S) { update_matrices<M, S>(unit, lr, gradient_scale); });
  complete_copy(unit);
}

template <class M, class S>
void Muon::update_matrices(Unit& unit, double lr, double gradient_scale) const {
  const auto memory = [&](std::int64_t length) {
    if (!directions_.defined() || directions_.numel() < length ||
        directions_.scalar_type() != unit.gradient().scalar_type())
      directions_ = at::empty({length}, unit.gradient().options());
    return directions_.mutable_data_ptr<M>();
  };
  if (unit.sharers() == nullptr) {
    for (const auto& parameter : unit.parameters()) {
      const Shape shape = matrix_shape(parameter->description());
      const std::int64_t count = parameter->shard_elements(), one = elements(shape);
      invariant(count % one == 0, "without sharers a rank has whole matrices");
      M* const directions = memory(count);
      lead<M, S>(unit, *parameter, gradient_scale, directions);
      make_orthogonal(unit, directions, std::vector<Shape>(static_cast<std::size_t>(count / one), shape));
      follow(unit, *parameter, lr, directions);
    }
    return;
  }
  const MatrixExchange& exchange = exchange_of(unit);
  M* const directions = memory(unit.length());
  for (const auto& parameter : unit.parameters())
    lead<M, S>(unit, *parameter, gradient_scale, directions + parameter->shard_offset());
  const at::Tensor matrices = exchange.to_owners(directions_);
  make_orthogonal(unit, matrices.mutable_data_ptr<M>(), exchange.owned());
  exchange.back(matrices, directions_);
  for (const auto& parameter : unit.parameters()) follow(unit, *parameter, lr, directions + parameter->shard_offset());
}

const MatrixExchange& Muon::exchange_of(const Unit& unit) const {
  const auto found = exchanges_.find(&unit);
  return found != exchanges_.end() ? found->second : exchanges_.try_emplace(&unit, unit, *unit.sharers()).first->second;
}

/// The momentum follows the gradient; where the weights are to go, as far as that says.
template <class M, class S>
void Muon::lead(Unit& unit, const Parameter& parameter, double gradient_scale, M* directions) const {
  const UpdateRule& rule = settings_.at(&parameter).rule;
  const auto momentum = static_cast<M>(rule.muon_momentum);
  const bool keeps = momentum != 0, looks_ahead = rule.muon_nesterov;
  invariant(rule_buffers(unit) == (keeps ? 1 : 0), "Muon with momentum has a momentum buffer");
  const M* const gradient = values_of<M>(unit.gradient()).data() + parameter.shard_offset();
  S* const average = keeps ? buffer_of<S>(unit, 0) + parameter.shard_offset() : nullptr;
  const auto scale = static_cast<M>(gradient_scale);
  parallel_for(parameter.shard_elements(), elements_in_turn, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const M g = gradient[i] * scale;
      if (average == nullptr) {
        directions[i] = g;
        continue;
      }
      const M before = load(average[i]), m = before + (1 - momentum) * (g - before);
      store(average[i], m);
      directions[i] = looks_ahead ? g + momentum * (m - g) : m;
    }
  });
}

template <class M>
void Muon::make_orthogonal(const Unit& unit, M* matrices, const std::vector<Shape>& shapes) const {
  const bool is_short = unit.precision() == Precision::bf16 || unit.precision() == Precision::fp16;
  const std::int64_t steps = settings_.at(unit.parameters().front().get()).rule.muon_steps;  // of all in the unit
  for (const Shape& shape : shapes) {
    orthogonaliser_.run<M>(matrices, shape[0], shape[1], steps,
                           is_short ? IterationType::bf16 : IterationType::of_matrix);
    matrices += elements(shape);
  }
}

template <class M>
void Muon::follow(Unit& unit, const Parameter& parameter, double lr, const M* directions) const {
  const ParameterSettings& settings = settings_.at(&parameter);
  const double rate = lr * settings.lr_scale;
  const auto keep = static_cast<M>(1 - rate * settings.weight_decay),
             step = static_cast<M>(rate * adjustment(settings.rule.muon_adjust, parameter.description()));
  const WeightsInWork<M> weights(unit);
  const std::int64_t offset = parameter.shard_offset();
  parallel_for(parameter.shard_elements(), elements_in_turn, [=](std::int64_t first, std::int64_t last) {
    weights(offset + first, offset + last, [&](std::int64_t begin, std::int64_t end, M* weight, Bf16* compute) {
      const M* const along = directions + (begin - offset);
      for (std::int64_t i = 0; i < end - begin; ++i) {
        weight[i] = weight[i] * keep - step * along[i];
        if (compute) store(compute[i], static_cast<float>(weight[i]));
      }
    });
  });
}

}  // namespace lockstep
