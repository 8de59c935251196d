#include "model/model.hpp"

#include "architecture/initialise.hpp"
#include "architecture/tensor_parallel.hpp"
#include "architecture/units.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "tensor/parallel.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

namespace lockstep {

namespace {

Parameter* find_parameter(const std::vector<Parameter*>& parameters, std::string_view name) {
  const auto found =
      std::find_if(parameters.begin(), parameters.end(), [&](const Parameter* p) { return p->name() == name; });
  return found == parameters.end() ? nullptr : *found;
}

/// The name of the tensor that stores what `name` names.
std::string stored_name(const Architecture& architecture, std::string_view name) {
  for (const BlockDescription& block : architecture.blocks) {
    for (const LogicalTensor& tensor : block.tensors) {
      if (tensor.name == name && !tensor.alias_of.empty()) return tensor.alias_of;
    }
  }
  return std::string(name);
}

/// Pipeline ranks that a unit lies on.
std::vector<int> holders_of(int unit, const std::vector<PipelinePart>& parts) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    if (std::ranges::binary_search(parts[rank].units, unit)) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

}  // namespace

Model::Model(const Architecture& architecture, Precision precision, const UpdateStates& states, const Buckets& buckets,
             const ShardPlace& place, const std::vector<PipelinePart>& parts, const UnitMemory& memory)
    : architecture_(architecture), precision_(precision), output_type_(stream_type(precision)) {
  cut_over(architecture_, place.sharding.blocks);
  const std::vector<LogicalTensor> stored = stored_tensors(architecture_);
  const auto part = static_cast<std::size_t>(coordinate(place.mesh, place.rank, pipeline_axis));
  const ModelConfig own_config = part_of(config(), place.sharding.blocks);
  UnitTypes types = unit_types(precision, states);
  if (memory.weights == WeightMemory::compute) types.only = types.compute;
  for (const UnitPlan& plan : units_of(architecture_, types, buckets, place.sharding)) {
    const auto index = static_cast<int>(all_units_.size());
    all_units_.emplace_back();
    if (!parts.empty() && !std::ranges::binary_search(parts[part].units, index)) continue;
    std::vector<LogicalTensor> own;
    for (const int tensor : plan.parameters) own.push_back(stored[static_cast<std::size_t>(tensor)]);
    ShardPlace here = place;
    if (!plan.token_axes.empty()) here.sharding = of_experts(place.sharding);
    if (parts.size() > 1) here.pins.push_back({pipeline_axis, holders_of(index, parts)});
    all_units_.back() =
        std::make_unique<Unit>(plan.name, own, precision, types.state(own.front().update), here, memory);
    units_.push_back(all_units_.back().get());
    std::map<int, Parameter*> in_order;  // of the architecture, whatever their order in memory
    for (std::size_t i = 0; i < plan.parameters.size(); ++i)
      in_order[plan.parameters[i]] = units_.back()->parameters()[i].get();
    for (const auto& [tensor, parameter] : in_order) parameters_.push_back(parameter);
  }
  if (config().positions == Positions::rotary)
    rotary_.emplace(config().rope, config().head_size, master_type(precision));
  RotaryTable* const rotary = rotary_ ? &*rotary_ : nullptr;
  for (const BlockDescription& block : architecture_.blocks) {
    const auto index = static_cast<int>(blocks_.size());
    if (!parts.empty() && !std::ranges::binary_search(parts[part].blocks, index)) {
      blocks_.emplace_back();
      continue;
    }
    std::vector<Parameter*> own;
    for (const LogicalTensor& tensor : block.tensors) own.push_back(&parameter(tensor.name));
    switch (block.kind) {
      case BlockDescription::Kind::embedding:
        blocks_.push_back(make_embedding(own_config, block, precision, own));
        break;
      case BlockDescription::Kind::decoder:
        blocks_.push_back(
            make_decoder(own_config, block, precision, own, rotary, place.sharding.blocks.experts.capacity));
        break;
      case BlockDescription::Kind::head: {
        std::unique_ptr<HeadBlock> head = make_head(own_config, block, precision, own);
        head_ = head.get();
        blocks_.push_back(std::move(head));
        break;
      }
    }
  }
  invariant(head_ != nullptr || !parts.empty(), "a model ends with a head");
}

void Model::share(const BlockLanes& lanes) {
  for (const auto& block : blocks_)
    if (block) block->share(lanes);
}

void Model::set_output_type(at::ScalarType type) {
  output_type_ = type;
  for (const auto& block : blocks_)
    if (block) block->set_output_type(type);
}

Parameter& Model::parameter(std::string_view name) const {
  if (Parameter* found = find_parameter(parameters_, stored_name(architecture_, name))) return *found;
  std::vector<std::string> names;
  for (const Parameter* p : parameters_) names.push_back(p->name());
  const auto near = nearest(name, names);
  throw Error(ExitCode::input, fmt::format("the model has no tensor '{}'", name),
              near ? fmt::format("did you mean '{}'?", *near) : std::string());
}

void Model::initialise(std::uint64_t seed) {
  for (Parameter* p : parameters_) {
    // weights of 16 bits are rounded from the values that fp32 would have
    const bool is_short = p->unit().is_short();
    const bool in_place = !is_short && p->master().device().is_cpu();
    const at::Tensor master = in_place ? p->master() : at::empty(p->master().sizes(), master_type(precision_));
    const auto fill = [&](auto values) {
      // Boxes of whole rows; any cut gives the same values.
      const Box& own = p->box();
      const std::int64_t rows = own.extent.empty() ? 1 : own.extent[0];
      const std::int64_t row = rows == 0 ? 0 : p->shard_elements() / rows;
      parallel_for(rows, std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, row)),
                   [&](std::int64_t begin, std::int64_t end) {
                     Box box = own;
                     if (!own.extent.empty()) {
                       box.begin[0] += begin;
                       box.extent[0] = end - begin;
                     }
                     lockstep::initialise(p->description(), seed, box,
                                          values.subspan(static_cast<std::size_t>(begin * row),
                                                         static_cast<std::size_t>((end - begin) * row)));
                   });
    };
    if (precision_ == Precision::fp64) {
      fill(values_of<double>(master));
    } else {
      fill(values_of<float>(master));
    }
    if (!in_place) p->master().copy_(master);
  }
  for (Unit* unit : units_) unit->update_compute_copy();
}

at::Tensor Model::logits(const BatchTensors& batch) const {
  invariant(units_.size() == all_units_.size(), "logits need all units of the model on this rank");
  const at::NoGradGuard no_grad;
  at::Tensor x;
  for (const auto& block : blocks_) {
    if (block.get() != head_) x = block->forward(x, batch);
  }
  return head_->logits(x);
}

}  // namespace lockstep
