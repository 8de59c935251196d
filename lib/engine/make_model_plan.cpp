#include "engine/make_model_plan.hpp"

#include "architecture/block_profile.hpp"
#include "architecture/tensor_parallel.hpp"
#include "architecture/units.hpp"
#include "comm/heartbeat.hpp"
#include "data/batch.hpp"
#include "tensor/functions/rotary_table.hpp"
#include "tensor/kernels/attention_kernel.hpp"

#include <algorithm>

namespace lockstep {

namespace {

BatchShape batch_shape(const ModelConfig& config, const UnitTypes& types, const MicroBatchShape& shape,
                       const Processor& processor, const BlockSharing& sharing) {
  const std::int64_t number = size_of(types.master);
  const std::int64_t key_heads = std::max<std::int64_t>(1, config.kv_heads / shape.sequence.ulysses);
  const std::int64_t threads = std::min<std::int64_t>(processor.threads, shape.samples * key_heads);
  const int ring = shape.sequence.ring;
  const std::int64_t keys = ring == 1 ? shape.length : ceil_div(shape.length, 2 * ring);  // at once
  return {.samples = shape.samples,
          .length = shape.length,
          .compute = types.compute,
          .output = types.handed_out(),
          .row_shares = sharing.row_shares(),
          .attention = {threads * attention_forward_scratch_bytes(keys, config.head_size, number),
                        threads * attention_backward_scratch_bytes(keys, config.head_size, number)},
          .sequence = shape.sequence,
          .segments = shape.segments,
          .experts = sharing.experts};
}

/// What gemm_rounded keeps after the products of decoder blocks. Those that lead back to the stream are not rounded on
/// the way forward, but for those of experts, of which one may have the rows of all tokens.
std::int64_t rounding_scratch(const ModelConfig& config, std::int64_t rows, const Processor& processor) {
  std::int64_t most = 0;
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const LinearShape& product : linear_layers(config, BlockDescription::Kind::decoder, layer)) {
      most = std::max(most, rounding_scratch_bytes(rows, product.in, product.out, processor.multiplier));
      if (product.out != config.channels || config.has_experts(layer))
        most = std::max(most, rounding_scratch_bytes(rows, product.out, product.in, processor.multiplier));
    }
  }
  return most;
}

std::vector<Recomputation> recomputations_of(const BlockProfile& costs, const ModelConfig& part,
                                             const BatchShape& batch, const BlockSharing& sharing, int layer) {
  std::vector<Recomputation> all = costs.recomputations;
  for (std::size_t index = 0; index < all.size(); ++index)
    all[index].exchanges = repeated_exchanges(part, batch, sharing, KeepSet::at(index), layer);
  return all;
}

}  // namespace

ModelPlan plan_of(const Architecture& whole, const UnitTypes& types, const MicroBatchShape& shape,
                  const Buckets& buckets, const Processor& processor, const Sharding& sharding) {
  ModelPlan plan;
  Architecture architecture = whole;  // of which this rank computes its part
  cut_over(architecture, sharding.blocks);
  architecture.config = part_of(whole.config, sharding.blocks);
  const ModelConfig& config = architecture.config;
  plan.row_shares = sharding.blocks.row_shares();
  const BatchShape batch = batch_shape(config, types, shape, processor, sharding.blocks);
  const std::int64_t boundary_bytes = batch.own_rows() * config.channels * size_of(types.handed_out());
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i) {
    const BlockDescription& block = architecture.blocks[i];
    const BlockProfile costs = profile(architecture, i, batch);
    const bool last = i + 1 == architecture.blocks.size();
    plan.blocks.push_back(
        {.name = block_name(block),
         .stash_bytes = std::max<std::int64_t>(costs.saved_bytes - costs.input_bytes, 0),
         .output_bytes = last ? 0 : boundary_bytes,
         .workspace_bytes = costs.backward_workspace_bytes,
         .forward_flops = costs.forward_flops,
         .backward_flops = costs.backward_input_flops + costs.backward_weight_flops,
         .recomputable = block.kind == BlockDescription::Kind::decoder,
         .forward_workspace_bytes = costs.forward_workspace_bytes,
         .inference_workspace_bytes = costs.inference_workspace_bytes,
         .deferred_bytes = costs.deferred_bytes,
         .backward_weight_flops = costs.backward_weight_flops,
         .exchanges = exchanges_of(config, block.kind, batch, sharding.blocks, shape.purpose, block.layer),
         .recomputations = recomputations_of(costs, config, batch, sharding.blocks, block.layer)});
  }
  plan.units = units_of(architecture, types, buckets, sharding);
  if (config.positions == Positions::rotary)
    plan.shared_bytes += RotaryTable::bytes(shape.length, config.head_size, size_of(types.master));
  if (types.compute == DType::f16)
    plan.shared_bytes += widening_scratch_bytes;
  else if (types.compute != types.master)
    plan.shared_bytes += rounding_scratch(
        config, std::max(batch.rows(), batch.experts.ranks > 1 ? batch.expert_rows(config.experts.per_token) : 0),
        processor);
  return plan;
}

std::int64_t expert_loads(const ModelConfig& config) {
  return config.expert_layers(config.layers) * config.experts.count;
}

std::int64_t heartbeat_bytes_of(const ModelConfig& config, std::int64_t datasets) {
  return heartbeat_bytes +
         (expert_loads(config) + std::int64_t{numbers_of_use} * datasets) * std::int64_t{sizeof(double)};
}

}  // namespace lockstep
