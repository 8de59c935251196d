#include "architecture/tensor_parallel.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// Outputs are rows of a matrix (out, in), inputs its columns; a bias has outputs alone.
constexpr int outputs = 0, inputs = 1;

Split along(int dim, std::int64_t granule = 1) { return {.axes = {tensor_axis}, .dim = dim, .granule = granule}; }

std::optional<Split> cut_of(Role role, const HfConfig& config) {
  switch (role) {
    case Role::query:
    case Role::query_bias:
    case Role::key:
    case Role::key_bias:
    case Role::value:
    case Role::value_bias: return along(outputs, config.head_size);
    case Role::attention_output: return along(inputs, config.head_size);
    case Role::gate:
    case Role::gate_bias:
    case Role::up:
    case Role::up_bias:
    case Role::token_embedding:
    case Role::head: return along(outputs);
    case Role::down: return along(inputs);
    case Role::qkv:
    case Role::qkv_bias:
    case Role::position_embedding:
    case Role::query_norm:
    case Role::key_norm:
    case Role::attention_norm:
    case Role::attention_norm_bias:
    case Role::attention_output_bias:
    case Role::mlp_norm:
    case Role::mlp_norm_bias:
    case Role::router:
    case Role::expert_gate_up:
    case Role::expert_down:
    case Role::down_bias:
    case Role::final_norm:
    case Role::final_norm_bias: return std::nullopt;
  }
  throw Error(ExitCode::bug, "a role without its part in a shared block");
}

void check_shares(const HfConfig& config, std::int64_t ranks) {
  const std::string_view obstacle =
      config.family == Family::gpt2 ? "it keeps queries, keys and values in one matrix, which this version does not cut"
      : config.experts.count > 0    ? "its experts are not cut, and this version does not share out their tokens"
      : config.query_key_norm
          ? "gradients of its norms of queries and keys are sums over heads, which this version does "
            "not add up over ranks"
          : "";
  if (!obstacle.empty())
    throw Error(ExitCode::usage,
                fmt::format("parallel.tp {} cannot share a {} model: {}", ranks, name_of(config.family), obstacle),
                "share it out with parallel.dp_shard or parallel.pp");
  const auto divides = [&](std::string_view what, std::int64_t count) {
    if (count % ranks != 0)
      throw Error(ExitCode::usage,
                  fmt::format("cannot share {} {} among parallel.tp {}: {} mod {} is {}", count, what, ranks, count,
                              ranks, count % ranks),
                  "take a parallel.tp that divides the model's heads and its key heads");
  };
  divides("heads", config.heads);
  divides("key heads", config.kv_heads);
  const auto is_enough = [&](std::string_view what, std::int64_t count) {
    if (divided_up(count, ranks) * (ranks - 1) >= count)
      throw Error(ExitCode::usage,
                  fmt::format("cannot share {} of {} among parallel.tp {}: in parts of {} the last rank has none", what,
                              count, ranks, divided_up(count, ranks)),
                  "take a smaller parallel.tp");
  };
  is_enough("an MLP", config.feed_forward);
  is_enough("a vocabulary", config.vocabulary);
}

}  // namespace

void cut_over(Architecture& architecture, std::int64_t ranks) {
  if (ranks > 1) check_shares(architecture.config, ranks);
  for (BlockDescription& block : architecture.blocks)
    for (LogicalTensor& tensor : block.tensors)
      tensor.cut = ranks > 1 ? cut_of(tensor.role, architecture.config) : std::nullopt;
}

Shape longest_part(const LogicalTensor& tensor, std::int64_t ranks) {
  Shape shape = tensor.shape;
  if (!tensor.cut || ranks == 1) return shape;
  std::int64_t& length = shape[static_cast<std::size_t>(tensor.cut->dim)];
  length = std::min(length, divided_up(divided_up(length, tensor.cut->granule), ranks) * tensor.cut->granule);
  return shape;
}

HfConfig part_of(HfConfig config, std::int64_t ranks) {
  config.heads = divided_up(config.heads, ranks);
  config.kv_heads = divided_up(config.kv_heads, ranks);
  config.feed_forward = divided_up(config.feed_forward, ranks);
  config.vocabulary = divided_up(config.vocabulary, ranks);
  return config;
}

}  // namespace lockstep
