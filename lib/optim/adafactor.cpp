#include "optim/adafactor.hpp"

#include "base/error.hpp"
#include "layout/box_runs.hpp"
#include "optim/muon.hpp"
#include "optim/unit_stretches.hpp"
#include "tensor/block_lane.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

/// Places and rows of a parameter on this rank.
AdafactorPart part_of(const Parameter& parameter, const UpdateRule& rule) {
  AdafactorPart part{.matrix = parameter.description().shape};
  part.offset = parameter.shard_offset();
  for (std::size_t i = 0; i < std::min(part.states.size(), parameter.state_places().size()); ++i)
    part.states[i] = parameter.state_places()[i].offset;
  const Box& box = parameter.box();
  if (!rule.factored) {
    part.columns = elements(box);
    part.rows = part.columns > 0 ? 1 : 0;
    part.runs = {{0, 0, part.columns}};
    return part;
  }
  part.matrix = matrix_shape(parameter.description());
  const Box& means = parameter.state_places().front().box;
  const bool stacked = means.extent.size() == 2;
  if (stacked) part.matrices = means.extent[0];
  if (empty(box)) return part;
  const Shape& view = parameter.layout().global;
  invariant(view[0] == parameter.description().shape[0], "the view of a matrix has as many rows as the matrix");
  part.first_row = box.begin[0] - (stacked ? means.begin[0] * part.matrix[0] : 0);
  part.rows = box.extent[0];
  const Box row{{box.begin.begin() + 1, box.begin.end()}, {box.extent.begin() + 1, box.extent.end()}};
  part.columns = elements(row);
  for_each_run(row, whole({view.begin() + 1, view.end()}), row, [&](const BoxRun& run) { part.runs.push_back(run); });
  return part;
}

void set_factors(AdafactorPart& part, const ParameterSettings& settings, double step, double lr) {
  const UpdateRule& rule = settings.rule;
  const double rate = lr * settings.lr_scale;
  part.toward = std::pow(step, rule.adafactor_decay);
  part.eps = rule.adafactor_eps[0];
  part.least_scale = rule.adafactor_eps[1];
  part.clip = rule.adafactor_clip;
  part.rate = rule.adafactor_relative_step ? std::min(rate, 1 / std::sqrt(step)) : rate;
  part.decay = rate * settings.weight_decay;
  part.momentum = rule.adafactor_momentum;
  part.scales = rule.adafactor_scale;
}

}  // namespace

void Adafactor::update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const {
  const bool factored = settings_.at(unit.parameters().front().get()).rule.factored;
  std::vector<AdafactorPart> parts;
  std::int64_t first = 0, second = 0, factors = 0;
  for (const auto& parameter : unit.parameters()) {
    const ParameterSettings& settings = settings_.at(parameter.get());
    invariant(settings.rule.factored == factored, "the tensors of a unit are all factored or all not");
    AdafactorPart& part = parts.emplace_back(part_of(*parameter, settings.rule));
    set_factors(part, settings, static_cast<double>(step + 1), lr);
    const UpdateSums sums = update_sums(part.matrix);
    part.sums_a_matrix = sums.first;
    part.first = first;
    part.second = second;
    part.factors = factors;
    first += part.matrices * sums.first;
    second += part.matrices * sums.second;
    factors += factored ? part.matrices * (part.matrix[0] + part.matrix[1]) : part.columns;
  }
  const at::TensorOptions options = unit.gradient().options();
  const at::Tensor first_sums = at::zeros({first}, options.dtype(at::kDouble)),
                   second_sums = at::zeros({second}, options.dtype(at::kDouble)),
                   step_factors = at::empty({factors}, options);
  const auto add_up = [&](const at::Tensor& sums) {
    if (unit.sharers() != nullptr) unit.sharers()->all_reduce(sums);
  };
  with_update_kernels(unit, [&]<class M>(const Kernels<M>& on) {
    AdafactorPass<M> pass{.parts = std::move(parts),
                          .factored = factored,
                          .scale = static_cast<M>(gradient_scale),
                          .weights = updated_weights<M>(unit),
                          .gradient = pointer<M>(unit.gradient()),
                          .first = pointer<double>(first_sums),
                          .second = pointer<double>(second_sums),
                          .factors = pointer<M>(step_factors)};
    for (std::size_t i = 0; i < rule_buffers(unit); ++i) pass.states.at(i) = pointer<M>(unit.state()[i]);
    on.adafactor_sums(pass);
    add_up(first_sums);
    if (factored) {
      on.adafactor_means(pass);
      add_up(second_sums);
    }
    on.adafactor_follow(pass);
  });
  complete_copy(unit);
}

std::int64_t sums_bytes(const LogicalTensor& tensor, DType master) {
  const std::int64_t master_bytes = size_of(master);
  constexpr std::int64_t sum_bytes = sizeof(double);
  if (!is_matrix(tensor)) return elements(tensor.shape) * master_bytes + 3 * sum_bytes;
  const Shape matrix = matrix_shape(tensor);
  const std::int64_t matrices = elements(tensor.shape) / elements(matrix);
  const UpdateSums sums = update_sums(matrix);
  return matrices * ((sums.first + sums.second) * sum_bytes + (matrix[0] + matrix[1]) * master_bytes) +
         tensor.shape[0] * sum_bytes;
}

}  // namespace lockstep
