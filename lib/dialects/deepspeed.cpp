#include "dialects/deepspeed.hpp"

#include "base/text.hpp"
#include "dialects/dialect_hf.hpp"
#include "options/interpret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace lockstep::accelerate {

namespace {

using enum DialectKey::Value;
using enum DialectKey::State;
using hf::jointly;

constexpr const char* own_memory = "buffers are planned before the first step";
constexpr const char* own_exchanges = "an exchange is planned for each unit of the model";
constexpr const char* own_records = "records, TensorBoard and Weights & Biases have options of their own";
constexpr const char* no_disk = "state is kept in memory: cpu or none";
constexpr const char* no_fewer_bits = "exchanges are not quantized";
constexpr const char* no_such_feature = "this version does not have it";
constexpr const char* other_schedule = "the warm-up is linear or logarithmic, from a rate of 0";

bool is_auto(const Node& value) { return value.kind == Node::Kind::null || value.text == "auto"; }

const Node* find(const Node& map, const std::string& path) {
  const Node* at = &map;
  for (const std::string& part : split(path, '.')) at = at == nullptr ? nullptr : at->find(part);
  return at;
}

void stage(const Node& value, Lowering& lowering) {
  if (value.text == "0") return lowering.set("parallel.dp_shard", "1", value);
  if (value.text != "1" && value.text != "2" && value.text != "3")
    return lowering.refuse(value, "it must be 0, 1, 2 or 3");
  lowering.set("parallel.dp_shard", "auto", value);
  lowering.set("parallel.dp_replicate", "1", value);
  lowering.set("parallel.zero", value);
}

void device(const Node& value, Lowering& lowering) {
  if (value.text != "cpu" && value.text != "none") lowering.refuse(value, no_disk);
}

/// Sets train.offload from the two keys that say where state is kept.
void lower_offload(const Node& map, const std::string& optimizer, const std::string& weights, Lowering& lowering) {
  const auto in_memory = [&](const std::string& key) -> const Node* {
    const Node* const place = find(map, key);
    return place != nullptr && place->text == "cpu" ? place : nullptr;
  };
  const Node *const moments = in_memory(optimizer), *const shards = in_memory(weights);
  if (moments != nullptr && shards != nullptr) return hf::offload({"optimizer", "shards"}, *moments, lowering);
  if (moments != nullptr) hf::offload({"optimizer"}, *moments, lowering);
  if (shards != nullptr) hf::offload({"shards"}, *shards, lowering);
}

void optimizer_type(const Node& value, Lowering& lowering) {
  const std::string name = lower_ascii(value.text);
  if (name == "adamw" || name == "adam" || name == "sgd" || name == "lion")
    lowering.set("optimizer.name", name == "adam" ? "adamw" : name, value);
  else
    lowering.refuse(value, "it must be AdamW, Adam, Lion or SGD");
}

/// The loss scale of fp16. DeepSpeed's files often have it beside another type.
void lower_loss_scale(const Node& document, Lowering& lowering) {
  const Node* const type = lowering.value_set("precision.dtype");
  if (type == nullptr || type->text != "fp16") return;
  for (const auto& [theirs, ours] : {std::pair("fp16.initial_scale_power", "precision.init_scale"),
                                     std::pair("fp16.loss_scale_window", "precision.growth_interval"),
                                     std::pair("fp16.min_loss_scale", "precision.min_scale")}) {
    const Node* const value = find(document, theirs);
    if (value == nullptr || is_auto(*value)) continue;
    const std::optional<double> number = number_in(value->text);
    if (!number)
      lowering.refuse(*value, "it must be a number");
    else
      lowering.set(ours, value->origin.ends_with("power") ? fmt::format("{:.17g}", std::exp2(*number)) : value->text,
                   *value);
  }
}

/// DeepSpeed's scheduler takes the place of the Trainer's.
void lower_scheduler(const Node& document, Lowering& lowering) {
  const Node* const type = find(document, "scheduler.type");
  const Node* const parameters = find(document, "scheduler.params");
  const Node* const warmup = find(document, "scheduler.params.warmup_type");
  const bool is_linear = warmup != nullptr && warmup->text == "linear";
  if (type != nullptr && (type->text == "WarmupLR" || type->text == "WarmupDecayLR")) {
    lowering.set("schedule.name", type->text == "WarmupLR" ? "constant" : "linear", *type);
    if (!is_linear) lowering.tell(*type, "warm-up is linear here; that of DeepSpeed is logarithmic by default");
  } else if (type != nullptr && !is_auto(*type)) {
    lowering.refuse(*type, "it must be WarmupLR or WarmupDecayLR");
  }
  if (parameters == nullptr) return;
  for (const auto& [key, value] : parameters->entries) {
    if (is_auto(value)) continue;
    if (key == "warmup_max_lr") {
      lowering.set("optimizer.lr", value);
    } else if (key == "warmup_num_steps") {
      lowering.set("schedule.warmup_steps", value);
      if (!lowering.is_set("schedule.warmup_from")) lowering.set("schedule.warmup_from", "zero", value);
    } else if (key == "total_num_steps") {
      lowering.set("schedule.decay_steps", value);
    } else if (key == "warmup_min_lr" ? number_in(value.text) != 0.0
                                      : key != "warmup_type" || (!is_linear && value.text != "log")) {
      lowering.refuse(value, other_schedule);
    }
  }
}

/// Returns the row of a key without a counterpart. Any value is ignored.
constexpr DialectKey without_effect(std::string_view name, std::string_view why) {
  return {.name = name, .value = map, .state = moot, .note = why};
}

constexpr std::array file_keys{
    DialectKey{"train_batch_size", number, "", taken, "train.global_batch"},
    DialectKey{"train_micro_batch_size_per_gpu", number, "", taken, "train.micro_batch"},
    DialectKey{"gradient_accumulation_steps", number, "", taken, "train.accumulation"},
    DialectKey{"gradient_clipping", number, "", taken, "optimizer.clip_norm", "0: null", "", "", hf::max_grad_norm},
    DialectKey{"bf16.enabled", flag, "false", taken, "precision.dtype", "", "", "", jointly},
    without_effect("bf16.*", "bf16 needs no loss scale, and train.on_nonfinite applies to all types"),
    DialectKey{"fp16.enabled", flag, "false", taken, "precision.dtype", "", "", "", jointly},
    DialectKey{"fp16.auto_cast", flag, "", moot, "", "batches are numbers of tokens"},
    DialectKey{"fp16.loss_scale", number, "0", refused, "", "the loss scale is dynamic", "0|0.0"},
    DialectKey{"fp16.initial_scale_power", number, "16", taken, "precision.init_scale", "", "", "", jointly},
    DialectKey{"fp16.loss_scale_window", number, "1000", taken, "precision.growth_interval", "", "", "", jointly},
    DialectKey{"fp16.hysteresis", number, "2", noted, "", "each overflow makes the loss scale smaller", "1"},
    DialectKey{"fp16.consecutive_hysteresis", flag, "", moot, "", "it belongs to hysteresis"},
    DialectKey{"fp16.min_loss_scale", number, "1", taken, "precision.min_scale", "", "", "", jointly},
    DialectKey{"fp16.fp16_master_weights_and_grads", flag, "", refused, "", "master weights are fp32, fp64 or bf16",
               "false"},
    DialectKey{"fp8.enabled", flag, "", refused, "", "training computes in fp64, fp32, bf16 or fp16", "false"},
    without_effect("fp8.*", "it belongs to fp8"),
    DialectKey{"amp.enabled", flag, "", refused, "", "precision.dtype says the type: bf16 or fp16", "false"},
    DialectKey{"amp.opt_level", text, "", moot, "", "it belongs to amp"},
    DialectKey{"zero_optimization.stage", number, "0", taken, "parallel.zero", "", "", "", stage},
    DialectKey{"zero_optimization.offload_optimizer.device", text, "", taken, "train.offload", "", "", "", device},
    DialectKey{"zero_optimization.offload_param.device", text, "", taken, "train.offload", "", "", "", device},
    DialectKey{"zero_optimization.cpu_offload", flag, "", refused, "", "its successor is offload_optimizer", "false"},
    DialectKey{"zero_optimization.zero_quantized_weights", flag, "", refused, "", no_fewer_bits, "false"},
    DialectKey{"zero_optimization.zero_quantized_gradients", flag, "", refused, "", no_fewer_bits, "false"},
    DialectKey{"zero_optimization.zero_quantized_nontrainable_weights", flag, "", refused, "", no_fewer_bits, "false"},
    DialectKey{"zero_optimization.zero_hpz_partition_size", number, "", refused, "",
               "parallel.dp_shard and parallel.dp_replicate divide the ranks into groups of shards", "1"},
    DialectKey{"zero_optimization.mics_shard_size", number, "", refused, "",
               "parallel.dp_shard and parallel.dp_replicate divide the ranks into groups of shards", "-1"},
    DialectKey{"zero_optimization.stage3_gather_16bit_weights_on_model_save", flag, "", taken,
               "checkpoint.export_at_end", "true", "", "", hf::export_at_end},
    DialectKey{"zero_optimization.stage3_gather_fp16_weights_on_model_save", flag, "", taken,
               "checkpoint.export_at_end", "true", "", "", hf::export_at_end},
    DialectKey{"zero_optimization.gather_16bit_weights_on_model_save", flag, "", taken, "checkpoint.export_at_end",
               "true", "", "", hf::export_at_end},
    DialectKey{"optimizer.type", text, "", taken, "optimizer.name", "", "", "", optimizer_type},
    DialectKey{"optimizer.params.lr", number, "", taken, "optimizer.lr"},
    DialectKey{"optimizer.params.betas", list, "", taken, "optimizer.betas"},
    DialectKey{"optimizer.params.eps", number, "", taken, "optimizer.eps"},
    DialectKey{"optimizer.params.weight_decay", number, "", taken, "optimizer.weight_decay"},
    DialectKey{"optimizer.params.momentum", number, "", taken, "optimizer.momentum"},
    DialectKey{"optimizer.params.nesterov", flag, "", taken, "optimizer.nesterov"},
    DialectKey{"optimizer.params.bias_correction", flag, "", refused, "", "Adam's moments are always corrected",
               "true"},
    DialectKey{"optimizer.params.adam_w_mode", flag, "", refused, "", "weights decay by themselves, as in AdamW",
               "true"},
    DialectKey{"optimizer.params.amsgrad", flag, "", refused, "", "AMSGrad is not supported", "false"},
    DialectKey{"optimizer.params.torch_adam", flag, "", moot, "", "kernels are Lockstep's own"},
    DialectKey{"optimizer.params.fused", flag, "", moot, "", "kernels are Lockstep's own"},
    DialectKey{"scheduler.type", text, "", taken, "schedule.name", "", "", "", jointly},
    DialectKey{"scheduler.params", map, "", taken, "optimizer.lr, schedule.warmup_steps, schedule.decay_steps",
               "rates and steps; a warm-up from 0", "", "", jointly},
    DialectKey{"data_types.grad_accum_dtype", text, "", refused, "", "gradients are summed in the master weights' type",
               "fp32|null"},
    DialectKey{"communication_data_type", text, "", taken, "precision.reduce_dtype"},
    DialectKey{"gradient_predivide_factor", number, "", moot, "", "gradients are divided by the number of tokens"},
    DialectKey{"prescale_gradients", flag, "", moot, "", "gradients are divided by the number of tokens"},
    DialectKey{"sparse_gradients", flag, "", refused, "", "gradients are dense", "false"},
    DialectKey{"zero_allow_untested_optimizer", flag, "", moot, "", "all optimizers are tested with shards"},
    DialectKey{"zero_force_ds_cpu_optimizer", flag, "", moot, "", "kernels are Lockstep's own"},
    DialectKey{"seed", number, "", taken, "train.seed"},
    DialectKey{"tensor_parallel.autotp_size", number, "", taken, "parallel.tp"},
    DialectKey{"sequence_parallel_size", number, "", taken, "parallel.ulysses"},
    without_effect("zero_optimization.allgather_partitions", own_exchanges),
    without_effect("zero_optimization.allgather_bucket_size", own_exchanges),
    without_effect("zero_optimization.overlap_comm", own_exchanges),
    without_effect("zero_optimization.reduce_scatter", own_exchanges),
    without_effect("zero_optimization.reduce_bucket_size", own_exchanges),
    without_effect("zero_optimization.contiguous_gradients", own_memory),
    without_effect("zero_optimization.load_from_fp32_weights", own_memory),
    without_effect("zero_optimization.grad_hooks", own_exchanges),
    without_effect("zero_optimization.round_robin_gradients", own_exchanges),
    without_effect("zero_optimization.use_multi_rank_bucket_allreduce", own_exchanges),
    without_effect("zero_optimization.stage3_max_live_parameters", own_memory),
    without_effect("zero_optimization.stage3_max_reuse_distance", own_memory),
    without_effect("zero_optimization.stage3_prefetch_bucket_size", own_exchanges),
    without_effect("zero_optimization.stage3_param_persistence_threshold", own_memory),
    without_effect("zero_optimization.stage3_model_persistence_threshold", own_memory),
    without_effect("zero_optimization.stage3_use_all_reduce_for_fetch_params", own_exchanges),
    without_effect("zero_optimization.stage3_module_granularity_threshold", own_exchanges),
    without_effect("zero_optimization.max_live_parameters", own_memory),
    without_effect("zero_optimization.max_reuse_distance", own_memory),
    without_effect("zero_optimization.prefetch_bucket_size", own_exchanges),
    without_effect("zero_optimization.param_persistence_threshold", own_memory),
    without_effect("zero_optimization.model_persistence_threshold", own_memory),
    without_effect("zero_optimization.sub_group_size", own_memory),
    without_effect("zero_optimization.elastic_checkpoint", own_memory),
    without_effect("zero_optimization.ignore_unused_parameters", own_exchanges),
    without_effect("zero_optimization.legacy_stage1", own_exchanges),
    without_effect("zero_optimization.memory_efficient_linear", own_memory),
    without_effect("zero_optimization.override_module_apply", own_memory),
    without_effect("zero_optimization.log_trace_cache_warnings", own_records),
    without_effect("zero_optimization.mics_hierarchical_params_gather", own_exchanges),
    without_effect("zero_optimization.offload_optimizer.*", own_memory),
    without_effect("zero_optimization.offload_param.*", own_memory),
    without_effect("steps_per_print", own_records),
    without_effect("wall_clock_breakdown", own_records),
    without_effect("dump_state", own_records),
    without_effect("memory_breakdown", own_records),
    without_effect("flops_profiler", own_records),
    without_effect("comms_logger", own_records),
    without_effect("comms_config", own_records),
    without_effect("monitor_config", own_records),
    without_effect("timers", own_records),
    DialectKey{"autotuning", map, "", noted, "", "nothing is tuned", "{}"},
    DialectKey{"compile", map, "", noted, "", hf::no_compile, "{}"},
    without_effect("use_node_local_storage", own_records),
    without_effect("seq_parallel_communication_data_type", own_exchanges),
    DialectKey{"dataloader_drop_last", flag, "", taken, "data.drop_last"},
    DialectKey{"load_universal_checkpoint", flag, "", refused, "", "a run resumes from its own checkpoints", "false"},
    DialectKey{"curriculum_learning.enabled", flag, "", refused, "", no_such_feature, "false"},
    without_effect("curriculum_learning.*", "it belongs to curriculum_learning"),
    DialectKey{"data_efficiency.enabled", flag, "", refused, "", no_such_feature, "false"},
    without_effect("data_efficiency.*", "it belongs to data_efficiency"),
    DialectKey{"elasticity.enabled", flag, "", refused, "", "a resume takes any number of ranks", "false"},
    without_effect("elasticity.*", "it belongs to elasticity"),
    DialectKey{"hybrid_engine.enabled", flag, "", refused, "", no_such_feature, "false"},
    without_effect("hybrid_engine.*", "it belongs to hybrid_engine"),
    DialectKey{"progressive_layer_drop.enabled", flag, "", refused, "", no_such_feature, "false"},
    without_effect("progressive_layer_drop.*", "it belongs to progressive_layer_drop"),
    DialectKey{"compression_training", map, "", refused, "", no_such_feature, "{}"},
    DialectKey{"sparse_attention", map, "", refused, "", no_such_feature, "{}"},
    without_effect("tensorboard", own_records),
    without_effect("wandb", own_records),
    without_effect("csv_monitor", own_records),
    without_effect("comet", own_records),
    without_effect("disable_allgather", own_exchanges),
    without_effect("aio", no_disk),
    DialectKey{"activation_checkpointing", map, "", noted, "", "gradient_checkpointing says what is recomputed", "{}"},
    without_effect("checkpoint", own_records),
    without_effect("nebula", own_records),
};

/// The content of DeepSpeed's own file. Values "auto" are those of the Trainer.
void lower_file(const Node& document, Lowering& lowering) {
  lowering.part(file_keys, "DeepSpeed", document);
  const auto given = [&](const char* key) {
    const Node* const value = document.find(key);
    return value != nullptr && !is_auto(*value);
  };
  if (given("train_batch_size") && given("train_micro_batch_size_per_gpu") && given("gradient_accumulation_steps"))
    lowering.set("parallel.micro_batches", "1",
                 *document.find("train_batch_size"));  // it is the product of the three and the ranks
  for (const char* type : {"bf16", "fp16"}) {
    const Node* const enabled = find(document, fmt::format("{}.enabled", type));
    if (enabled != nullptr && flag_word(enabled->text).value_or(false)) lowering.set("precision.dtype", type, *enabled);
  }
  lower_loss_scale(document, lowering);
  lower_offload(document, "zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device",
                lowering);
  lower_scheduler(document, lowering);
}

void accumulation(const Node& value, Lowering& lowering) {
  if (!lowering.is_set("train.accumulation")) lowering.set("train.accumulation", value);
}

void clipping(const Node& value, Lowering& lowering) {
  if (!lowering.is_set("optimizer.clip_norm")) hf::max_grad_norm(value, lowering);
}

void config_file(const Node& value, Lowering& lowering) {
  if (const std::optional<Node> document = lowering.file(value, "")) lower_file(*document, lowering);
}

/// Accelerate's section. Its defaults give way to values of the Trainer's keys.
constexpr std::array section_keys{
    DialectKey{"zero_stage", number, "2", taken, "parallel.zero", "", "", "", stage},
    DialectKey{"offload_optimizer_device", text, "", taken, "train.offload", "", "", "", device},
    DialectKey{"offload_param_device", text, "", taken, "train.offload", "", "", "", device},
    DialectKey{"gradient_accumulation_steps", number, "", taken, "train.accumulation", "", "", "", accumulation},
    DialectKey{"gradient_clipping", number, "", taken, "optimizer.clip_norm", "", "", "", clipping},
    DialectKey{"deepspeed_config_file", text, "", taken, "", "a file of DeepSpeed", "", "", config_file},
    DialectKey{"zero3_save_16bit_model", flag, "", taken, "checkpoint.export_at_end", "true", "", "",
               hf::export_at_end},
    without_effect("zero3_init_flag", own_memory),
    without_effect("deepspeed_multinode_launcher", hf::launched),
    without_effect("deepspeed_hostfile", hf::launched),
    without_effect("deepspeed_exclusion_filter", hf::launched),
    without_effect("deepspeed_inclusion_filter", hf::launched),
    without_effect("offload_optimizer_nvme_path", no_disk),
    without_effect("offload_param_nvme_path", no_disk),
    without_effect("deepspeed_moe_layer_cls_names", "the blocks of a model are known"),
};

}  // namespace

void lower_deepspeed(Lowering& lowering) {
  const Node* const file = lowering.given("deepspeed");
  if (file != nullptr && file->kind == Node::Kind::map) lower_file(*file, lowering);
  const Node* const type = lowering.given("distributed_type");
  const Node* const section = lowering.given("deepspeed_config");
  if (section == nullptr || (type != nullptr && type->text != "DEEPSPEED")) return;
  lowering.part(section_keys, "deepspeed_config", *section);
  lower_offload(*section, "offload_optimizer_device", "offload_param_device", lowering);
}

}  // namespace lockstep::accelerate
