// The dialect of xorl: its sections model, data, train and lora. Keys that have a meaning only together are translated
// in dialects/xorl_lowering.hpp. Source of names and built-in values: its page on the configuration of local training;
// what they do there: its code.
#include "dialects/dialect_hf.hpp"
#include "dialects/dialect_tables.hpp"
#include "dialects/lowering.hpp"
#include "dialects/xorl_lowering.hpp"
#include "options/interpret.hpp"

#include <array>

namespace lockstep {

namespace {

using enum DialectKey::Value;
using enum DialectKey::State;
using hf::jointly;

constexpr const char* no_fp8 = "training computes in fp64, fp32, bf16 or fp16";
constexpr const char* fp8 = "train.enable_fp8_training";  // the switch of the keys of fp8 training
constexpr const char* one_kernel = "there is one kernel for it";

void log_format(const Node& value, Lowering& lowering) {
  lowering.set("log.format", value.text == "progress_bar" ? "progress" : value.text, value);
}

void wandb_interval(const Node& value, Lowering& lowering) {
  if (value.text != "1") lowering.set("log.wandb_every", value);
}

void profiled_ranks(const Node& value, Lowering& lowering) {
  Node ranks;
  ranks.kind = Node::Kind::list;
  ranks.origin = value.origin;
  if (lowering.on("train.profile_rank0_only", true)) {
    Node first = value;
    first.text = "0";
    ranks.items.push_back(std::move(first));
  }
  lowering.set("log.profile_ranks", std::move(ranks));
}

void clip_norm(const Node& value, Lowering& lowering) {
  const bool off = xorl::is_zero(value) || value.text.starts_with('-');
  lowering.set("optimizer.clip_norm", off ? "null" : value.text, value);
}

/// Substrings of names become patterns that match them.
void no_decay(const Node& value, Lowering& lowering) {
  Node patterns;
  patterns.kind = Node::Kind::list;
  patterns.origin = value.origin;
  const std::vector<Node> words = value.kind == Node::Kind::list ? value.items : std::vector{value};
  for (const std::string_view key : {"train.no_decay_modules", "train.no_decay_params"}) {
    const Node* const said = lowering.given(key);
    if (said == nullptr) continue;
    for (const Node& word : said->kind == Node::Kind::list ? said->items : std::vector{*said}) {
      Node pattern = word;
      pattern.quoted = true;
      pattern.text.clear();
      for (const char c : word.text) {
        if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) pattern.text += '\\';
        pattern.text += c;
      }
      patterns.items.push_back(pattern);
    }
  }
  if (words.empty()) return;
  lowering.set("optimizer.decay_exclude", patterns);
  lowering.set("optimizer.unmatched", "warn", value);
}

void schedule(const Node& value, Lowering& lowering) {
  if (lowering.text("train.pipeline_parallel_size") != "1") hf::pipeline_schedule(value.text, value, lowering);
}

void validation(const Node& value, Lowering& lowering) {
  const bool count = value.text.find('.') == std::string::npos && value.text != "1";
  lowering.set("data.validation", (count ? "count:" : "hash:") + value.text, value);
}

void moments_on_host(const Node& value, Lowering& lowering) {
  if (flag_word(value.text).value_or(false)) hf::offload({"optimizer"}, value, lowering);
}

void hub_token(const Node& value, Lowering& lowering) {
  if (!flag_word(value.text))
    lowering.refuse(value, "a configuration must not hold a token: use HF_TOKEN or its usual file");
}

void resume(const Node& value, Lowering& lowering) {
  if (value.text == "auto") return lowering.set("checkpoint.resume", value);
  hf::start_point(value, lowering);
}

void config_path(const Node& value, Lowering& lowering) {
  const Node* const weights = lowering.given("model.model_path");
  if (weights == nullptr) return lowering.set("model.config", value);
  if (weights->text != value.text)
    lowering.refuse(value,
                    "weights are read with the config.json in their folder: leave it out, or leave out model_path to "
                    "initialise the weights");
}

constexpr std::array xorl_keys{
    DialectKey{"model.model_path", text, "", taken, "model.path", "a folder, or a model in the cache of the hub"},
    DialectKey{"model.config_path", text, "", taken, "model.config", "with model_path it must name the same folder", "",
               "", config_path},
    DialectKey{"model.tokenizer_path", text, "", taken, "data.tokenizer",
               "used to prepare text; default: the model's own"},
    DialectKey{"model.attn_implementation", text, "flash_attention_3", refused, "",
               "there is one attention kernel, computed in blocks",
               "eager|sdpa|native|flash_attention_2|flash_attention_3|flash_attention_4"},
    DialectKey{"model.moe_implementation", text, "", moot, "", "experts always use a grouped product"},
    DialectKey{"model.ep_dispatch", text, "alltoall", refused, "", "tokens go to their experts by all-to-all",
               "alltoall"},
    DialectKey{"model.deepep_buffer_size_gb", number, "2.0", moot, "", "belongs to deepep, which ep_dispatch refuses"},
    DialectKey{"model.deepep_num_sms", number, "20", moot, "", "belongs to deepep, which ep_dispatch refuses"},
    DialectKey{"model.deepep_async_combine", flag, "false", moot, "", "belongs to deepep, which ep_dispatch refuses"},
    DialectKey{"model.merge_qkv", flag, "true", moot, "", "layouts are views of tensors, fused or not"},
    DialectKey{"model.basic_modules", list, "[]", taken, "parallel.units"},
    DialectKey{"model.foundation", map, "{}", refused, "", "models other than language models are not trained", "{}"},
    DialectKey{"model.encoders", map, "{}", refused, "", "models of images, videos and sound are not trained", "{}"},
    DialectKey{"model.train_router", flag, "", refused, "",
               "the router is trained with the rest: optimizer.frozen can freeze it", "true"},
    DialectKey{"model.freeze_router", flag, "false", refused, "",
               "the router is trained with the rest: optimizer.frozen can freeze it", "false"},
    DialectKey{"model.router_fp32", flag, "", noted, "", "the router's products have the type of precision.dtype"},
    DialectKey{"model.lm_head_fp32", flag, "", noted, "", "the head's products have the type of precision.dtype"},
    DialectKey{"model.record_routing_weights", flag, "true", moot, "", "recomputation repeats the routing of forward"},
    DialectKey{"model.moe_routing_weights_before_down", text, "auto", noted, "",
               "routing weights scale the outputs of experts", "auto|false"},
    DialectKey{"model.alltoall_combine_hidden_chunk_size", number, "0", moot, "",
               "rows of experts are exchanged in rounds of bounded size"},
    DialectKey{"model.flash_attention_deterministic", flag, "false", moot, "", "attention is deterministic"},
    DialectKey{"model.rmsnorm_mode", text, "", moot, "", one_kernel},
    DialectKey{"model.activation_native", flag, "false", moot, "", one_kernel},
    DialectKey{"model.rope_native", flag, "", moot, "", one_kernel},
    DialectKey{"model.rope_class_b", flag, "", moot, "", one_kernel},
    DialectKey{"model.attention_cast_bf16", flag, "false", moot, "", one_kernel},
    DialectKey{"model.qwen35_rmsnorm_family", text, "", refused, "", "Qwen3.5 is not supported"},
    DialectKey{"model.sparse_mla_enabled", flag, "", refused, "", "sparse latent attention is not supported", "false"},
    DialectKey{"model.sparse_mla_backend", text, "auto", refused, "", "sparse latent attention is not supported",
               "auto", "model.sparse_mla_enabled"},

    DialectKey{"data.datasets", list, "", taken, "data.path, data.datasets, data.records, data.max_length",
               "one entry is data.path, several are data.datasets", "", "", jointly},
    DialectKey{"data.test_datasets", list, "[]", taken, "eval.datasets", "", "", "", jointly},
    DialectKey{"data.dataset_prepared_path", text, "last_prepared_dataset", taken, "data.cache"},
    DialectKey{"data.select_columns", list, "", moot, "", "only named columns are read"},
    DialectKey{"data.sample_packing_method", text, "sequential", taken, "data.packing",
               "multipack sorts by length, the longest first", "", "", jointly},
    DialectKey{"data.sample_packing_sequence_len", number, "32000", taken, "data.sequence_length",
               "longer samples are split, not refused"},
    DialectKey{"data.sample_packing_group_size", number, "100000", taken, "data.packing_group", "used with multipack",
               "", "", jointly},
    DialectKey{"data.sample_packing_sequentially", flag, "", taken, "data.packing", "true: sequential", "", "",
               jointly},
    DialectKey{"data.sample_packing_mp_start_method", text, "", refused, "",
               "packing uses threads, which have no start method"},
    DialectKey{"data.sample_packing_bin_size", number, "", refused, "",
               "a row takes as many samples as it has room for"},
    DialectKey{"data.eval_sample_packing", flag, "", taken, "eval.packing", "false: none, true: as in training", "", "",
               jointly},
    DialectKey{"data.dataloader_num_workers", number, "8", taken, "data.prefetch",
               "batches are made by one thread; 0: none ahead", "", "", jointly},
    DialectKey{"data.dataloader_prefetch_factor", number, "2", taken, "data.prefetch", "", "", "", jointly},
    DialectKey{"data.dataloader_pin_memory", flag, "true", moot, "", "host buffers are pinned if there is a device"},
    DialectKey{"data.dataloader_drop_last", flag, "true", taken, "data.drop_last"},
    DialectKey{"data.pad_to_multiple_of", number, "128", moot, "", "packed rows all have data.sequence_length"},
    DialectKey{"data.val_set_size", number, "", taken, "data.validation",
               "a fraction is drawn by hash, and so is a count", "", "", validation},
    DialectKey{"data.shuffle_merged_datasets", flag, "true", taken, "data.shuffle, data.shuffle_where", "", "", "",
               jointly},
    DialectKey{"data.shuffle_before_merging_datasets", flag, "true", taken, "data.shuffle, data.shuffle_where", "", "",
               "", jointly},
    DialectKey{"data.dataset_num_proc", number, "", taken, "threads", "of a rank of prepare-data"},
    DialectKey{"data.dataset_shard_num", number, "", taken, "data.shard", "", "", "", jointly},
    DialectKey{"data.dataset_shard_idx", number, "", taken, "data.shard", "counted from 0 there, from 1 here", "", "",
               jointly},
    DialectKey{"data.num_dataset_shards_to_save", number, "", taken, "data.shards"},
    DialectKey{"data.skip_prepare_dataset", flag, "false", taken, "data.prepare", "true: only load, never prepare", "",
               "", jointly},
    DialectKey{"data.push_dataset_to_hub", text, "", refused, "", "nothing is uploaded"},
    DialectKey{"data.is_preprocess", flag, "false", moot, "", "prepared data is recognised"},
    DialectKey{"data.fa_max_length_bucket", number, "0", moot, "", "attention takes lengths as they are"},
    DialectKey{"data.hf_use_auth_token", text, "", taken, "", "the token comes from HF_TOKEN or its usual file", "", "",
               hub_token},

    DialectKey{"train.data_parallel_mode", text, "fsdp2", taken, "parallel.dp_replicate, parallel.dp_shard", "", "", "",
               jointly},
    DialectKey{"train.data_parallel_shard_size", number, "-1", taken, "parallel.dp_shard", "-1: the remaining ranks",
               "", "", jointly},
    DialectKey{"train.data_parallel_replicate_size", number, "-1", taken, "parallel.dp_replicate", "", "", "", jointly},
    DialectKey{"train.tensor_parallel_size", number, "1", taken, "parallel.tp"},
    DialectKey{"train.pipeline_parallel_size", number, "1", taken, "parallel.pp"},
    DialectKey{"train.pipeline_parallel_schedule", text, "1F1B", taken, "parallel.schedule",
               "used only with a pipeline", "", "", schedule},
    DialectKey{"train.pipeline_parallel_virtual_stages", number, "", taken, "parallel.stages_per_rank"},
    DialectKey{"train.pp_variable_seq_lengths", flag, "true", moot, "",
               "stages know the length of every row before the step"},
    DialectKey{"train.pp_seq_len_bucket_size", number, "1024", moot, "",
               "stages know the length of every row before the step"},
    DialectKey{"train.pipeline_parallel_input_weight", number, "1", noted, "",
               "parallel.split_points divides the blocks into stages", "1|1.0"},
    DialectKey{"train.pipeline_parallel_output_weight", number, "1", noted, "",
               "parallel.split_points divides the blocks into stages", "1|1.0"},
    DialectKey{"train.pipeline_parallel_num_layers_in_first_stage", number, "", refused, "",
               "parallel.split_points divides the blocks into stages"},
    DialectKey{"train.pipeline_parallel_num_layers_in_last_stage", number, "", refused, "",
               "parallel.split_points divides the blocks into stages"},
    DialectKey{"train.lm_head_tensor_parallel_size", number, "1", refused, "",
               "parallel.tp divides the head with the other layers", "1"},
    DialectKey{"train.defer_grad_sync_in_accumulation", flag, "false", moot, "",
               "replicas sum their gradients once a step"},
    DialectKey{"train.expert_parallel_size", number, "1", taken, "parallel.ep", "", "", "", jointly},
    DialectKey{"train.ulysses_parallel_size", number, "1", taken, "parallel.ulysses"},
    DialectKey{"train.ringattn_parallel_size", number, "1", taken, "parallel.ring"},
    DialectKey{"train.cp_fsdp_mode", text, "all", taken, "parallel.cp_fsdp_mode", "used only with context parallelism",
               "", "", jointly},
    DialectKey{"train.reshard_after_forward", flag, "", taken, "parallel.reshard_after_forward", "", "", "", jointly},
    DialectKey{"train.ep_outside", flag, "false", taken, "parallel.ep_outside", "", "", "", jointly},
    DialectKey{"train.ep_intranode", flag, "", taken, "parallel.ep_outside", "the opposite of ep_outside", "", "",
               jointly},

    DialectKey{"train.optimizer", text, "adamw", taken, "optimizer.name, optimizer.state_dtype",
               "anyprecision_adamw: adamw with moments in optimizer_dtype", "", "", jointly},
    DialectKey{"train.optimizer_dtype", text, "bf16", taken, "optimizer.state_dtype",
               "used with anyprecision_adamw and muon", "", "", jointly},
    DialectKey{"train.lr", number, "5e-5", taken, "optimizer.lr"},
    DialectKey{"train.lr_min", number, "1e-7", taken, "schedule.min_lr", "used only if the learning rate falls", "", "",
               jointly},
    DialectKey{"train.lr_start", number, "0.0", taken, "schedule.start_lr"},
    DialectKey{"train.lr_warmup_ratio", number, "0.0", taken, "schedule.warmup_ratio", "rounded up"},
    DialectKey{"train.lr_decay_style", text, "constant", taken, "schedule.name"},
    DialectKey{"train.lr_decay_ratio", number, "1.0", taken, "schedule.decay_ratio",
               "used only if the learning rate falls", "", "", jointly},
    DialectKey{"train.weight_decay", number, "0.0", taken, "optimizer.weight_decay, optimizer.decay",
               "applies to all tensors", "", "", hf::weight_decay},
    DialectKey{"train.no_decay_modules", list, "[]", taken, "optimizer.decay_exclude, optimizer.unmatched",
               "parts of names; one that no name has is a warning", "", "", no_decay},
    DialectKey{"train.no_decay_params", list, "[]", taken, "optimizer.decay_exclude, optimizer.unmatched",
               "parts of names; one that no name has is a warning", "", "", no_decay},
    DialectKey{"train.max_grad_norm", number, "1.0", taken, "optimizer.clip_norm", "0 or less: null", "", "",
               clip_norm},
    DialectKey{"train.muon_lr", number, "0.02", taken, "optimizer.muon_lr", "used with muon", "", "", jointly},
    DialectKey{"train.muon_momentum", number, "0.95", taken, "optimizer.muon_momentum", "used with muon", "", "",
               jointly},
    DialectKey{"train.muon_nesterov", flag, "true", taken, "optimizer.muon_nesterov", "used with muon", "", "",
               jointly},
    DialectKey{"train.muon_ns_steps", number, "5", taken, "optimizer.muon_steps", "used with muon", "", "", jointly},
    DialectKey{"train.muon_adjust_lr_fn", text, "", taken, "optimizer.muon_adjust", "used with muon", "", "", jointly},
    DialectKey{"train.muon_distributed_mode", text, "shard_local", noted, "",
               "whole matrices are orthogonalised, as by full_gradient", "full_gradient"},
    DialectKey{"train.muon_fallback_optimizer", text, "adamw", refused, "",
               "tensors that are no matrices are updated by adamw", "adamw"},
    DialectKey{"train.muon_ns_algorithm", text, "gram_newton_schulz", moot, "", "the iteration computes the same"},
    DialectKey{"train.muon_ns_use_quack_kernels", flag, "true", moot, "", one_kernel},
    DialectKey{"train.muon_gram_ns_num_restarts", number, "1", moot, "", "the iteration computes the same"},
    DialectKey{"train.muon_gram_ns_restart_iterations", list, "", moot, "", "the iteration computes the same"},
    DialectKey{"train.muon_grouped_gram_ns_fp32_byte_limit", number, "536870912", moot, "",
               "scratch memory is planned before the first step"},
    DialectKey{"train.muon_grad_dtype", text, "", noted, "", "gradients are summed in precision.reduce_dtype"},
    DialectKey{"train.muon_update_dtype", text, "", noted, "", "the types of Muon's products are fixed"},
    DialectKey{"train.muon_force_momentum_path", flag, "false", moot, "", "there is one way to compute the update"},
    DialectKey{"train.cautious_weight_decay", flag, "false", refused, "", "weight decay acts on all elements", "false"},
    DialectKey{"train.anyprecision_adamw_denominator_chunk_size", number, "0", moot, "", "updates are made in place"},
    DialectKey{"train.anyprecision_adamw_reuse_grad_for_momentum", flag, "false", moot, "",
               "updates are made in place"},
    DialectKey{"train.anyprecision_adamw_state_cpu_offload", flag, "false", taken, "train.offload", "true: optimizer",
               "", "", moments_on_host},

    DialectKey{"train.micro_batch_size", number, "1", taken, "train.micro_batch"},
    DialectKey{"train.gradient_accumulation_steps", number, "1", taken, "train.accumulation, parallel.micro_batches",
               "with a pipeline the micro-batches of one pass", "", "", jointly},
    DialectKey{"train.num_train_epochs", number, "1", taken, "train.epochs", "max_steps takes precedence", "", "",
               jointly},
    DialectKey{"train.max_steps", number, "", taken, "train.max_steps", "may extend or shorten a run", "", "", jointly},

    DialectKey{"train.enable_mixed_precision", flag, "true", taken, "precision.dtype", "bf16 or fp32", "", "", jointly},
    DialectKey{"train.fsdp_reduce_dtype", text, "fp32", taken, "precision.reduce_dtype", "used with mixed precision",
               "", "", jointly},
    DialectKey{"train.skip_param_upcast", flag, "false", taken, "precision.weights",
               "true: bf16, used with mixed precision", "", "", jointly},
    DialectKey{"train.high_precision_bf16", flag, "false", moot, "", "bf16 products are summed in fp32"},
    DialectKey{"train.softmax_auxiliary_loss", flag, "false", refused, "", "there is no z-loss", "false"},
    DialectKey{"train.auxiliary_loss_multiplier", number, "1e-05", refused, "", "there is no z-loss", "",
               "train.softmax_auxiliary_loss"},
    DialectKey{"train.ce_mode", text, "", moot, "", "logits are made and used in slices"},
    DialectKey{"train.ce_num_chunks", number, "8", moot, "", "logits are made and used in slices"},
    DialectKey{"train.fsdp_sharded_lm_head_loss", flag, "false", moot, "", "logits are made and used in slices"},
    DialectKey{"train.fsdp_sharded_lm_head_loss_num_chunks", number, "8", moot, "",
               "logits are made and used in slices"},
    DialectKey{"train.moe_global_load_balancing", flag, "false", noted, "",
               "the balance of experts is that of each sample", "false"},
    DialectKey{"train.moe_grad_reduce_mode", text, "reduce_scatter", noted, "",
               "gradients are summed in precision.reduce_dtype", "reduce_scatter"},
    DialectKey{"train.enable_fp8_training", flag, "false", refused, "", no_fp8, "false"},
    DialectKey{"train.fp8_cfg", map, "", refused, "", no_fp8, "{}"},
    DialectKey{"train.fp8_training_num_first_layers_bf16", number, "0", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_num_last_layers_bf16", number, "0", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_allow_blackwell", flag, "false", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_blackwell_validation_artifact", text, "", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_block_size", number, "128", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_backward", text, "fp8", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_smoothquant_alpha", number, "", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_lm_head_smoothquant_alpha", number, "", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_activation_amax_scale", number, "1.0", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_weight_amax_scale", number, "1.0", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_correction_mode", text, "none", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_module_overrides", map, "", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_moe_grouped_backend", text, "triton_grouped", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_target_modules", list, "", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_exclude_modules", list, "", refused, "", no_fp8, "", fp8},
    DialectKey{"train.fp8_training_allow_bf16_fallback", flag, "false", refused, "", no_fp8, "", fp8},
    DialectKey{"train.enable_qarl", flag, "false", refused, "", no_fp8, "false"},
    DialectKey{"train.qarl_quant_cfg", text, "", refused, "", no_fp8, "", "train.enable_qarl"},
    DialectKey{"train.qarl_calib_data", text, "", refused, "", no_fp8, "", "train.enable_qarl"},
    DialectKey{"train.qarl_calib_size", number, "0", refused, "", no_fp8, "", "train.enable_qarl"},
    DialectKey{"train.qarl_quant_sequence_length", number, "", refused, "", no_fp8, "", "train.enable_qarl"},
    DialectKey{"train.qarl_sync_format", text, "fp8", refused, "", no_fp8, "", "train.enable_qarl"},
    DialectKey{"train.qarl_target_modules", list, "", refused, "", no_fp8, "", "train.enable_qarl"},
    DialectKey{"train.qarl_exclude_modules", list, "", refused, "", no_fp8, "", "train.enable_qarl"},
    DialectKey{"train.enable_gradient_checkpointing", flag, "true", taken, "train.recompute", "block or none", "", "",
               jointly},
    DialectKey{"train.enable_reentrant", flag, "false", moot, "", "there is one way to recompute a block"},
    DialectKey{"train.recompute_modules", list, "", taken, "train.recompute, train.recompute_keeps",
               "other modules keep their products; norms and activations are recomputed", "",
               "train.enable_gradient_checkpointing", jointly},
    DialectKey{"train.moe_checkpoint_method", text, "", taken, "train.recompute, train.recompute_keeps",
               "moe_act: experts, whose rows are sent again", "", "train.enable_gradient_checkpointing", jointly},
    DialectKey{"train.gradient_checkpointing_method", text, "", taken, "train.recompute, train.recompute_keeps",
               "recompute_before_dispatch keeps experts, whose rows are sent again", "",
               "train.enable_gradient_checkpointing", jointly},
    DialectKey{"train.enable_full_shard", flag, "true", taken, "parallel.reshard_after_forward",
               "false: gathered weights stay", "", "", jointly},
    DialectKey{"train.enable_forward_prefetch", flag, "true", taken, "parallel.prefetch", "false: 0", "", "", jointly},
    DialectKey{"train.enable_backward_prefetch", flag, "", moot, "", "parallel.prefetch is for both directions"},
    DialectKey{"train.activation_offload_prefetch_count", number, "2", moot, "", "the plan of memory decides it"},
    DialectKey{"train.enable_activation_offload", flag, "false", taken, "train.offload", "true: activations", "", "",
               jointly},
    DialectKey{"train.activation_gpu_limit", number, "0.0", refused, "",
               "train.host_memory limits what goes to the host instead", "0|0.0", "train.enable_activation_offload"},
    DialectKey{"train.enable_compile", flag, "false", noted, "", hf::no_compile, "false"},
    DialectKey{"train.compile_dynamic_shapes", flag, "false", moot, "", hf::no_compile},
    DialectKey{"train.prewarm_cuda_blas", flag, "false", moot, "", "memory is planned once, before the first step"},
    DialectKey{"train.init_device", text, "cuda", refused, "", "each rank initialises its own weights",
               "cpu|cuda|meta"},
    DialectKey{"train.load_weights_mode", text, "broadcast", refused, "",
               "each byte of a model is read once and sent to the ranks that need it", "broadcast|all_ranks|grouped"},
    DialectKey{"train.enable_full_determinism", flag, "false", moot, "", "runs are deterministic"},
    DialectKey{"train.allow_cuda_launch_blocking", flag, "false", moot, "", "not needed"},
    DialectKey{"train.empty_cache_steps", number, "500", moot, "", "memory is planned once, before the first step"},
    DialectKey{"train.gc_steps", number, "500", moot, "", "there is no garbage collector"},

    DialectKey{"train.output_dir", text, "", taken, "train.run_dir"},
    DialectKey{"train.ckpt_manager", text, "dcp", refused, "", "checkpoints are HDF5 files, lockstep-checkpoint(5)",
               "dcp"},
    DialectKey{"train.save_steps", number, "0", taken, "checkpoint.every", "0: none by steps", "", "", jointly},
    DialectKey{"train.save_epochs", number, "1", taken, "checkpoint.every", "0: none by epochs; with save_steps: both",
               "", "", jointly},
    DialectKey{"train.save_async", flag, "false", taken, "checkpoint.background"},
    DialectKey{"train.save_hf_weights", flag, "true", taken, "checkpoint.export_at_end"},
    DialectKey{"train.load_checkpoint_path", text, "", taken, "checkpoint.resume",
               "auto, or the folder of a checkpoint", "", "", resume},
    DialectKey{"train.load_optimizer", flag, "true", refused, "",
               "checkpoint.only and checkpoint.skip select what is loaded", "true"},
    DialectKey{"train.repo_commit", text, "", moot, "", "the version is recorded"},

    DialectKey{"train.log_format", text, "progress_bar", taken, "log.format",
               "progress_bar: progress; structured lines are JSON", "", "", log_format},
    DialectKey{"train.use_wandb", flag, "true", taken, "log.wandb, log.every",
               "true: offline, for wandb sync to send, with a record of each step", "", "", jointly},
    DialectKey{"train.wandb_project", text, "Xorl", taken, "log.wandb_project", "", "", "train.use_wandb"},
    DialectKey{"train.wandb_name", text, "", taken, "log.wandb_name", "", "", "train.use_wandb"},
    DialectKey{"train.wandb_tags", list, "", taken, "log.wandb_tags", "", "", "train.use_wandb"},
    DialectKey{"train.wandb_log_interval", number, "1", taken, "log.wandb_every", "1: each record", "",
               "train.use_wandb", wandb_interval},

    DialectKey{"train.enable_profiling", flag, "false", taken, "log.profile_start_step, log.profile_end_step", "", "",
               "", jointly},
    DialectKey{"train.profile_start_step", number, "1", taken, "log.profile_start_step", "", "",
               "train.enable_profiling", jointly},
    DialectKey{"train.profile_end_step", number, "2", taken, "log.profile_end_step", "excluded there, included here",
               "", "train.enable_profiling", jointly},
    DialectKey{"train.profile_trace_dir", text, "./trace", taken, "log.profile_dir", "null: the run folder", "",
               "train.enable_profiling"},
    DialectKey{"train.profile_record_shapes", flag, "true", taken, "log.profile_shapes", "", "",
               "train.enable_profiling"},
    DialectKey{"train.profile_profile_memory", flag, "true", taken, "log.profile_memory", "", "",
               "train.enable_profiling"},
    DialectKey{"train.profile_with_stack", flag, "true", refused, "",
               "the trace shows the actions of the step program: there are no Python stacks", "false",
               "train.enable_profiling"},
    DialectKey{"train.profile_rank0_only", flag, "true", taken, "log.profile_ranks", "true: [0]", "",
               "train.enable_profiling", profiled_ranks},
    DialectKey{"train.enable_step_phase_timing", flag, "false", noted, "", "log.profile_start_step profiles steps",
               "false"},
    DialectKey{"train.step_phase_timing_sync_cuda", flag, "true", moot, "", "log.profile_start_step profiles steps"},
    DialectKey{"train.enable_per_component_timing", flag, "false", noted, "", "log.profile_start_step profiles steps",
               "false"},
    DialectKey{"train.enable_step_memory_profiling", flag, "false", noted, "", "log.profile_memory profiles memory",
               "false"},
    DialectKey{"train.seed", number, "42", taken, "train.seed"},

    DialectKey{"lora.enable_lora", flag, "false", refused, "", hf::no_adapters, "false"},
    DialectKey{"lora.lora_rank", number, "16", refused, "", hf::no_adapters, "", "lora.enable_lora"},
    DialectKey{"lora.lora_alpha", number, "16", refused, "", hf::no_adapters, "", "lora.enable_lora"},
    DialectKey{"lora.lora_target_modules", list, "", refused, "", hf::no_adapters, "", "lora.enable_lora"},
    DialectKey{"lora.save_lora_only", flag, "false", refused, "", hf::no_adapters, "false", "lora.enable_lora"},
    DialectKey{"lora.enable_qlora", flag, "false", refused, "", hf::no_adapters, "false"},
    DialectKey{"lora.quant_format", text, "nvfp4", refused, "", hf::no_adapters, "", "lora.enable_qlora"},
    DialectKey{"lora.quant_group_size", number, "16", refused, "", hf::no_adapters, "", "lora.enable_qlora"},
    DialectKey{"lora.exclude_modules", list, "", refused, "", hf::no_adapters, "", "lora.enable_qlora"},
    DialectKey{"lora.merge_lora_interval", number, "0", refused, "", hf::no_adapters, "0", "lora.enable_lora"},
    DialectKey{"lora.reset_optimizer_on_merge", flag, "false", refused, "", hf::no_adapters, "false",
               "lora.enable_lora"},
    DialectKey{"lora.lora_b_init_std", number, "0.0", refused, "", hf::no_adapters, "", "lora.enable_lora"},
    DialectKey{"lora.lora_b_init_seed", number, "0", refused, "", hf::no_adapters, "", "lora.enable_lora"},
    DialectKey{"lora.lora_target_manifest", text, "", refused, "", hf::no_adapters, "", "lora.enable_lora"},
    DialectKey{"lora.unfuse_for_lora", flag, "false", refused, "", hf::no_adapters, "false", "lora.enable_lora"},
    DialectKey{"lora.moe_hybrid_shared_lora", flag, "false", refused, "", hf::no_adapters, "false", "lora.enable_lora"},
    DialectKey{"lora.block_fp8_qlora_training", flag, "false", refused, "", hf::no_adapters, "false"},
    DialectKey{"lora.enable_aqn", flag, "false", refused, "", "quantised weights are not trained", "false"},
    DialectKey{"lora.aqn_alpha", number, "1.0", refused, "", hf::no_adapters, "", "lora.enable_aqn"},

    DialectKey{"distill.enable_distillation", flag, "false", refused, "", xorl::no_distillation, "false"},
    DialectKey{"distill.teacher_model_path", text, "", refused, "", xorl::no_distillation, "",
               "distill.enable_distillation"},
    DialectKey{"distill.distillation_loss_type", text, "forward_kl", refused, "", xorl::no_distillation, "",
               "distill.enable_distillation"},
    DialectKey{"distill.distillation_loss_weight", number, "1.0", refused, "", xorl::no_distillation, "",
               "distill.enable_distillation"},
    DialectKey{"distill.stream_num_workers", number, "32", refused, "", xorl::no_distillation, "",
               "distill.enable_distillation"},
};

constexpr std::array xorl_parts{
    DialectKey{"data.datasets.path", text, "", taken, "data.path, data.datasets", "dummy: made tokens"},
    DialectKey{"data.datasets.type", text, "tokenized", taken, "data.records"},
    DialectKey{"data.datasets.name", text, "", taken, "data.name"},
    DialectKey{"data.datasets.split", text, "", taken, "data.split"},
    DialectKey{"data.datasets.revision", text, "", taken, "data.revision"},
    DialectKey{"data.datasets.trust_remote_code", flag, "false", refused, "", "code that comes with data is never run",
               "false"},
    DialectKey{"data.datasets.data_files", list, "", taken, "data.data_files"},
    DialectKey{"data.datasets.ds_type", text, "", moot, "", "file names tell the format"},
    DialectKey{"data.datasets.max_seq_len", number, "", taken, "data.max_length, data.too_long",
               "longer samples are left out"},
    DialectKey{"data.datasets.num_samples", number, "", taken, "data.datasets", "of dummy; 4096 if absent"},
    DialectKey{"data.datasets.activations_path", text, "", refused, "", xorl::no_distillation},
    DialectKey{"data.datasets.shards", number, "", taken, "data.shard", "with several datasets, that of the entry"},
    DialectKey{"data.datasets.shards_idx", number, "0", taken, "data.shard", "counted from 0 there, from 1 here"},
    DialectKey{"data.datasets.preprocess_shards", number, "", moot, "",
               "memory use does not depend on the size of the data"},
};

}  // namespace

const Dialect& xorl_dialect() {
  static constexpr Dialect dialect{
      .name = "xorl", .preset = "xorl", .keys = xorl_keys, .parts = xorl_parts, .finish = xorl::finish};
  return dialect;
}

}  // namespace lockstep
