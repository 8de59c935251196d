#include "engine/make_model_plan.hpp"

#include "architecture/block_profile.hpp"
#include "architecture/tensor_parallel.hpp"
#include "architecture/units.hpp"
#include "comm/heartbeat.hpp"
#include "data/batch.hpp"
#include "tensor/functions/rotary_table.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

/// Scratch memory that gemm_rounded keeps after the products of a decoder block of so many rows. Products that lead
/// back to the stream are not rounded on the way forward, except those of experts, one of which may have the rows of
/// all tokens.
std::int64_t rounding_scratch(const ModelConfig& config, int layer, const BlockProfile& costs, std::int64_t rows,
                              const Processor& processor) {
  std::int64_t most = 0;
  for (const MatrixProduct& product : costs.products) {
    most = std::max(most, rounding_scratch_bytes(rows, product.in, product.out, processor.multiplier));
    if (product.out != config.channels || config.has_experts(layer))
      most = std::max(most, rounding_scratch_bytes(rows, product.out, product.in, processor.multiplier));
  }
  return most;
}

}  // namespace

MicroBatchShape prompt_pass(const TextShape& texts) {
  return {.samples = texts.texts, .length = texts.piece, .texts = texts};
}

MicroBatchShape token_pass(const TextShape& texts) { return {.samples = texts.texts, .length = 1, .texts = texts}; }

ModelPlan plan_of(const Architecture& whole, const UnitTypes& types, const MicroBatchShape& shape,
                  const Buckets& buckets, const Processor& processor, const Sharding& sharding) {
  ModelPlan plan;
  Architecture architecture = whole;  // of which this rank computes its part
  cut_over(architecture, sharding.blocks);
  architecture.config = part_of(whole.config, sharding.blocks);
  const ModelConfig& config = architecture.config;
  plan.row_shares = sharding.blocks.row_shares();
  const BatchShape batch{.samples = shape.samples,
                         .length = shape.length,
                         .compute = types.compute,
                         .output = types.handed_out(),
                         .sharing = sharding.blocks,
                         .threads = processor.threads,
                         .multiprocessors = processor.multiprocessors,
                         .sequence = shape.sequence,
                         .segments = shape.segments,
                         .texts = shape.texts};
  const std::int64_t boundary_bytes = batch.own_rows() * config.channels * size_of(types.handed_out());
  // Of texts the memory that passes over prompts took is kept.
  const std::int64_t rows = shape.texts ? shape.texts->texts * shape.texts->piece : batch.rows();
  const std::int64_t product_rows =
      std::max(rows, sharding.blocks.experts.ranks > 1 ? batch.expert_rows(config.experts.per_token) : 0);
  std::int64_t rounding_bytes = 0;
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i) {
    const BlockDescription& block = architecture.blocks[i];
    BlockProfile costs = profile(architecture, i, batch);
    const bool last = i + 1 == architecture.blocks.size(), decodes = block.kind == BlockDescription::Kind::decoder;
    if (decodes)
      rounding_bytes = std::max(rounding_bytes, rounding_scratch(config, block.layer, costs, product_rows, processor));
    plan.blocks.push_back({.name = block_name(block),
                           .stash_bytes = std::max<std::int64_t>(costs.saved_bytes - costs.input_bytes, 0),
                           .output_bytes = last ? 0 : boundary_bytes,
                           .workspace_bytes = costs.backward_workspace_bytes,
                           .forward_flops = costs.forward_flops,
                           .backward_flops = costs.backward_input_flops + costs.backward_weight_flops,
                           .recomputable = decodes,
                           .forward_workspace_bytes = costs.forward_workspace_bytes,
                           .inference_workspace_bytes = costs.inference_workspace_bytes,
                           .deferred_bytes = costs.deferred_bytes,
                           .backward_weight_flops = costs.backward_weight_flops,
                           .exchanges = std::move(costs.exchanges),
                           .recomputations = std::move(costs.recomputations),
                           .cache_bytes = costs.cache_bytes});
  }
  plan.units = units_of(architecture, types, buckets, sharding);
  if (config.positions == Positions::rotary)
    plan.shared_bytes += RotaryTable::bytes(shape.texts ? shape.texts->positions : shape.length, config.head_size,
                                            size_of(types.master));
  if (types.compute == DType::f16)
    plan.shared_bytes += widening_scratch_bytes;
  else if (types.compute != types.master)
    plan.shared_bytes += rounding_bytes;
  return plan;
}

std::int64_t expert_loads(const ModelConfig& config) {
  return config.expert_layers(config.layers) * config.experts.count;
}

std::int64_t draw_bytes_of(std::int64_t texts) {
  return heartbeat_bytes + texts * static_cast<std::int64_t>(numbers_of_drawn * sizeof(double));
}

std::int64_t heartbeat_bytes_of(const ModelConfig& config, std::int64_t datasets) {
  return heartbeat_bytes +
         (expert_loads(config) + std::int64_t{numbers_of_use} * datasets) * std::int64_t{sizeof(double)};
}

}  // namespace lockstep
