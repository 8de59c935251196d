// The dialect of transformers: TrainingArguments with fsdp and fsdp_config, and the file that Accelerate writes for a
// launch. Source of names: their documents and the classes TrainingArguments and FullyShardedDataParallelPlugin.
#include "base/text.hpp"
#include "dialects/dialect_hf.hpp"
#include "dialects/dialect_tables.hpp"
#include "dialects/lowering.hpp"
#include "options/interpret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

namespace lockstep {

namespace {

using enum DialectKey::Value;
using enum DialectKey::State;
using hf::jointly;

constexpr const char* launched = "mpirun or srun set the number of ranks and their nodes";
constexpr const char* nothing_sent = "nothing is uploaded";
constexpr const char* one_loader = "each weight is read once, by the rank that needs it";

void accelerate_precision(const Node& value, Lowering& lowering) { hf::dtype(value, "precision.dtype", lowering); }

void bf16(const Node& value, Lowering& lowering) {
  if (flag_word(value.text).value_or(false)) lowering.set("precision.dtype", "bf16", value);
}

void fp16(const Node& value, Lowering& lowering) {
  if (flag_word(value.text).value_or(false)) lowering.set("precision.dtype", "fp16", value);
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

void distributed_type(const Node& value, Lowering& lowering) {
  static const std::set<std::string> known{"NO", "MULTI_CPU", "MULTI_GPU", "FSDP"};
  if (!known.contains(value.text)) lowering.refuse(value, "it must be one of NO, MULTI_CPU, MULTI_GPU and FSDP");
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

constexpr std::array transformers_keys{
    DialectKey{"output_dir", text, "trainer_output", taken, "train.run_dir"},
    DialectKey{
        "overwrite_output_dir", flag, "false", taken, "checkpoint.resume",
        "true without resume_from_checkpoint: afresh; older checkpoints are moved aside, unless the run was stopped "
        "with exit code 75 or requeued",
        "", "", jointly},
    DialectKey{"do_train", flag, "", refused, "", "train always trains", "true"},
    DialectKey{"do_eval", flag, "", moot, "", "set by eval_strategy and eval.at_end"},
    DialectKey{"do_predict", flag, "", refused, "", "train only trains and evaluates", "false"},
    DialectKey{"num_train_epochs", number, "3", taken, "train.epochs",
               "max_steps takes precedence; the last step of an epoch may be short (data.short_last_step)", "", "",
               jointly},
    DialectKey{"max_steps", number, "-1", taken, "train.max_steps", "less than 0: none", "", "", jointly},
    DialectKey{"per_device_train_batch_size", number, "8", taken, "train.micro_batch"},
    DialectKey{"per_device_eval_batch_size", number, "8", taken, "eval.micro_batch"},
    DialectKey{
        "gradient_accumulation_steps", number, "1", taken, "train.accumulation",
        "the last step of an epoch takes the remaining samples (data.short_last_step), and its loss is the mean over "
        "its own tokens; no sample is repeated on several ranks"},
    DialectKey{"eval_accumulation_steps", number, "", moot, "", "an evaluation keeps only sums"},
    DialectKey{"learning_rate", number, "5e-5", taken, "optimizer.lr"},
    DialectKey{"weight_decay", number, "0.0", taken, "optimizer.weight_decay",
               "of matrices: norms and biases do not decay there either"},
    DialectKey{"adam_beta1", number, "0.9", taken, "optimizer.betas", "the first", "", "", jointly},
    DialectKey{"adam_beta2", number, "0.999", taken, "optimizer.betas", "the second", "", "", jointly},
    DialectKey{"adam_epsilon", number, "1e-8", taken, "optimizer.eps"},
    DialectKey{"max_grad_norm", number, "1.0", taken, "optimizer.clip_norm", "0: null", "", "", hf::max_grad_norm},
    DialectKey{"optim", text, "adamw_torch", taken, "optimizer.name", "", "", "", optim},
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
    DialectKey{"log_level", text, "passive", refused, "", "use --log-level on the command line", "passive"},
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
    DialectKey{"tf32", flag, "", moot, "", "fp32 products always have full precision"},
    DialectKey{"mixed_precision", text, "", taken, "precision.dtype", "from Accelerate's file", "", "",
               accelerate_precision},
    DialectKey{"downcast_bf16", text, "no", refused, "", "TPUs are not supported", "no|false"},
    DialectKey{"gradient_checkpointing", flag, "false", taken, "train.recompute", "block or none", "", "",
               hf::recompute},
    DialectKey{"gradient_checkpointing_kwargs", map, "", moot, "", "there is one way to recompute a block"},
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
    DialectKey{"remove_unused_columns", flag, "true", moot, "", "only named columns are read"},
    DialectKey{"group_by_length", flag, "false", refused, "",
               "use data.packing in the section lockstep: it needs less padding", "false"},
    DialectKey{"label_smoothing_factor", number, "0.0", taken, "train.label_smoothing",
               "of steps; there evaluations are smoothed too"},
    DialectKey{"torch_empty_cache_steps", number, "", moot, "", "memory is planned once, before the first step"},
    DialectKey{"ddp_backend", text, "", moot, "", launched},
    DialectKey{"ddp_bucket_cap_mb", number, "", taken, "parallel.bucket_size", "in MiB", "", "", hf::bucket_cap},
    DialectKey{"ddp_find_unused_parameters", flag, "", moot, "", hf::not_needed},
    DialectKey{"ddp_broadcast_buffers", flag, "", moot, "", hf::not_needed},
    DialectKey{"ddp_timeout", number, "1800", taken, "train.watchdog", "seconds"},
    DialectKey{"local_rank", number, "-1", moot, "", launched},
    DialectKey{"deepspeed", text, "", refused, "", "use fsdp instead"},
    DialectKey{"push_to_hub", flag, "false", refused, "", nothing_sent, "false"},
    DialectKey{"hub_model_id", text, "", moot, "", nothing_sent},
    DialectKey{"model_name_or_path", text, "", taken, "model.path"},
    DialectKey{"config_name", text, "", taken, "model.config"},
    DialectKey{"tokenizer_name", text, "", taken, "data.tokenizer", "used to prepare text; default: the model's own"},
    DialectKey{"train_file", text, "", taken, "data.path"},
    DialectKey{"block_size", number, "", taken, "data.sequence_length"},

    DialectKey{"fsdp", list, "", taken, "parallel.dp_shard, parallel.reshard_after_forward, train.offload",
               "full_shard, shard_grad_op, no_shard, offload and auto_wrap; true: full_shard auto_wrap", "", "",
               jointly},
    DialectKey{"fsdp_config", map, "", taken,
               "parallel.dp_shard, parallel.reshard_after_forward, parallel.prefetch, train.offload",
               "its keys, with or without the prefix fsdp_", "", "", jointly},
    DialectKey{"compute_environment", text, "LOCAL_MACHINE", moot, "", launched},
    DialectKey{"distributed_type", text, "", taken, "", "NO, MULTI_CPU, MULTI_GPU or FSDP", "", "", distributed_type},
    DialectKey{"num_processes", number, "", moot, "", launched},
    DialectKey{"num_machines", number, "", moot, "", launched},
    DialectKey{"machine_rank", number, "", moot, "", launched},
    DialectKey{"main_process_ip", text, "", moot, "", launched},
    DialectKey{"main_process_port", text, "", moot, "", launched},
    DialectKey{"main_training_function", text, "", moot, "", launched},
    DialectKey{"rdzv_backend", text, "", moot, "", launched},
    DialectKey{"same_network", flag, "", moot, "", launched},
    DialectKey{"gpu_ids", text, "", moot, "", launched},
    DialectKey{"enable_cpu_affinity", flag, "", moot, "", launched},
    DialectKey{"debug", flag, "false", refused, "", "train.watchdog names the rank that others wait for", "false"},
    DialectKey{"tpu_env", list, "", moot, "", launched},
    DialectKey{"tpu_use_cluster", flag, "", moot, "", launched},
    DialectKey{"tpu_use_sudo", flag, "", moot, "", launched},
};

constexpr std::array transformers_parts{
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
    DialectKey{"fsdp_config.fsdp_state_dict_type", text, "", refused, "",
               "each rank saves its shards: finalize-quantize writes whole tensors", "SHARDED_STATE_DICT"},
    DialectKey{"fsdp_config.fsdp_sync_module_states", flag, "", moot, "", one_loader},
    DialectKey{"fsdp_config.fsdp_transformer_layer_cls_to_wrap", text, "", moot, "", "the blocks of a model are known"},
    DialectKey{"fsdp_config.fsdp_use_orig_params", flag, "", moot, "", "parameters keep their names and shapes"},
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
    hf::recompute(value, lowering);
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
    if (value.text != "SHARDED_STATE_DICT")
      lowering.refuse(value,
                      "each rank saves its shards, as with SHARDED_STATE_DICT: finalize-quantize writes whole tensors");
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
  lowering.set("parallel.dp_shard", hybrid ? "node" : "auto", place);
  lowering.set("parallel.dp_replicate", hybrid ? "auto" : "1", place);
  if (sharding.strategy == "shard_grad_op" || sharding.strategy == "hybrid_shard_zero2")
    lowering.set("parallel.reshard_after_forward", "false", place);
  if (!sharding.wrap.value_or(true)) hf::one_unit(place, lowering);
  if (sharding.offload) hf::offload({"optimizer", "shards"}, place, lowering);
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
  hf::lower_schedule(lowering);
  hf::lower_cadence(lowering);
  hf::lower_delay(lowering.text("eval_strategy") == "epoch" ? "epochs" : "steps", lowering);
  lower_start(lowering);
  lower_reports(lowering);
  hf::lower_prefetch(lowering);
  lower_sharding(lowering);
}

}  // namespace

const Dialect& transformers_dialect() {
  static constexpr Dialect dialect{.name = "transformers",
                                   .preset = "transformers-fsdp",
                                   .keys = transformers_keys,
                                   .parts = transformers_parts,
                                   .finish = finish_transformers};
  return dialect;
}

}  // namespace lockstep
