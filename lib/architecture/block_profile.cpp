#include "architecture/block_profile.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::int64_t fp32_bytes = 4;
constexpr std::int64_t loss_bytes = 8;

std::int64_t norm_statistics(const HfConfig& config, std::int64_t rows) {
  return rows * fp32_bytes * (config.norm == Norm::layer_norm ? 2 : 1);
}

void add_decoder(BlockProfile& result, const HfConfig& config, const BatchShape& batch) {
  const std::int64_t rows = batch.samples * batch.length;
  const std::int64_t query = config.heads * config.head_size;
  const std::int64_t key_value = config.kv_heads * config.head_size;
  const double square = 2 * static_cast<double>(rows) * static_cast<double>(batch.length) * static_cast<double>(query);
  result.forward_flops += 2 * square;                            // q·k and p·v
  result.backward_input_flops += 4 * square;                     // two products for each of them
  const std::int64_t attention = query + 2 * key_value + query;  // q, k, v and the output
  const std::int64_t mlp =
      config.gated_mlp ? 3 * config.feed_forward : 2 * config.feed_forward;  // activation in (and gate), product out
  const std::int64_t norms = 3 * config.channels;  // norm out, second norm in and out; the first's input is x
  result.saved_bytes += rows * (norms + attention + mlp) * size_of(batch.stream) + 2 * norm_statistics(config, rows) +
                        batch.samples * config.heads * batch.length * fp32_bytes;
  const std::int64_t inputs = 2 * config.channels + query + config.feed_forward;
  const std::int64_t outputs =
      query + 2 * key_value + (config.gated_mlp ? 2 : 1) * config.feed_forward + 2 * config.channels;
  result.deferred_bytes = rows * (inputs + outputs) * size_of(batch.stream);
  result.workspace_bytes = rows * (std::max(attention, mlp) + 2 * config.channels) * size_of(batch.stream);
}

}  // namespace

BlockProfile profile(const Architecture& architecture, std::size_t block, const BatchShape& batch) {
  invariant(block < architecture.blocks.size(), "the profile of a block that exists");
  using Kind = BlockDescription::Kind;
  const HfConfig& config = architecture.config;
  const BlockDescription& description = architecture.blocks[block];
  const std::int64_t rows = batch.samples * batch.length;
  const std::int64_t stream_bytes = rows * config.channels * size_of(batch.stream);
  BlockProfile result;
  double weights = 0;  // elements that are multiplied
  for (const LogicalTensor& tensor : description.tensors) {
    if (tensor.alias_of.empty()) result.parameter_elements += elements(tensor.shape);
    if (description.kind != Kind::embedding && tensor.shape.size() == 2)
      weights += static_cast<double>(elements(tensor.shape));
  }
  result.parameter_bytes = result.parameter_elements * size_of(batch.stream);
  const double products = 2 * static_cast<double>(rows) * weights;
  result.forward_flops = result.backward_input_flops = result.backward_weight_flops = products;
  result.input_bytes = description.kind == Kind::embedding ? 0 : stream_bytes;
  result.output_bytes = description.kind == Kind::head ? loss_bytes : stream_bytes;
  result.saved_bytes = result.input_bytes;
  if (description.kind == Kind::decoder) add_decoder(result, config, batch);
  if (description.kind == Kind::head) {
    result.workspace_bytes = 2 * stream_bytes;
    result.deferred_bytes = stream_bytes + rows * config.vocabulary * size_of(batch.stream);
    result.saved_bytes +=
        stream_bytes + norm_statistics(config, rows) + rows * config.vocabulary * size_of(batch.stream);
  }
  result.recompute_flops = result.forward_flops;
  return result;
}

}  // namespace lockstep
