#include "dialects/dialect_accelerate.hpp"

#include "base/text.hpp"
#include "dialects/deepspeed.hpp"
#include "dialects/dialect_hf.hpp"
#include "options/interpret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

namespace lockstep::accelerate {

namespace {

using enum DialectKey::Value;
using enum DialectKey::State;
using hf::jointly;

constexpr const char* one_loader = "each weight is read once, by the rank that needs it";

void distributed_type(const Node& value, Lowering& lowering) {
  static const std::set<std::string> known{"NO", "FSDP", "DEEPSPEED"};
  if (!known.contains(value.text) && !value.text.starts_with("MULTI_"))
    lowering.refuse(value, "it must be NO, FSDP, DEEPSPEED or MULTI_ with a kind of device");
}

void accelerator(const Node& value, Lowering& lowering) {
  constexpr const char* batches = "every way to read data gives the same batches";
  static constexpr std::array known{
      DialectKey{"split_batches", flag, "false", refused, "",
                 "a batch size is that of a rank: set per_device_train_batch_size", "false"},
      DialectKey{"dispatch_batches", flag, "", moot, "", batches},
      DialectKey{"even_batches", flag, "", moot, "", batches},
      DialectKey{"use_seedable_sampler", flag, "", moot, "", batches},
      DialectKey{"non_blocking", flag, "", moot, "", batches},
      DialectKey{"use_configured_state", flag, "", moot, "", batches},
      DialectKey{"gradient_accumulation_kwargs", map, "", refused, "", "set gradient_accumulation_steps", "{}"},
  };
  lowering.part(known, "accelerator_config", value);
}

constexpr std::array accelerate_keys{
    DialectKey{"mixed_precision", text, "", taken, "precision.dtype", "bf16 and fp16 of the Trainer take precedence",
               "", "", jointly},
    DialectKey{"fp8_config", map, "", refused, "", "training computes in fp64, fp32, bf16 or fp16"},
    DialectKey{"dynamo_config", map, "", noted, "", hf::no_compile},
    DialectKey{"dynamo_backend", text, "", noted, "", hf::no_compile, "NO|no"},
    DialectKey{"accelerator_config", map, "", taken, "", "split_batches must be false", "", "", accelerator},
    DialectKey{"parallelism_config", map, "", taken,
               "parallel.dp_replicate, parallel.dp_shard, parallel.tp, parallel.ring, parallel.ulysses",
               "its sizes, with or without the prefix parallelism_config_", "", "", jointly},
    DialectKey{"deepspeed", map, "", taken,
               "parallel.zero, train.offload, train.micro_batch, train.accumulation, optimizer.clip_norm, "
               "precision.dtype, optimizer.name, schedule.name",
               "a file of DeepSpeed, or its content", "", "", jointly},
    DialectKey{"deepspeed_config", map, "", taken,
               "parallel.zero, train.offload, train.accumulation, optimizer.clip_norm, checkpoint.export_at_end",
               "used only if distributed_type is DEEPSPEED", "", "", jointly},
    DialectKey{"downcast_bf16", text, "no", refused, "", "TPUs are not supported", "no|false"},
    DialectKey{"fsdp", list, "", taken, "parallel.dp_shard, parallel.reshard_after_forward, train.offload",
               "full_shard, shard_grad_op, no_shard, offload and auto_wrap; true: full_shard auto_wrap", "", "",
               jointly},
    DialectKey{"fsdp_config", map, "", taken,
               "parallel.dp_shard, parallel.reshard_after_forward, parallel.prefetch, train.offload",
               "its keys, with or without the prefix fsdp_", "", "", jointly},
    DialectKey{"compute_environment", text, "LOCAL_MACHINE", moot, "", hf::launched},
    DialectKey{"distributed_type", text, "", taken, "", "NO, FSDP, DEEPSPEED or MULTI_ with a kind of device", "", "",
               distributed_type},
    DialectKey{"num_processes", number, "", moot, "", hf::launched},
    DialectKey{"num_machines", number, "", moot, "", hf::launched},
    DialectKey{"machine_rank", number, "", moot, "", hf::launched},
    DialectKey{"main_process_ip", text, "", moot, "", hf::launched},
    DialectKey{"main_process_port", text, "", moot, "", hf::launched},
    DialectKey{"main_training_function", text, "", moot, "", hf::launched},
    DialectKey{"rdzv_backend", text, "", moot, "", hf::launched},
    DialectKey{"same_network", flag, "", moot, "", hf::launched},
    DialectKey{"gpu_ids", text, "", moot, "", hf::launched},
    DialectKey{"enable_cpu_affinity", flag, "", moot, "", hf::launched},
    DialectKey{
        "debug", text, "", refused, "",
        "train.watchdog names the rank that others wait for, train.detect_anomaly the values that are not finite",
        "false|[]|"},
    DialectKey{"mpirun_config", map, "", moot, "", hf::launched},
    DialectKey{"commands", list, "", moot, "", hf::launched},
    DialectKey{"command_file", text, "", moot, "", hf::launched},
    DialectKey{"megatron_lm_config", map, "", refused, "", "parallelism_config has the sizes of the mesh", "{}"},
    DialectKey{"tpu_name", text, "", moot, "", hf::launched},
    DialectKey{"tpu_zone", text, "", moot, "", hf::launched},
    DialectKey{"tpu_env", list, "", moot, "", hf::launched},
    DialectKey{"tpu_use_cluster", flag, "", moot, "", hf::launched},
    DialectKey{"tpu_use_sudo", flag, "", moot, "", hf::launched},
};

constexpr std::array accelerate_parts{
    DialectKey{"fsdp.full_shard", text, "", taken, "parallel.dp_shard"},
    DialectKey{"fsdp.shard_grad_op", text, "", taken, "parallel.dp_shard, parallel.reshard_after_forward"},
    DialectKey{"fsdp.no_shard", text, "", taken, "parallel.dp_shard"},
    DialectKey{"fsdp.hybrid_shard", text, "", taken, "parallel.dp_shard, parallel.dp_replicate",
               "shards within a node, replicas across nodes"},
    DialectKey{"fsdp.hybrid_shard_zero2", text, "", taken,
               "parallel.dp_shard, parallel.dp_replicate, parallel.reshard_after_forward",
               "shards within a node, replicas across nodes"},
    DialectKey{"fsdp.offload", text, "", taken, "train.offload", "with full_shard or shard_grad_op"},
    DialectKey{"fsdp.auto_wrap", text, "", taken, "parallel.bucket_size", "without it the model is one unit"},
    DialectKey{"fsdp_config.fsdp_auto_wrap_policy", text, "", taken, "parallel.bucket_size",
               "TRANSFORMER_BASED_WRAP; SIZE_BASED_WRAP; NO_WRAP: the model is one unit"},
    DialectKey{"fsdp_config.fsdp_backward_prefetch_policy", text, "", moot, "",
               "parallel.prefetch applies to both passes"},
    DialectKey{"fsdp_config.fsdp_forward_prefetch", flag, "", taken, "parallel.prefetch", "true: 1; false: 0"},
    DialectKey{"fsdp_config.fsdp_cpu_ram_efficient_loading", flag, "", moot, "", one_loader},
    DialectKey{"fsdp_config.fsdp_offload_params", flag, "", taken, "train.offload", "true: optimizer and shards"},
    DialectKey{"fsdp_config.fsdp_sharding_strategy", text, "", taken,
               "parallel.dp_shard, parallel.reshard_after_forward", "a word of fsdp, or its number"},
    DialectKey{"fsdp_config.fsdp_reshard_after_forward", flag, "", taken, "parallel.reshard_after_forward",
               "FSDP2: true is full_shard, false is shard_grad_op"},
    DialectKey{"fsdp_config.fsdp_version", number, "", moot, "", "the keys of both versions are read"},
    DialectKey{"fsdp_config.fsdp_activation_checkpointing", flag, "", taken, "train.recompute"},
    DialectKey{"fsdp_config.fsdp_min_num_params", number, "", taken, "parallel.bucket_size",
               "units of whole blocks with this many weights in fp32"},
    DialectKey{"fsdp_config.fsdp_state_dict_type", text, "", taken, "checkpoint.export_at_end",
               "SHARDED_STATE_DICT; FULL_STATE_DICT: an export at the end besides"},
    DialectKey{"fsdp_config.fsdp_sync_module_states", flag, "", moot, "", one_loader},
    DialectKey{"fsdp_config.fsdp_transformer_layer_cls_to_wrap", text, "", moot, "", "the blocks of a model are known"},
    DialectKey{"fsdp_config.fsdp_use_orig_params", flag, "", moot, "", "parameters keep their names and shapes"},
};

/// What fsdp and fsdp_config come to together.
struct Sharding {
  const Node* place = nullptr;  // that says something of it
  std::string strategy;
  std::optional<bool> wrap;
  bool offload = false;
};

void take_word(const std::string& word, const Node& place, Sharding& sharding, Lowering& lowering) {
  static const std::set<std::string> strategies{"full_shard", "shard_grad_op", "no_shard", "hybrid_shard",
                                                "hybrid_shard_zero2"};
  if (strategies.contains(word)) {
    if (!sharding.strategy.empty() && sharding.strategy != word)
      lowering.refuse(place, fmt::format("it contradicts {} from {}", sharding.strategy, sharding.place->origin));
    sharding.strategy = word;
    sharding.place = &place;
  } else if (word == "offload") {
    sharding.offload = true;
    sharding.place = &place;
  } else if (word == "auto_wrap") {
    sharding.wrap = true;
  } else if (!word.empty() && word != "false") {
    lowering.refuse(place, fmt::format("\"{}\" is not one of full_shard, shard_grad_op, no_shard, hybrid_shard, "
                                       "hybrid_shard_zero2, offload and auto_wrap",
                                       word));
  }
}

void take_fsdp(const Node& value, Sharding& sharding, Lowering& lowering) {
  const std::vector<Node> items = value.kind == Node::Kind::list ? value.items : std::vector{value};
  for (const Node& item : items) {
    for (const std::string& word : split(item.text, ' ')) {
      if (word == "true") {
        take_word("full_shard", value, sharding, lowering);
        sharding.wrap = true;
      } else {
        take_word(lower_ascii(word), value, sharding, lowering);
      }
    }
  }
  if (!sharding.wrap && !sharding.strategy.empty()) sharding.wrap = false;
}

void take_strategy(const Node& value, Sharding& sharding, Lowering& lowering) {
  static constexpr std::array<const char*, 5> by_number{"full_shard", "shard_grad_op", "no_shard", "hybrid_shard",
                                                        "hybrid_shard_zero2"};
  std::string word = lower_ascii(value.text);
  if (word == "_hybrid_shard_zero2") word = "hybrid_shard_zero2";
  if (word.size() == 1 && word[0] >= '1' && word[0] <= '5') word = by_number[static_cast<std::size_t>(word[0] - '1')];
  take_word(word, value, sharding, lowering);
}

constexpr std::int64_t most_weights = std::int64_t{1} << 50;

void take_config(const std::string& key, const Node& value, Sharding& sharding, Lowering& lowering) {
  static const std::set<std::string> moot_keys{
      "backward_prefetch_policy", "backward_prefetch", "cpu_ram_efficient_loading",     "sync_module_states",
      "use_orig_params",          "version",           "transformer_layer_cls_to_wrap", "limit_all_gathers"};
  static const std::set<std::string> flags{"offload_params", "forward_prefetch", "activation_checkpointing"};
  const std::optional<bool> truth = flag_word(value.text);
  if (flags.contains(key) && !truth) return lowering.refuse(value, "it must be true or false");
  if (key == "sharding_strategy") {
    take_strategy(value, sharding, lowering);
  } else if (key == "reshard_after_forward") {
    if (!truth) return take_strategy(value, sharding, lowering);
    take_word(*truth ? "full_shard" : "shard_grad_op", value, sharding, lowering);
  } else if (key == "offload_params") {
    if (truth.value_or(false)) take_word("offload", value, sharding, lowering);
  } else if (key == "forward_prefetch") {
    if (truth) lowering.set("parallel.prefetch", *truth ? "1" : "0", value);
  } else if (key == "activation_checkpointing") {
    if (truth.value_or(false) && !lowering.is_set("train.recompute")) hf::recompute(value, lowering);
  } else if (key == "auto_wrap_policy") {
    sharding.wrap = value.text != "NO_WRAP";
    if (value.text != "TRANSFORMER_BASED_WRAP" && value.text != "SIZE_BASED_WRAP" && value.text != "NO_WRAP")
      lowering.refuse(value, "it must be TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP or NO_WRAP");
  } else if (key == "min_num_params") {
    std::int64_t weights = 0;
    const auto [end, error] = std::from_chars(value.text.data(), value.text.data() + value.text.size(), weights);
    if (error != std::errc{} || end != value.text.data() + value.text.size() || weights < 0 || weights > most_weights)
      return lowering.refuse(value, "it must be a number of weights");
    if (weights > 0) lowering.set("parallel.bucket_size", std::to_string(4 * weights), value);
  } else if (key == "state_dict_type") {
    if (value.text == "FULL_STATE_DICT")
      lowering.set("checkpoint.export_at_end", "true", value);
    else if (value.text != "SHARDED_STATE_DICT")
      lowering.refuse(value, "it must be SHARDED_STATE_DICT or FULL_STATE_DICT");
  } else if (key == "xla" || key == "xla_fsdp_v2" || key == "xla_fsdp_grad_ckpt") {
    if (truth.value_or(true)) lowering.refuse(value, "TPUs are not supported");
  } else if (!moot_keys.contains(key)) {
    lowering.refuse(value, fmt::format("fsdp_config has no key \"{}\"", key));
  }
}

void lower_sharding(Lowering& lowering) {
  Sharding sharding;
  if (const Node* const fsdp = lowering.given("fsdp")) take_fsdp(*fsdp, sharding, lowering);
  if (const Node* const config = lowering.given("fsdp_config")) {
    for (const auto& [key, value] : config->entries)
      if (value.kind != Node::Kind::null)
        take_config(key.starts_with("fsdp_") ? key.substr(5) : key, value, sharding, lowering);
  }
  if (const Node* const least = lowering.given("fsdp_min_num_params"); least != nullptr && !Lowering::of_preset(*least))
    take_config("min_num_params", *least, sharding, lowering);
  const Node* const type = lowering.given("distributed_type");
  if (sharding.strategy.empty() && type != nullptr && type->text == "FSDP") {
    sharding.strategy = "full_shard";
    if (sharding.place == nullptr) sharding.place = type;
  }
  if (sharding.strategy.empty()) {
    if (sharding.offload) lowering.refuse(*sharding.place, "it needs a word that shards, such as full_shard");
    return;
  }
  const Node& place = *sharding.place;
  if (sharding.strategy == "no_shard") return lowering.set("parallel.dp_shard", "1", place);
  const bool hybrid = sharding.strategy.starts_with("hybrid");
  if (lowering.given("parallelism_config") == nullptr) {  // which has the sizes
    lowering.set("parallel.dp_shard", hybrid ? "node" : "auto", place);
    lowering.set("parallel.dp_replicate", hybrid ? "auto" : "1", place);
  }
  if (sharding.strategy == "shard_grad_op" || sharding.strategy == "hybrid_shard_zero2")
    lowering.set("parallel.reshard_after_forward", "false", place);
  if (!sharding.wrap.value_or(true)) hf::one_unit(place, lowering);
  if (sharding.offload) hf::offload({"optimizer", "shards"}, place, lowering);
}

/// What Accelerate's file says gives way to what the Trainer is told.
void lower_precision(Lowering& lowering) {
  const Node* const precision = lowering.given("mixed_precision");
  if (precision == nullptr || lowering.is_set("precision.dtype")) return;
  if (precision->text == "fp8") return lowering.refuse(*precision, "training computes in fp64, fp32, bf16 or fp16");
  hf::dtype(*precision, "precision.dtype", lowering);
}

void lower_mesh(Lowering& lowering) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 5> axes{
      {{"dp_replicate_size", "parallel.dp_replicate"},
       {"dp_shard_size", "parallel.dp_shard"},
       {"tp_size", "parallel.tp"},
       {"cp_size", "parallel.ring"},
       {"sp_size", "parallel.ulysses"}}};
  constexpr std::string_view prefix = "parallelism_config_";
  const Node* const config = lowering.given("parallelism_config");
  if (config == nullptr) return;
  for (const auto& [name, value] : config->entries) {
    if (value.kind == Node::Kind::null) continue;
    const std::string key = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    const auto axis = std::ranges::find(axes, key, &std::pair<std::string_view, std::string_view>::first);
    if (axis != axes.end())
      lowering.set(axis->second, value);
    else if (key != "cp_comm_strategy" && key != "cp_backend" && key != "sp_backend" && key != "cp_handler" &&
             !key.starts_with("sp_"))
      lowering.refuse(value, fmt::format("parallelism_config has no key \"{}\"", name));
  }
}

}  // namespace

std::span<const DialectKey> keys() { return accelerate_keys; }
std::span<const DialectKey> parts() { return accelerate_parts; }

void finish(Lowering& lowering) {
  lower_precision(lowering);
  lower_sharding(lowering);
  lower_mesh(lowering);
  lower_deepspeed(lowering);
}

}  // namespace lockstep::accelerate
