#include "architecture/tensor_parallel.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// Dimensions of a weight: its rows are outputs, but those of gpt2's are inputs. A bias has outputs alone.
struct Dims {
  int outputs = 0, inputs = 1;
};

/// How a tensor is cut, and the axes along which its gradients add up.
struct Share {
  Shape view = {};
  std::optional<Split> cut = {};
  std::vector<AxisName> summed = {};
};

Share share_of(Role role, const ModelConfig& config, const BlockSharing& sharing) {
  const auto [outputs, inputs] = config.family == Family::gpt2 ? Dims{1, 0} : Dims{};
  constexpr int of_bias = 0, of_table = 0;
  const auto along = [&](int dim, std::int64_t granule = 1) {
    return Share{.cut = Split{.axes = sharing.axes(), .dim = dim, .granule = granule}};
  };
  const auto keys_along = [&](int dim) {
    Share share = along(dim, config.head_size);
    if (sharing.key_replicas > 1) {
      share.cut->axes = {tensor_axis};
      share.summed = {key_replica_axis};
    }
    return share;
  };
  // Queries, keys and values side by side: of each its heads.
  const auto along_heads = [&](Shape view) {
    Share share = along(static_cast<int>(view.size()) - 1, config.head_size);
    share.view = std::move(view);
    return share;
  };
  switch (role) {
    case Role::query: return along(outputs, config.head_size);
    case Role::query_bias: return along(of_bias, config.head_size);
    case Role::key:
    case Role::value: return keys_along(outputs);
    case Role::key_bias:
    case Role::value_bias: return keys_along(of_bias);
    case Role::attention_output: return along(inputs, config.head_size);
    case Role::gate:
    case Role::up: return along(outputs);
    case Role::gate_bias:
    case Role::up_bias: return along(of_bias);
    case Role::token_embedding:
    case Role::head: return along(of_table);
    case Role::down: return along(inputs);
    case Role::query_norm:
    case Role::key_norm:                                               // one for all heads
    case Role::shared_expert_gate: return {.summed = sharing.axes()};  // one for the whole width
    case Role::position_embedding:
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
    case Role::final_norm_bias: return {.summed = sharing.rows ? sharing.axes() : std::vector<AxisName>{}};
    case Role::qkv: return along_heads({config.channels, 3, config.heads * config.head_size});
    case Role::qkv_bias: return along_heads({3, config.heads * config.head_size});
  }
  fail(ExitCode::bug, "unknown Role {}", static_cast<int>(role));
}

void check_shares(const ModelConfig& config, const BlockSharing& sharing) {
  const std::int64_t ranks = sharing.ranks;
  if (config.experts.count > 0 && !sharing.rows)
    throw Error(ExitCode::usage,
                fmt::format("parallel.tp {} needs sequence parallelism for a {} model: without it, each of the {} "
                            "ranks would send every token to the experts",
                            ranks, name_of(config.family), ranks),
                "set parallel.sequence_parallel true");
  if (config.heads % ranks != 0)
    throw Error(ExitCode::usage,
                fmt::format("cannot divide {} heads among parallel.tp {}: {} mod {} is {}", config.heads, ranks,
                            config.heads, ranks, config.heads % ranks),
                "choose a parallel.tp that divides the number of heads");
  const std::int64_t keys = config.kv_heads;
  if (keys % ranks != 0 && ranks % keys != 0)
    throw Error(ExitCode::usage,
                fmt::format("cannot divide {} key heads among parallel.tp {}: {} mod {} is {}, {} mod {} is {}", keys,
                            ranks, keys, ranks, keys % ranks, ranks, keys, ranks % keys),
                "choose a parallel.tp that divides the number of key heads, or is a multiple of it");
  const auto is_enough = [&](std::string_view what, std::int64_t count) {
    if (ceil_div(count, ranks) * (ranks - 1) >= count)
      throw Error(ExitCode::usage,
                  fmt::format("cannot divide {} of {} among parallel.tp {}: in parts of {}, the last rank has none",
                              what, count, ranks, ceil_div(count, ranks)),
                  "choose a smaller parallel.tp");
  };
  if (config.expert_layers(config.layers) < config.layers) is_enough("an MLP", config.feed_forward);
  if (config.experts.shared_feed_forward > 0) is_enough("a shared expert", config.experts.shared_feed_forward);
  is_enough("a vocabulary", config.vocabulary);
}

Share share_of_experts(const LogicalTensor& tensor, const ModelConfig& config) {
  return {.cut = Split{.axes = {expert_axis}, .dim = 0, .granule = tensor.shape[0] / config.experts.count}};
}

void check_experts(const ModelConfig& config, std::int64_t ranks) {
  if (config.experts.count == 0)
    throw Error(ExitCode::usage,
                fmt::format("parallel.ep {} has no effect: a {} model has no experts", ranks, name_of(config.family)),
                "leave parallel.ep out");
  if (config.experts.count % ranks != 0)
    throw Error(ExitCode::usage,
                fmt::format("cannot distribute {} experts over parallel.ep {}: {} mod {} is {}", config.experts.count,
                            ranks, config.experts.count, ranks, config.experts.count % ranks),
                "choose a parallel.ep that divides the number of experts");
}

}  // namespace

bool is_shared_out(const LogicalTensor& tensor, const BlockSharing& sharing) {
  return sharing.experts.ranks > 1 && (tensor.role == Role::expert_gate_up || tensor.role == Role::expert_down);
}

BlockSharing sharing_among(int ranks, const ModelConfig& config, bool rows) {
  const std::int64_t keys = config.kv_heads;
  return {.ranks = ranks,
          .rows = rows && ranks > 1,
          .key_replicas = ranks > keys && ranks % keys == 0 ? ranks / static_cast<int>(keys) : 1};
}

void cut_over(Architecture& architecture, const BlockSharing& sharing) {
  if (sharing.ranks > 1) check_shares(architecture.config, sharing);
  if (sharing.experts.ranks > 1) check_experts(architecture.config, sharing.experts.ranks);
  for (BlockDescription& block : architecture.blocks) {
    for (LogicalTensor& tensor : block.tensors) {
      Share share = is_shared_out(tensor, sharing) ? share_of_experts(tensor, architecture.config)
                    : sharing.ranks > 1            ? share_of(tensor.role, architecture.config, sharing)
                                                   : Share{};
      tensor.view = std::move(share.view);
      tensor.cut = std::move(share.cut);
      tensor.summed = std::move(share.summed);
    }
  }
}

Shape longest_part(const LogicalTensor& tensor, const BlockSharing& sharing) {
  Shape shape = view_of(tensor);
  if (!tensor.cut) return shape;
  const bool of_experts = is_shared_out(tensor, sharing);
  const std::int64_t parts = of_experts                           ? sharing.experts.ranks
                             : tensor.cut->axes == sharing.axes() ? sharing.ranks
                                                                  : sharing.ranks / sharing.key_replicas;
  std::int64_t& length = shape[static_cast<std::size_t>(tensor.cut->dim)];
  length = std::min(length, ceil_div(ceil_div(length, tensor.cut->granule), parts) * tensor.cut->granule);
  return shape;
}

ModelConfig part_of(ModelConfig config, const BlockSharing& sharing) {
  config.heads = ceil_div(config.heads, sharing.ranks);
  config.kv_heads = ceil_div(config.kv_heads, sharing.ranks / sharing.key_replicas);
  config.feed_forward = ceil_div(config.feed_forward, sharing.ranks);
  config.experts.shared_feed_forward = ceil_div(config.experts.shared_feed_forward, sharing.ranks);
  config.vocabulary = ceil_div(config.vocabulary, sharing.ranks);
  return config;
}

}  // namespace lockstep
