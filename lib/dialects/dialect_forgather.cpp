// The dialect of forgather: the map of its trainers' arguments, and what their constructors take. Source of names and
// built-in values: its document on the options of trainers; what they do there: its code.
#include "dialects/dialect_hf.hpp"
#include "dialects/dialect_tables.hpp"
#include "dialects/lowering.hpp"
#include "options/interpret.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>

namespace lockstep {

namespace {

using enum DialectKey::Value;
using enum DialectKey::State;
using hf::jointly;

constexpr const char* no_fp8 = "this version trains only in fp32, fp64, bf16 and fp16";

void param_dtype(const Node& value, Lowering& lowering) { hf::dtype(value, "precision.dtype", lowering); }
void reduce_dtype(const Node& value, Lowering& lowering) { hf::dtype(value, "precision.reduce_dtype", lowering); }

/// The type that a model is built in, and so kept and updated in.
void default_dtype(const Node& value, Lowering& lowering) {
  if (value.text.ends_with("float16") && !value.text.ends_with("bfloat16"))
    return lowering.refuse(value, "weights are fp32, fp64 or bf16: use mixed_precision to compute in fp16");
  hf::dtype(value, "precision.dtype", lowering);
  if (value.text.ends_with("bfloat16")) lowering.set("precision.weights", "bf16", value);
}

void mixed_precision(const Node& value, Lowering& lowering) {
  if (value.text != "no" || lowering.given("default_dtype") == nullptr) param_dtype(value, lowering);
}

void matmul_precision(const Node& value, Lowering& lowering) {
  if (value.text != "highest" && value.text != "high" && value.text != "medium")
    return lowering.refuse(value, "it must be one of highest, high and medium");
  lowering.set("precision.matmul", value.text == "highest" ? "fp32" : "tf32", value);
}

void activation_budget(const Node& value, Lowering& lowering) {
  double share = 0;
  const auto [end, error] = std::from_chars(value.text.data(), value.text.data() + value.text.size(), share);
  if (error != std::errc{} || end != value.text.data() + value.text.size() || !(share >= 0 && share <= 1))
    return lowering.refuse(value, "it must be a fraction from 0 to 1");
  lowering.set("train.activation_memory_budget", fmt::format("{}%", share * 100), value);
}

void cpu_offload(const Node& value, Lowering& lowering) {
  if (flag_word(value.text).value_or(false)) hf::offload({"optimizer", "shards"}, value, lowering);
}

/// The value of the preset is the default here too, and would be refused without fsdp2.
void reshard_after_forward(const Node& value, Lowering& lowering) {
  if (!Lowering::of_preset(value)) lowering.set("parallel.reshard_after_forward", value);
}

void one_unit(const Node& value, Lowering& lowering) {
  if (!flag_word(value.text).value_or(true)) hf::one_unit(value, lowering);
}

/// There a step that is not finite is no reason to skip an update.
void in_backward(const Node& value, Lowering& lowering) {
  const bool on = flag_word(value.text).value_or(false);
  lowering.set("optimizer.in_backward", on ? "true" : value.text, value);
  if (on) lowering.set("train.on_nonfinite", "stop", value);
}

void repeat_order(const Node& value, Lowering& lowering) {
  lowering.set("data.repeat_order", flag_word(value.text).value_or(true) ? "false" : "true", value);
}

void checkpoint_components(const Node& value, Lowering& lowering) {
  const std::map<std::string, std::string> ours{{"model", "model"},  {"optimizer", "optimizer"}, {"trainer", "trainer"},
                                                {"dataset", "data"}, {"scheduler", ""},          {"rng", ""}};
  Node saved = value;
  saved.items.clear();
  for (const Node& item : value.items) {
    const auto known = ours.find(item.text);
    if (known == ours.end())
      return lowering.refuse(item, "components are model, optimizer, scheduler, trainer, dataset and rng");
    if (known->second.empty()) continue;
    saved.items.push_back(item);
    saved.items.back().text = known->second;
  }
  lowering.set("checkpoint.components", saved);
}

void offload_activations(const Node& value, Lowering& lowering) {
  if (flag_word(value.text).value_or(false)) hf::offload({"activations"}, value, lowering);
}

void eval_batches(const Node& value, Lowering& lowering) {
  lowering.set("eval.batches", value.text.starts_with('-') || value.text == "0" ? "null" : value.text, value);
}

void pipe_schedule(const Node& value, Lowering& lowering) {
  hf::pipeline_schedule(value.text.starts_with("Schedule") ? value.text.substr(8) : value.text, value, lowering);
}

void detect_anomaly(const Node& value, Lowering& lowering) {
  const bool on = flag_word(value.text).value_or(false);
  lowering.set("train.detect_anomaly", on ? "true" : value.text, value);
  if (on) lowering.set("train.on_nonfinite", "stop", value);
}

/// What a group's config may say, by the keys of an element of optimizer.groups.
constexpr std::array group_keys{"lr", "weight_decay", "betas", "eps", "momentum", "nesterov"};

/// A group of the map, as an element of optimizer.groups.
Node group_of(const std::string& name, const Node& said, Lowering& lowering) {
  Node group;
  group.kind = Node::Kind::map;
  group.origin = said.origin;
  const Node* const pattern = said.find("regex");
  if (pattern == nullptr)
    lowering.refuse(said, fmt::format("the group {} has no regex", name));
  else
    group.entries.push_back({"match", *pattern});
  for (const auto& [key, value] : said.entries)
    if (key != "regex" && key != "config")
      lowering.refuse(value, fmt::format("a group has only regex and config, not {}", key));
  const Node* const config = said.find("config");
  if (config == nullptr) return group;
  for (const auto& [key, value] : config->entries) {
    if (std::ranges::find(group_keys, key) != group_keys.end())
      group.entries.push_back({key, value});
    else
      lowering.refuse(value, fmt::format("a group has no {}: it may have {}", key, fmt::join(group_keys, ", ")));
  }
  return group;
}

void optimizer_groups(const Node& value, Lowering& lowering) {
  Node groups = value;
  for (auto& [name, said] : groups.entries)
    if (said.kind != Node::Kind::null) said = group_of(name, said, lowering);
  lowering.set("optimizer.groups", groups);
  lowering.set("optimizer.unmatched", "warn", value);
}

void speed_from_step(const Node& value, Lowering& lowering) {
  const std::optional<std::int64_t> last = lowering.integer("speed_metrics_start_step");
  if (last) lowering.set("log.speed_from_step", std::to_string(*last + 1), value);
}

constexpr std::array forgather_keys{
    DialectKey{"trainer", text, "", taken, "parallel.dp_replicate, parallel.dp_shard, parallel.pp",
               "single, ddp, accelerate, fsdp2 or pipeline", "", "", jointly},
    DialectKey{"output_dir", text, "tmp_trainer", taken, "train.run_dir"},
    DialectKey{"logging_dir", text, "", taken, "log.tensorboard_dir", "auto: RUN/tensorboard", "", "", hf::logging_dir},
    DialectKey{"device", text, "", taken, "train.device", "", "", "", hf::device},
    DialectKey{"seed", number, "-1", taken, "train.seed", "-1 draws one; a resume keeps it"},
    DialectKey{"use_cpu", flag, "false", taken, "train.device", "true: cpu", "", "", hf::use_cpu},
    DialectKey{"num_train_epochs", number, "1", taken, "train.epochs", "max_steps takes precedence", "", "", jointly},
    DialectKey{"max_steps", number, "-1", taken, "train.max_steps", "may extend or shorten a run; less than 0: none",
               "", "", jointly},
    DialectKey{"epoch_train_steps", number, "100000", moot, "", "the length of prepared data is known"},
    DialectKey{"per_device_train_batch_size", number, "16", taken, "train.micro_batch",
               "with a pipeline divided by n_microbatches", "", "", jointly},
    DialectKey{"per_device_eval_batch_size", number, "16", taken, "eval.micro_batch",
               "with a pipeline divided by n_microbatches", "", "", jointly},
    DialectKey{"gradient_accumulation_steps", number, "1", taken, "train.accumulation"},
    DialectKey{"max_grad_norm", number, "", taken, "optimizer.clip_norm", "0: null", "", "", hf::max_grad_norm},
    DialectKey{"dataloader_num_workers", number, "0", taken, "data.prefetch", "batches are made by one thread", "", "",
               jointly},
    DialectKey{"dataloader_pin_memory", flag, "true", moot, "", "host buffers are pinned if there is a device"},
    DialectKey{"dataloader_persistent_workers", flag, "false", moot, "", "the thread that makes batches is kept"},
    DialectKey{"dataloader_prefetch_factor", number, "", taken, "data.prefetch", "", "", "", jointly},
    DialectKey{"dataloader_drop_last", flag, "false", taken, "data.drop_last"},
    DialectKey{"eval_strategy", text, "no", taken, "eval.every", "no, steps or epoch", "", "", jointly},
    DialectKey{"eval_steps", number, "100", taken, "eval.every", "at multiples of it", "", "", jointly},
    DialectKey{"eval_delay", number, "0", taken, "eval.delay", "in steps; used with eval_strategy", "", "", jointly},
    DialectKey{"logging_strategy", text, "steps", taken, "log.every", "no, steps or epoch", "", "", jointly},
    DialectKey{"logging_steps", number, "50", taken, "log.every", "at multiples of it", "", "", jointly},
    DialectKey{"logging_first_step", flag, "false", taken, "log.first_step"},
    DialectKey{"torch_compile", flag, "false", noted, "", hf::no_compile, "false"},
    DialectKey{"torch_compile_backend", text, "inductor", moot, "", hf::no_compile},
    DialectKey{"torch_compile_mode", text, "default", moot, "", hf::no_compile},
    DialectKey{"torch_compile_dynamic", flag, "true", moot, "", hf::no_compile},
    DialectKey{"torch_compile_full_graph", flag, "false", moot, "", hf::no_compile},
    DialectKey{"save_strategy", text, "steps", taken, "checkpoint.every, checkpoint.at_end",
               "no, steps or epoch; no: none at the end either", "", "", jointly},
    DialectKey{"save_steps", number, "1000", taken, "checkpoint.every", "at multiples of it", "", "", jointly},
    DialectKey{"save_total_limit", number, "2", taken, "checkpoint.keep_last", "without the best; 0: 1; less: all", "",
               "", hf::save_total_limit},
    DialectKey{"save_safetensors", flag, "true", moot, "", "checkpoints are HDF5 files, and exports safetensors"},
    DialectKey{"save_on_each_node", flag, "false", taken, "checkpoint.storage", "true: per_node", "", "",
               hf::node_storage},
    DialectKey{"overwrite_output_dir", flag, "false", moot, "", "checkpoints are never overwritten"},
    DialectKey{"resume_from_checkpoint", text, "true", taken, "checkpoint.resume",
               "true: auto; false: never; or a path", "", "", hf::resume_from_checkpoint},
    DialectKey{"load_best_model_at_end", flag, "false", taken, "checkpoint.load_best_at_end",
               "only the weights, after the last checkpoint"},
    DialectKey{"metric_for_best_model", text, "loss", taken, "checkpoint.best_metric, checkpoint.best_dataset",
               "loss, eval_loss or eval_SET_loss, likewise of the others", "", "", hf::metric},
    DialectKey{"greater_is_better", flag, "", taken, "checkpoint.best_direction", "", "", "", hf::greater_is_better},
    DialectKey{"learning_rate", number, "5e-5", taken, "optimizer.lr"},
    DialectKey{"weight_decay", number, "0.0", taken, "optimizer.weight_decay, optimizer.decay",
               "applies to all tensors", "", "", hf::weight_decay},
    DialectKey{"adam_beta1", number, "0.9", taken, "optimizer.betas", "the first", "", "", jointly},
    DialectKey{"adam_beta2", number, "0.999", taken, "optimizer.betas", "the second", "", "", jointly},
    DialectKey{"adam_epsilon", number, "1e-8", taken, "optimizer.eps"},
    DialectKey{"lr_scheduler_type", text, "linear", taken, "schedule.name", "same names", "", "", jointly},
    DialectKey{"lr_scheduler_kwargs", map, "{}", taken,
               "schedule.min_lr, schedule.power, schedule.timescale, schedule.cycles, schedule.cooldown_steps, "
               "schedule.cooldown_shape",
               "", "", "", jointly},
    DialectKey{"warmup_steps", number, "0", taken, "schedule.warmup_steps, schedule.warmup_from",
               "counted from 0: the first step has learning rate 0; schedule constant has no warm-up", "", "", jointly},
    DialectKey{"gradient_checkpointing", flag, "false", taken, "train.recompute", "block or none", "", "",
               hf::recompute},
    DialectKey{"default_dtype", text, "", taken, "precision.dtype, precision.weights", "float32, float64 or bfloat16",
               "", "", default_dtype},
    DialectKey{"max_eval_steps", number, "-1", taken, "eval.batches", "in global batches; less than 1: all", "", "",
               eval_batches},
    DialectKey{"preserve_best_model", flag, "false", taken, "checkpoint.keep_best", "false: 0", "", "", jointly},
    DialectKey{"best_model_metric", text, "loss", taken, "checkpoint.best_metric, checkpoint.best_dataset",
               "as metric_for_best_model", "", "", hf::metric},
    DialectKey{"best_model_greater_is_better", flag, "", taken, "checkpoint.best_direction", "", "", "",
               hf::greater_is_better},
    DialectKey{"preserve_n_best", number, "1", taken, "checkpoint.keep_best", "with preserve_best_model", "", "",
               jointly},
    DialectKey{"eval_on_save", flag, "false", taken, "eval.on_save"},
    DialectKey{"enable_activation_offloading", flag, "false", taken, "train.offload", "true: activations", "", "",
               offload_activations},
    DialectKey{"detect_anomaly", flag, "false", taken, "train.detect_anomaly, train.on_nonfinite",
               "true: also on_nonfinite stop", "", "", detect_anomaly},
    DialectKey{"sdpa_backend", text, "", moot, "", "there is one attention kernel, computed in blocks"},
    DialectKey{"sdpa_set_priority", flag, "false", moot, "", "there is one attention kernel, computed in blocks"},
    DialectKey{"float32_matmul_precision", text, "", taken, "precision.matmul", "highest: fp32; high, medium: tf32", "",
               "", matmul_precision},
    DialectKey{"dynamo_recompile_limit", number, "", moot, "", hf::no_compile},
    DialectKey{"mixed_precision", text, "", taken, "precision.dtype", "no: default_dtype, else fp32; bf16; fp16", "",
               "", mixed_precision},
    DialectKey{"fp8_recipe", text, "", refused, "", no_fp8},
    DialectKey{"fp8_dim_alignment", number, "16", moot, "", "belongs to fp8_recipe, which is refused"},
    DialectKey{"qat_recipe", text, "", refused, "", "finalize-quantize quantises after training"},
    DialectKey{"gc_threshold", number, "0.5", moot, "", "there is no garbage collector"},
    DialectKey{"construct_model_on", text, "default", refused, "", "each rank initialises its own weights",
               "default|device|meta"},
    DialectKey{"activation_memory_budget", number, "", taken, "train.activation_memory_budget",
               "a fraction: 0.4 is 40%", "", "", activation_budget},
    DialectKey{"fuse_optim_with_backward", flag, "false", taken, "optimizer.in_backward, train.on_nonfinite",
               "true: with stop", "", "", in_backward},
    DialectKey{"speed_metrics_start_step", number, "1", taken, "log.speed_from_step",
               "plus 1: the step itself is not measured", "", "", speed_from_step},
    DialectKey{"set_dataset_epoch", flag, "true", taken, "data.repeat_order", "false: the same order in every epoch",
               "", "", repeat_order},
    DialectKey{"checkpoint_components", list, "", taken, "checkpoint.components",
               "dataset is data; scheduler and rng follow from the step and the seed", "", "", checkpoint_components},
    DialectKey{"debug_optimizer_groups", flag, "false", refused, "", "--print-groups shows the groups", "false"},
    DialectKey{"dispatch_batches", flag, "true", moot, "", "every way to read data gives the same batches"},
    DialectKey{"dispatch_eval_batches", flag, "", moot, "", "every way to read data gives the same batches"},
    DialectKey{"ddp.broadcast_buffers", flag, "true", moot, "", hf::not_needed},
    DialectKey{"ddp.init_sync", flag, "true", moot, "", hf::not_needed},
    DialectKey{"ddp.bucket_cap_mb", number, "", taken, "parallel.bucket_size", "in MiB", "", "", hf::bucket_cap},
    DialectKey{"ddp.find_unused_parameters", flag, "false", moot, "", hf::not_needed},
    DialectKey{"ddp.gradient_as_bucket_view", flag, "true", moot, "", hf::not_needed},
    DialectKey{"ddp.static_graph", flag, "false", moot, "", hf::not_needed},
    DialectKey{"ddp.skip_all_reduce_unused_params", flag, "false", moot, "", hf::not_needed},
    DialectKey{"post_local_sgd.enabled", flag, "false", taken, "post_local_sgd.start_step", "", "", "", jointly},
    DialectKey{"post_local_sgd.start_step", number, "500", taken, "post_local_sgd.start_step", "", "",
               "post_local_sgd.enabled", jointly},
    DialectKey{"post_local_sgd.period", number, "4", taken, "post_local_sgd.period", "", "", "post_local_sgd.enabled"},
    DialectKey{"post_local_sgd.post_local_gradient_allreduce", flag, "false", refused, "",
               "post_local_sgd.cell sets how many ranks keep summing gradients with each other: lockstep: "
               "{post_local_sgd: {cell: RANKS OF A NODE}}",
               "false", "post_local_sgd.enabled"},
    DialectKey{"fsdp2.reshard_after_forward", text, "true", taken, "parallel.reshard_after_forward",
               "true, false or a number of ranks", "", "", reshard_after_forward},
    DialectKey{"fsdp2.param_dtype", text, "", taken, "precision.dtype", "", "", "", param_dtype},
    DialectKey{"fsdp2.reduce_dtype", text, "", taken, "precision.reduce_dtype", "", "", "", reduce_dtype},
    DialectKey{"fsdp2.buffer_dtype", text, "", moot, "", "a model has no buffers"},
    DialectKey{"fsdp2.cpu_offload", flag, "false", taken, "train.offload", "true: optimizer and shards", "", "",
               cpu_offload},
    DialectKey{"fsdp2.shard_transformer_layers", flag, "true", taken, "parallel.bucket_size",
               "false: the model is one unit", "", "", one_unit},
    DialectKey{"fsdp2.transformer_layers_path", text, "causal_lm.layer_stack.layers", moot, "",
               "the blocks of a model are known"},
    DialectKey{"n_microbatches", number, "4", taken, "parallel.micro_batches", "with a pipeline", "", "", jointly},
    DialectKey{"stages_per_rank", number, "1", taken, "parallel.stages_per_rank", "with a pipeline", "", "", jointly},
    DialectKey{"pp_stage_type", text, "loop", refused, "",
               "stages lie in a V with pipe_schedule_factory: ScheduleZBVZeroBubble, otherwise in a loop", "loop"},
    DialectKey{"is_multistage", flag, "false", moot, "", "follows from stages_per_rank"},
    DialectKey{"debug_pipeline", flag, "false", refused, "", "--print-program shows what each rank does", "false"},
    DialectKey{"debug_split_model", flag, "false", refused, "", "--print-layout shows the stages of tensors", "false"},
    DialectKey{"debug_model_params", flag, "false", refused, "", "--print-layout shows all tensors", "false"},
    DialectKey{"debug_model_init", flag, "false", refused, "", "checkpoint-inspect shows values of any step", "false"},

    DialectKey{"args", text, "", refused, "", "write its members at the top level of the file"},
    DialectKey{"model", text, "", taken, "model.path", "a folder with weights, or a model in the cache of the hub"},
    DialectKey{"model_init", text, "", taken, "model.config", "weights are initialised by seed"},
    DialectKey{"data_collator", text, "", refused, "", "data.packing sets how documents become samples"},
    DialectKey{"train_dataset", text, "", taken, "data.path"},
    DialectKey{"eval_dataset", text, "", refused, "",
               "data.validation_split is evaluated, or eval.datasets in the section lockstep"},
    DialectKey{"processing_class", text, "", taken, "data.tokenizer", "used to prepare text; default: the model's own"},
    DialectKey{"callbacks", list, "", taken, "train.callbacks", "by name, also of plug-ins: lockstep-plugin(7)"},
    DialectKey{"compute_loss_func", text, "", taken, "train.loss", "by name, also of plug-ins: lockstep-plugin(7)"},
    DialectKey{"distributed_env", text, "", moot, "", "mpirun or srun set the number of ranks and their nodes"},
    DialectKey{"optimizer_factory", text, "", taken, "optimizer.name", "by name"},
    DialectKey{"optimizer_cls_and_kwargs", list, "", refused, "",
               "optimizer_factory names the optimizer, the section optimizer has its options"},
    DialectKey{"optimizer_groups", map, "", taken, "optimizer.groups, optimizer.unmatched",
               "regex and config of each; a regex that matches nothing is a warning", "", "", optimizer_groups},
    DialectKey{"lr_scheduler_factory", text, "", taken, "schedule.name", "by name"},
    DialectKey{"enable_activation_checkpoint_fn", text, "", taken, "train.recompute",
               "by name: none, block, every:K, or a name from a plug-in"},
    DialectKey{"fused_loss_factory", text, "", moot, "", "the head always fuses the loss with its product"},
    DialectKey{"accelerator", text, "", moot, "", "mpirun or srun set the number of ranks and their nodes"},
    DialectKey{"model_splitter", text, "", taken, "parallel.stage_splitter",
               "by name; parallel.split_points in the section lockstep names the first blocks of stages"},
    DialectKey{"pipe_schedule_factory", text, "", taken, "parallel.schedule", "", "", "", pipe_schedule},
};

void lower_trainer(Lowering& lowering) {
  const Node* const trainer = lowering.given("trainer");
  const std::string name = trainer == nullptr ? "single" : trainer->text;
  const bool pipeline = name == "pipeline";
  if (name == "single" || name == "ddp" || name == "accelerate") {
    if (trainer != nullptr) lowering.set("parallel.dp_shard", "1", *trainer);
    if (name == "single" && trainer != nullptr) lowering.set("parallel.dp_replicate", "1", *trainer);
  } else if (name == "fsdp2" || pipeline) {
    lowering.set("parallel.dp_replicate", "1", *trainer);
    lowering.set(pipeline ? "parallel.pp" : "parallel.dp_shard", "auto", *trainer);
    if (pipeline) lowering.set("parallel.dp_shard", "1", *trainer);
  } else {
    lowering.refuse(*trainer, "it must be one of single, ddp, accelerate, fsdp2 and pipeline");
  }
  const std::int64_t parts = pipeline ? lowering.integer("n_microbatches").value_or(4) : 1;
  if (pipeline) lowering.set("parallel.micro_batches", std::to_string(parts), *trainer);
  if (const Node* const stages = lowering.given("stages_per_rank");
      stages != nullptr && pipeline && stages->text != "1")
    lowering.set("parallel.stages_per_rank", *stages);
  for (const auto& [theirs, ours] : {std::pair("per_device_train_batch_size", "train.micro_batch"),
                                     std::pair("per_device_eval_batch_size", "eval.micro_batch")}) {
    const std::optional<std::int64_t> batch = lowering.integer(theirs);
    if (!batch) continue;
    const Node& said = *lowering.given(theirs);
    if (parts < 1 || *batch % parts != 0)
      lowering.refuse(said, fmt::format("it is not a multiple of n_microbatches, {}", parts));
    else
      lowering.set(ours, std::to_string(*batch / parts), said);
  }
}

void finish_forgather(Lowering& lowering) {
  lower_trainer(lowering);
  hf::one_micro_batch("per_device_train_batch_size", "gradient_accumulation_steps", lowering);
  hf::lower_length(lowering);
  hf::lower_optimizer(lowering);
  hf::lower_schedule(lowering);
  hf::lower_cadence(lowering);
  hf::lower_delay("steps", lowering);
  hf::lower_prefetch(lowering);
  if (const Node* const best = lowering.given("preserve_best_model"))
    lowering.set("checkpoint.keep_best",
                 lowering.on("preserve_best_model", false) ? lowering.text("preserve_n_best") : "0", *best);
  if (lowering.on("post_local_sgd.enabled", false))
    lowering.set("post_local_sgd.start_step", lowering.text("post_local_sgd.start_step"),
                 *lowering.given("post_local_sgd.enabled"));
}

}  // namespace

const Dialect& forgather_dialect() {
  static constexpr Dialect dialect{
      .name = "forgather", .preset = "forgather", .keys = forgather_keys, .finish = finish_forgather};
  return dialect;
}

}  // namespace lockstep
