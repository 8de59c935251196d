// The dialect of transformers: TrainingArguments, the file that Accelerate writes for a launch
// (dialects/dialect_accelerate.hpp), and TRL's arguments of supervised fine-tuning (dialects/dialect_trl.hpp). Source
// of names: their documents and classes.
#include "dialects/dialect_accelerate.hpp"
#include "dialects/dialect_hf.hpp"
#include "dialects/dialect_tables.hpp"
#include "dialects/dialect_trl.hpp"
#include "dialects/lowering.hpp"
#include "options/interpret.hpp"

#include <fmt/format.h>

#include <array>
#include <set>
#include <span>
#include <vector>

namespace lockstep {

namespace {

using enum DialectKey::Value;
using enum DialectKey::State;
using hf::jointly;

constexpr const char* only_sums = "an evaluation keeps only sums";
constexpr const char* own_kernels = "kernels are Lockstep's own";

void bf16(const Node& value, Lowering& lowering) {
  if (flag_word(value.text).value_or(false)) lowering.set("precision.dtype", "bf16", value);
}

void fp16(const Node& value, Lowering& lowering) {
  if (flag_word(value.text).value_or(false)) lowering.set("precision.dtype", "fp16", value);
}

void tf32(const Node& value, Lowering& lowering) {
  if (const auto on = flag_word(value.text)) lowering.set("precision.matmul", *on ? "tf32" : "fp32", value);
}

void ddp_backend(const Node& value, Lowering& lowering) {
  if (value.text == "nccl") return lowering.set("parallel.transport", "auto", value);
  if (value.text == "gloo" || value.text == "mpi") return lowering.set("parallel.transport", "host", value);
  lowering.refuse(value, "it must be one of nccl, gloo and mpi");
}

void save_only_model(const Node& value, Lowering& lowering) {
  if (flag_word(value.text).value_or(false)) lowering.set("checkpoint.components", "model", value);
}

void optim(const Node& value, Lowering& lowering) {
  static const std::set<std::string> adamw{"adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw"};
  if (adamw.contains(value.text)) return lowering.set("optimizer.name", "adamw", value);
  if (value.text == "sgd") return lowering.set("optimizer.name", "sgd", value);
  if (value.text == "adafactor") return lowering.set("optimizer.name", "adafactor", value);
  if (value.text == "lion_32bit") return lowering.set("optimizer.name", "lion", value);
  lowering.refuse(value, "it must be one of adamw_torch, adamw_torch_fused, adafactor, lion_32bit and sgd");
}

void sampling(const Node& value, Lowering& lowering) {
  if (value.text != "random" && value.text != "sequential")
    return lowering.refuse(value, "use data.packing in the section lockstep: it needs less padding");
  lowering.set("data.shuffle", value.text == "random" ? "true" : "false", value);
}

void seed(const Node& value, Lowering& lowering) {
  if (value.text.starts_with('-'))
    return lowering.refuse(value, "it must be at least 0: use train.seed -1 to draw one");
  lowering.set("train.seed", value);
}

/// There a run starts from scratch unless it is told to resume, and writes over what lies in its folder.
void lower_start(Lowering& lowering) {
  const Node* const resumes = lowering.given("resume_from_checkpoint");
  const bool from_scratch = resumes == nullptr || !flag_word(resumes->text).value_or(true);
  if (from_scratch && lowering.on("overwrite_output_dir", false))
    lowering.set("checkpoint.resume", "afresh", *lowering.given("overwrite_output_dir"));
  else if (resumes != nullptr)
    hf::resume_from_checkpoint(*resumes, lowering);
  if (from_scratch || !lowering.on("ignore_data_skip", false)) return;
  const Node& skips = *lowering.given("ignore_data_skip");
  if (flag_word(resumes->text))
    return lowering.refuse(skips,
                           "a run that resumes itself continues at its data position; data can begin anew only with a "
                           "resume_from_checkpoint that is the path of another run");
  Node data = skips;
  data.text = "data";
  lowering.set("checkpoint.skip", std::move(data));
}

constexpr std::array trainer_keys{
    DialectKey{"output_dir", text, "trainer_output", taken, "train.run_dir"},
    DialectKey{
        "overwrite_output_dir", flag, "false", taken, "checkpoint.resume",
        "true without resume_from_checkpoint: afresh; older checkpoints are moved aside, unless the run was stopped "
        "with exit code 75 or requeued",
        "", "", jointly},
    DialectKey{"do_train", flag, "false", moot, "", "train always trains"},
    DialectKey{"do_eval", flag, "", moot, "", "set by eval_strategy and eval.at_end"},
    DialectKey{"do_predict", flag, "", refused, "", "train only trains and evaluates", "false"},
    DialectKey{"num_train_epochs", number, "3", taken, "train.epochs",
               "max_steps takes precedence; the last step of an epoch may be short (data.short_last_step)", "", "",
               jointly},
    DialectKey{"max_steps", number, "-1", taken, "train.max_steps", "less than 0: none", "", "", jointly},
    DialectKey{"per_device_train_batch_size", number, "8", taken, "train.micro_batch"},
    DialectKey{"per_device_eval_batch_size", number, "8", taken, "eval.micro_batch"},
    DialectKey{"per_gpu_train_batch_size", number, "", taken, "train.micro_batch",
               "the former name of per_device_train_batch_size"},
    DialectKey{"per_gpu_eval_batch_size", number, "", taken, "eval.micro_batch",
               "the former name of per_device_eval_batch_size"},
    DialectKey{
        "gradient_accumulation_steps", number, "1", taken, "train.accumulation",
        "the last step of an epoch takes the remaining samples (data.short_last_step), and its loss is the mean over "
        "its own tokens; no sample is repeated on several ranks"},
    DialectKey{"average_tokens_across_devices", flag, "true", noted, "",
               "the loss of a step is the mean over all its tokens", "true"},
    DialectKey{"eval_accumulation_steps", number, "", moot, "", only_sums},
    DialectKey{"prediction_loss_only", flag, "false", moot, "", only_sums},
    DialectKey{"eval_do_concat_batches", flag, "true", moot, "", only_sums},
    DialectKey{"eval_use_gather_object", flag, "false", moot, "", only_sums},
    DialectKey{"batch_eval_metrics", flag, "false", moot, "", only_sums},
    DialectKey{"include_for_metrics", list, "[]", moot, "", only_sums},
    DialectKey{"learning_rate", number, "5e-5", taken, "optimizer.lr"},
    DialectKey{"weight_decay", number, "0.0", taken, "optimizer.weight_decay",
               "of matrices: norms and biases do not decay there either"},
    DialectKey{"adam_beta1", number, "0.9", taken, "optimizer.betas", "the first", "", "", jointly},
    DialectKey{"adam_beta2", number, "0.999", taken, "optimizer.betas", "the second", "", "", jointly},
    DialectKey{"adam_epsilon", number, "1e-8", taken, "optimizer.eps"},
    DialectKey{"max_grad_norm", number, "1.0", taken, "optimizer.clip_norm", "0: null", "", "", hf::max_grad_norm},
    DialectKey{"optim", text, "adamw_torch", taken, "optimizer.name", "", "", "", optim},
    DialectKey{"adafactor", flag, "false", taken, "optimizer.name", "true: adafactor", "", "", hf::adafactor},
    DialectKey{"optim_target_modules", text, "", refused, "", "GaLore and APOLLO are not supported"},
    DialectKey{"optim_args", text, "", refused, "", "set its options in lockstep: {optimizer: ...}"},
    DialectKey{"lr_scheduler_type", text, "linear", taken, "schedule.name", "same names", "", "", jointly},
    DialectKey{"lr_scheduler_kwargs", map, "{}", taken,
               "schedule.min_lr, schedule.power, schedule.timescale, schedule.cycles, schedule.cooldown_steps, "
               "schedule.cooldown_shape",
               "", "", "", jointly},
    DialectKey{"warmup_steps", number, "0", taken, "schedule.warmup_steps, schedule.warmup_ratio, schedule.warmup_from",
               "below 1 a ratio; counted from 0: the first step has learning rate 0; schedule constant has no "
               "warm-up",
               "", "", jointly},
    DialectKey{"warmup_ratio", number, "0.0", taken, "schedule.warmup_ratio, schedule.warmup_from",
               "warmup_steps takes precedence", "", "", jointly},
    DialectKey{"eval_strategy", text, "no", taken, "eval.every", "no, steps or epoch", "", "", jointly},
    DialectKey{"evaluation_strategy", text, "", taken, "eval.every", "the former name of eval_strategy", "", "",
               jointly},
    DialectKey{"eval_steps", number, "", taken, "eval.every", "at multiples of it", "", "", jointly},
    DialectKey{"eval_delay", number, "0", taken, "eval.delay", "in steps, or in epochs with eval_strategy: epoch", "",
               "", jointly},
    DialectKey{"eval_on_start", flag, "false", taken, "eval.at_start"},
    DialectKey{"logging_dir", text, "", taken, "log.tensorboard_dir", "used only if report_to has tensorboard", "", "",
               jointly},
    DialectKey{"logging_strategy", text, "steps", taken, "log.every", "no, steps or epoch", "", "", jointly},
    DialectKey{"logging_steps", number, "500", taken, "log.every", "at multiples of it", "", "", jointly},
    DialectKey{"logging_first_step", flag, "false", taken, "log.first_step"},
    DialectKey{"logging_nan_inf_filter", flag, "true", moot, "", "records always have the unfiltered losses"},
    DialectKey{"log_level", text, "passive", noted, "", "use --log-level on the command line", "passive|info"},
    DialectKey{"log_level_replica", text, "warning", moot, "", "a job has one log"},
    DialectKey{"include_num_input_tokens_seen", text, "no", moot, "", "records count tokens"},
    DialectKey{"skip_memory_metrics", flag, "true", moot, "", "records have the memory in use"},
    DialectKey{"project", text, "huggingface", moot, "", "it belongs to Trackio"},
    DialectKey{"trackio_space_id", text, "", moot, "", hf::nothing_sent},
    DialectKey{"trackio_bucket_id", text, "", moot, "", hf::nothing_sent},
    DialectKey{"trackio_static_space_id", text, "", moot, "", hf::nothing_sent},
    DialectKey{"log_on_each_node", flag, "true", moot, "", "a job has one log"},
    DialectKey{"disable_tqdm", flag, "", moot, "", "set by --progress"},
    DialectKey{"report_to", list, "none", taken, "log.tensorboard, log.wandb",
               "tensorboard, wandb, which is offline, all or none", "", "", jointly},
    DialectKey{"run_name", text, "", taken, "log.wandb_name", "used only if report_to has wandb", "", "", jointly},
    DialectKey{"save_strategy", text, "steps", taken, "checkpoint.every, checkpoint.at_end",
               "no, steps or epoch; no: none at the end either", "", "", jointly},
    DialectKey{"save_steps", number, "500", taken, "checkpoint.every", "at multiples of it", "", "", jointly},
    DialectKey{"save_total_limit", number, "", taken, "checkpoint.keep_last", "without the best; less than 0: all", "",
               "", hf::save_total_limit},
    DialectKey{"save_safetensors", flag, "true", moot, "", "checkpoints are HDF5 files, and exports safetensors"},
    DialectKey{"save_on_each_node", flag, "false", taken, "checkpoint.storage", "true: per_node", "", "",
               hf::node_storage},
    DialectKey{"save_only_model", flag, "false", taken, "checkpoint.components",
               "true: only the model; no run can resume from it", "", "", save_only_model},
    DialectKey{"resume_from_checkpoint", text, "", taken, "checkpoint.resume", "true: auto; false: never; or a path",
               "", "", jointly},
    DialectKey{"restore_callback_states_from_checkpoint", flag, "false", moot, "",
               "checkpoints always hold the whole state of a run"},
    DialectKey{"ignore_data_skip", flag, "false", taken, "checkpoint.skip",
               "data, if resume_from_checkpoint is the path of another run: data begins anew once, not at each start",
               "", "", jointly},
    DialectKey{"load_best_model_at_end", flag, "false", taken, "checkpoint.load_best_at_end",
               "only the weights, after the last checkpoint"},
    DialectKey{"metric_for_best_model", text, "", taken, "checkpoint.best_metric, checkpoint.best_dataset",
               "loss, eval_loss or eval_SET_loss, likewise of the others", "", "", hf::metric},
    DialectKey{"greater_is_better", flag, "", taken, "checkpoint.best_direction", "", "", "", hf::greater_is_better},
    DialectKey{"use_cpu", flag, "false", taken, "train.device", "true: cpu", "", "", hf::use_cpu},
    DialectKey{"no_cuda", flag, "false", taken, "train.device", "true: cpu", "", "", hf::use_cpu},
    DialectKey{"seed", number, "42", taken, "train.seed", "at least 0", "", "", seed},
    DialectKey{"data_seed", number, "", taken, "data.seed"},
    DialectKey{"full_determinism", flag, "false", moot, "", "runs are deterministic"},
    DialectKey{"bf16", flag, "false", taken, "precision.dtype", "true: bf16", "", "", bf16},
    DialectKey{"fp16", flag, "false", taken, "precision.dtype", "true: fp16", "", "", fp16},
    DialectKey{"bf16_full_eval", flag, "false", refused, "", "evaluations use the types of training", "false"},
    DialectKey{"fp16_full_eval", flag, "false", refused, "", "evaluations use the types of training", "false"},
    DialectKey{"tf32", flag, "", taken, "precision.matmul", "true: tf32, false: fp32", "", "", tf32},
    DialectKey{"activation_checkpointing", flag, "", taken, "train.recompute", "block or none", "", "", jointly},
    DialectKey{"activation_checkpointing_kwargs", map, "", taken, "train.recompute", "every_n_layers: every:N", "", "",
               jointly},
    DialectKey{"gradient_checkpointing", flag, "false", taken, "train.recompute", "block or none", "", "", jointly},
    DialectKey{"gradient_checkpointing_kwargs", map, "", taken, "train.recompute", "every_n_layers: every:N", "", "",
               jointly},
    DialectKey{"use_liger_kernel", flag, "false", noted, "", own_kernels, "false"},
    DialectKey{"liger_kernel_config", map, "", moot, "", own_kernels},
    DialectKey{"use_cache", flag, "false", moot, "", "training keeps no keys and values"},
    DialectKey{"neftune_noise_alpha", number, "", refused, "", "noise on embeddings is not supported"},
    DialectKey{"auto_find_batch_size", flag, "false", refused, "", "--dry-run says what a micro-batch needs", "false"},
    DialectKey{"torch_compile", flag, "false", noted, "", hf::no_compile, "false"},
    DialectKey{"torch_compile_backend", text, "", moot, "", hf::no_compile},
    DialectKey{"torch_compile_mode", text, "", moot, "", hf::no_compile},
    DialectKey{"dataloader_num_workers", number, "0", taken, "data.prefetch", "batches are made by one thread", "", "",
               jointly},
    DialectKey{"dataloader_prefetch_factor", number, "", taken, "data.prefetch", "", "", "", jointly},
    DialectKey{"dataloader_pin_memory", flag, "true", moot, "", "host buffers are pinned if there is a device"},
    DialectKey{"dataloader_persistent_workers", flag, "false", moot, "", "the thread that makes batches is kept"},
    DialectKey{"dataloader_drop_last", flag, "false", taken, "data.drop_last",
               "drops the rest that is less than a micro-batch of every rank; the last step of an epoch may be short "
               "(data.short_last_step)"},
    DialectKey{"dataloader_multiprocessing_context", text, "", moot, "", "batches are made by a thread"},
    DialectKey{"dataloader_in_order", flag, "true", moot, "", "batches come in order"},
    DialectKey{"train_sampling_strategy", text, "random", taken, "data.shuffle", "random or sequential", "", "",
               sampling},
    DialectKey{"length_column_name", text, "length", moot, "", "rows know their lengths"},
    DialectKey{"label_names", list, "", moot, "", "data.records says where labels are"},
    DialectKey{"remove_unused_columns", flag, "true", moot, "", "only named columns are read"},
    DialectKey{"group_by_length", flag, "false", refused, "",
               "use data.packing in the section lockstep: it needs less padding", "false"},
    DialectKey{"label_smoothing_factor", number, "0.0", taken, "train.label_smoothing",
               "of steps; there evaluations are smoothed too"},
    DialectKey{"torch_empty_cache_steps", number, "", moot, "", "memory is planned once, before the first step"},
    DialectKey{"ddp_backend", text, "", taken, "parallel.transport", "nccl: auto; gloo, mpi: host", "", "",
               ddp_backend},
    DialectKey{"ddp_bucket_cap_mb", number, "", taken, "parallel.bucket_size", "in MiB", "", "", hf::bucket_cap},
    DialectKey{"ddp_find_unused_parameters", flag, "", moot, "", hf::not_needed},
    DialectKey{"ddp_broadcast_buffers", flag, "", moot, "", hf::not_needed},
    DialectKey{"ddp_static_graph", flag, "", moot, "", hf::not_needed},
    DialectKey{"ddp_timeout", number, "1800", taken, "train.watchdog", "seconds"},
    DialectKey{"local_rank", number, "-1", moot, "", hf::launched},
    DialectKey{"push_to_hub", flag, "false", noted, "", hf::nothing_sent, "false"},
    DialectKey{"hub_model_id", text, "", moot, "", hf::nothing_sent},
    DialectKey{"hub_model_revision", text, "", moot, "", hf::nothing_sent},
    DialectKey{"hub_token", text, "", taken, "", "refused, except for a text in its place such as <HUB_TOKEN>", "", "",
               hf::no_token},
    DialectKey{"hub_private_repo", flag, "", moot, "", hf::nothing_sent},
    DialectKey{"hub_strategy", text, "every_save", moot, "", hf::nothing_sent},
    DialectKey{"hub_always_push", flag, "false", moot, "", hf::nothing_sent},
    DialectKey{"hub_revision", text, "", moot, "", hf::nothing_sent},
    DialectKey{"enable_jit_checkpoint", flag, "false", moot, "", "a stop signal always saves"},
    DialectKey{"push_to_hub_model_id", text, "", moot, "", hf::nothing_sent},
    DialectKey{"push_to_hub_organization", text, "", moot, "", hf::nothing_sent},
    DialectKey{"push_to_hub_token", text, "", taken, "", "refused, except for a text in its place such as <HUB_TOKEN>",
               "", "", hf::no_token},
    DialectKey{"half_precision_backend", text, "auto", moot, "", own_kernels},
    DialectKey{"fp16_backend", text, "auto", moot, "", own_kernels},
    DialectKey{"fp16_opt_level", text, "O1", moot, "", "it belongs to Apex"},
    DialectKey{"xpu_backend", text, "", moot, "", hf::launched},
    DialectKey{"use_ipex", flag, "false", noted, "", own_kernels, "false"},
    DialectKey{"use_mps_device", flag, "false", noted, "", "train.device says where a run computes", "false"},
    DialectKey{"jit_mode_eval", flag, "false", noted, "", hf::no_compile, "false"},
    DialectKey{"torchdynamo", text, "", noted, "", hf::no_compile},
    DialectKey{"past_index", number, "-1", refused, "", "a model has no state besides its weights", "-1"},
    DialectKey{"mp_parameters", text, "", moot, "", hf::launched},
    DialectKey{"ray_scope", text, "last", moot, "", hf::launched},
    DialectKey{"tpu_num_cores", number, "", moot, "", hf::launched},
    DialectKey{"tpu_metrics_debug", flag, "false", moot, "", hf::launched},
    DialectKey{"sharded_ddp", list, "[]", refused, "", "set fsdp instead", "[]||false"},
    DialectKey{"fsdp_min_num_params", number, "0", taken, "parallel.bucket_size",
               "units of whole blocks with this many weights in fp32", "", "", jointly},
    DialectKey{"fsdp_transformer_layer_cls_to_wrap", text, "", moot, "", "the blocks of a model are known"},
    DialectKey{"split_batches", flag, "", refused, "",
               "a batch size is that of a rank: set per_device_train_batch_size", "false"},
    DialectKey{"dispatch_batches", flag, "", moot, "", "every way to read data gives the same batches"},
    DialectKey{"include_inputs_for_metrics", flag, "false", moot, "", only_sums},
    DialectKey{"include_tokens_per_second", flag, "false", moot, "", "records have the speed"},
    DialectKey{"use_legacy_prediction_loop", flag, "false", moot, "", only_sums},
    DialectKey{"predict_with_generate", flag, "false", refused, "", "evaluations measure the loss", "false"},
    DialectKey{"generation_max_length", number, "", moot, "", "it belongs to predict_with_generate"},
    DialectKey{"generation_num_beams", number, "", moot, "", "it belongs to predict_with_generate"},
    DialectKey{"generation_config", text, "", moot, "", "it belongs to predict_with_generate"},
    DialectKey{"sortish_sampler", flag, "false", refused, "",
               "use data.packing in the section lockstep: it needs less padding", "false"},
    DialectKey{"model_name_or_path", text, "", taken, "model.path"},
    DialectKey{"config_name", text, "", taken, "model.config"},
    DialectKey{"tokenizer_name", text, "", taken, "data.tokenizer", "used to prepare text; default: the model's own"},
    DialectKey{"train_file", text, "", taken, "data.path"},
    DialectKey{"block_size", number, "", taken, "data.sequence_length"},

};

void lower_reports(Lowering& lowering) {
  const Node* const said = lowering.given("report_to");
  bool tensorboard = said == nullptr;  // as it is here
  bool wandb = false;
  for (const Node& word : said == nullptr                  ? std::vector<Node>{}
                          : said->kind == Node::Kind::list ? said->items
                                                           : std::vector{*said}) {
    const bool all = word.text == "all";
    tensorboard |= all || word.text == "tensorboard";
    wandb |= all || word.text == "wandb";
    if (!all && word.text != "tensorboard" && word.text != "wandb" && word.text != "none")
      lowering.refuse(word, "records go to RUN/records.jsonl, tensorboard and wandb");
  }
  if (said != nullptr) {
    lowering.set("log.tensorboard", tensorboard ? "true" : "false", *said);
    lowering.set("log.wandb", wandb ? "offline" : "off", *said);
  }
  if (const Node* const folder = lowering.given("logging_dir"); folder != nullptr && tensorboard)
    hf::logging_dir(*folder, lowering);
  if (const Node* const name = lowering.given("run_name"); name != nullptr && wandb)
    lowering.set("log.wandb_name", *name);
}

/// There an epoch ends with a step of the samples that are left.
void lower_epoch_end(Lowering& lowering) {
  for (const std::string_view key : {"num_train_epochs", "max_steps", "gradient_accumulation_steps",
                                     "per_device_train_batch_size", "dataloader_drop_last"}) {
    const Node* const said = lowering.given(key);
    if (said == nullptr || lowering.is_set("data.short_last_step")) continue;
    lowering.set("data.short_last_step", "true", *said);
  }
}

void finish_transformers(Lowering& lowering) {
  hf::one_micro_batch("per_device_train_batch_size", "gradient_accumulation_steps", lowering);
  hf::lower_length(lowering);
  lower_epoch_end(lowering);
  hf::lower_optimizer(lowering);
  hf::lower_cadence(lowering);
  hf::lower_delay(lowering.text(hf::evaluation_key(lowering)) == "epoch" ? "epochs" : "steps", lowering);
  lower_start(lowering);
  lower_reports(lowering);
  hf::lower_prefetch(lowering);
  hf::lower_recomputation(lowering);
  accelerate::finish(lowering);
  hf::lower_schedule(lowering);  // DeepSpeed's file may set the learning rate
  trl::finish(lowering);
}

}  // namespace

const Dialect& transformers_dialect() {
  static const std::vector<DialectKey> keys = [] {
    std::vector<DialectKey> all(trainer_keys.begin(), trainer_keys.end());
    for (const std::span<const DialectKey> more : {accelerate::keys(), trl::keys()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  static const Dialect dialect{.name = "transformers",
                               .preset = "transformers-fsdp",
                               .keys = keys,
                               .parts = accelerate::parts(),
                               .finish = finish_transformers};
  return dialect;
}

}  // namespace lockstep
