#include "options/synonyms.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>

namespace lockstep {

namespace {

struct Synonyms {
  std::string_view meant;
  std::string_view words;  // in lower case, between blanks
};

constexpr std::array<Synonyms, 130> option_synonyms{{
    {"model.config", " model_config architecture arch config_path config_name "},
    {"model.path", " model_name_or_path pretrained pretrained_model init_from weights load_weights checkpoint_path "},
    {"model.dropout", " dropout_rate "},
    {"model.embedding_dropout", " embd_pdrop embd_dropout "},
    {"model.attention_dropout", " attn_dropout attn_pdrop "},
    {"model.residual_dropout", " hidden_dropout resid_pdrop resid_dropout "},
    {"data.path", " data_path data_dir dataset dataset_path dataset_dir dataset_name train_data train_data_path "},
    {"data.datasets", " data_mixture datasets_list train_datasets data_mix "},
    {"data.shard", " dataset_shard_num dataset_shard_idx "},
    {"data.shuffle_where", " shuffle_merged_datasets shuffle_before_merging_datasets "},
    {"eval.datasets", " test_datasets eval_datasets valid_datasets "},
    {"data.train_split", " train_split_name training_split "},
    {"data.validation_split", " eval_split val_split test_split valid_split "},
    {"data.sequence_length",
     " seq_length seq_len sequence_len sample_packing_sequence_len seqlen max_seq_len max_seq_length "
     "max_sequence_length block_size block_len "
     "context_length context_len context_size ctx_len n_ctx max_length model_max_length "},
    {"data.shuffle", " shuffle_data dataloader_shuffle "},
    {"data.isolate_documents", " reset_attention_mask document_masking intra_document_masking "},
    {"data.packing", " sample_packing sample_packing_method packing_strategy packed pack_sequences "},
    {"data.packing_group", " sample_packing_group_size sample_packing_bin_size "},
    {"data.long_documents", " overflow truncation excess_length_strategy "},
    {"data.pad_to_multiple_of", " pad_to_multiple pad_multiple "},
    {"eval.packing", " eval_sample_packing eval_packing "},
    {"data.seed", " data_seed dataset_seed shuffle_seed "},
    {"data.repeat_order", " set_dataset_epoch set_epoch "},
    {"data.drop_last", " dataloader_drop_last "},
    {"data.prefetch", " dataloader_prefetch_factor prefetch_factor prefetch_batches dataloader_num_workers "},
    {"parallel.dp_replicate",
     " dp dp_size data_parallel data_parallel_size ddp world_size num_gpus num_processes nproc_per_node ranks "
     "num_ranks "},
    {"parallel.pp", " pipeline_parallel_size pipeline_parallel_degree pipeline_model_parallel_size pp_size "},
    {"parallel.schedule", " pipeline_parallel_schedule pipeline_schedule pp_schedule pipe_schedule_factory "},
    {"parallel.stages_per_rank", " virtual_pipeline_stages num_layers_per_virtual_pipeline_stage num_stages_per_rank "},
    {"parallel.split_points", " pipeline_parallel_split_points module_fqns_per_model_part "},
    {"parallel.micro_batches", " n_microbatches num_microbatches pipeline_parallel_microbatches "},
    {"parallel.ep",
     " expert_parallel_size expert_model_parallel_size expert_parallel_degree ep_size expert_parallel ep_degree "},
    {"parallel.ep_outside", " ep_intranode ep_strided "},
    {"parallel.ep_capacity", " moe_expert_capacity_factor expert_capacity_factor capacity_factor moe_capacity_factor "},
    {"parallel.dp_shard",
     " fsdp fsdp_size shard_degree data_parallel_shard_degree dp_shard_degree data_parallel_shard_size sharding_size "},
    {"post_local_sgd.start_step", " post_local_sgd post_local_sgd_enabled start_localsgd_iter start_local_sgd_step "},
    {"post_local_sgd.period", " averaging_period averager_period local_sgd_period local_steps sync_every "},
    {"post_local_sgd.cell", " post_local_gradient_allreduce subgroup_size num_local_ranks "},
    {"parallel.zero", " zero_stage zero_optimization sharding_strategy data_parallel_mode "},
    {"parallel.accumulate", " no_sync gradient_sync requires_gradient_sync sync_gradients sync_each_batch scatter "},
    {"parallel.reshard_after_forward", " fsdp_reshard_after_forward zero_hpz_partition_size hpz secondary_sharding "},
    {"parallel.units", " fsdp_transformer_layer_cls_to_wrap transformer_layers_path wrap_policy auto_wrap_policy "},
    {"optimizer.frozen", " freeze freeze_modules frozen_parameters trainable requires_grad "},
    {"parallel.prefetch", " forward_prefetch backward_prefetch fsdp_forward_prefetch fsdp_backward_prefetch "},
    {"precision.reduce_dtype", " grad_reduce_dtype gradient_reduce_dtype mixed_precision_reduce grad_reduce_in_fp32 "},
    {"precision.dtype",
     " precision mixed_precision torch_dtype params_dtype param_dtype bf16 fp16 fp32 amp autocast data_type "},
    {"precision.output_dtype", " mp_policy_output_dtype pipeline_dtype "},
    {"precision.init_scale", " loss_scale initial_loss_scale init_loss_scale initial_scale_power fp16_init_scale "},
    {"precision.growth_interval", " loss_scale_window scale_window scale_growth_interval "},
    {"precision.min_scale", " min_loss_scale "},
    {"optimizer.name", " optim optimizer_name optimizer_type optim_name "},
    {"optimizer.lr", " learning_rate max_lr peak_lr base_lr lr_max initial_lr "},
    {"optimizer.betas", " beta1 beta2 adam_beta1 adam_beta2 adam_betas beta "},
    {"optimizer.eps", " epsilon adam_eps adam_epsilon "},
    {"optimizer.weight_decay", " wd adam_weight_decay l2 weight_decay_rate "},
    {"optimizer.clip_norm",
     " grad_clip clip_grad max_grad_norm grad_clip_norm clip_grad_norm gradient_clipping gradient_clip_val "
     "gradient_clip max_norm "},
    {"optimizer.in_backward",
     " fuse_optim_with_backward optimizer_in_backward optim_in_bwd optimizer_in_bwd fused_backward_pass "},
    {"optimizer.groups", " param_groups parameter_groups optimizer_groups "},
    {"optimizer.decay_exclude", " no_decay no_weight_decay weight_decay_exclude "},
    {"schedule.name",
     " scheduler lr_scheduler lr_scheduler_type scheduler_type lr_schedule lr_decay_style decay_lr lr_decay "},
    {"schedule.warmup_steps",
     " warmup warmup_iters lr_warmup_iters lr_warmup_steps num_warmup_steps warmup_iterations "},
    {"schedule.warmup_ratio", " lr_warmup_ratio warmup_fraction lr_warmup_fraction "},
    {"schedule.decay_ratio", " lr_decay_ratio "},
    {"schedule.decay_steps", " lr_decay_iters decay_iters lr_decay_steps num_decay_steps "},
    {"schedule.min_lr", " lr_min final_lr end_lr eta_min minimum_lr min_learning_rate lr_end "},
    {"train.run_dir", " out_dir output_dir save_dir run_name default_root_dir logging_dir work_dir "},
    {"train.max_steps",
     " max_iters train_iters num_iters iters iterations num_iterations max_iterations num_steps steps total_steps "
     "num_train_steps train_steps training_steps "},
    {"train.epochs", " num_epochs max_epochs num_train_epochs n_epochs "},
    {"train.global_batch",
     " batch_size global_batch_size train_batch_size total_batch_size effective_batch_size bs batch "},
    {"train.micro_batch",
     " micro_batch_size per_device_train_batch_size per_device_batch_size device_batch_size "
     "gradient_accumulation_steps "
     "gradient_accumulation grad_accum accumulate_grad_batches accumulation_steps "},
    {"train.recompute",
     " activation_checkpointing gradient_checkpointing checkpoint_activations recompute_activations "
     "recompute_granularity "},
    {"train.recompute_keeps",
     " recompute_modules moe_checkpoint_method gradient_checkpointing_method selective_ac_option selective_recompute "
     "save_list checkpoint_policy remat_policy recompute_keep "},
    {"train.label_smoothing", " label_smoothing_factor smoothing smoothing_factor "},
    {"train.activation_memory_budget", " activation_budget memory_budget recompute_budget "},
    {"train.offload",
     " cpu_offload offload_params fsdp_offload_params offload_optimizer optimizer_cpu_offload zero_offload "
     "offload_param activation_offloading offload_activations cpu_offloading "},
    {"train.seed", " random_seed manual_seed rng_seed seed_everything "},
    {"train.threads", " num_threads omp_num_threads cpu_threads "},
    {"train.max_time", " time_limit max_duration exit_duration_in_mins wall_time walltime "},
    {"train.watchdog", " timeout ddp_timeout nccl_timeout distributed_timeout_minutes "},
    {"train.device", " accelerator device_type "},
    {"eval.every", " eval_interval eval_steps eval_every evaluation_interval val_interval val_check_interval "},
    {"eval.batches", " eval_iters eval_batches limit_val_batches num_eval_batches val_batches "},
    {"eval.patience", " early_stopping early_stopping_patience early_stop patience "},
    {"eval.min_gain", " early_stopping_threshold min_delta "},
    {"eval.delay", " eval_delay evaluation_delay eval_start_step "},
    {"eval.at_start", " eval_on_start evaluate_first eval_before_training "},
    {"eval.on_save", " eval_on_save evaluate_on_save "},
    {"eval.micro_batch", " per_device_eval_batch_size eval_batch_size eval_micro_batch_size val_batch_size "},
    {"checkpoint.load_best_at_end", " load_best_model_at_end load_best_model restore_best_weights "},
    {"checkpoint.export_at_end", " save_hf_weights export_hf save_hf "},
    {"log.first_step", " logging_first_step log_first_step "},
    {"sample.max_tokens", " max_new_tokens max_gen_len "},
    {"sample.count", " num_return_sequences num_samples "},
    {"sample.stop", " stop_strings stop_sequences "},
    {"checkpoint.every",
     " every_epochs save_interval save_steps save_every checkpoint_interval checkpoint_every ckpt_interval "
     "checkpoint_freq "},
    {"checkpoint.storage", " save_on_each_node "},
    {"checkpoint.keep_last", " save_total_limit keep keep_checkpoints max_checkpoints save_top_k "},
    {"checkpoint.best_metric", " metric_for_best_model best_model_metric monitor "},
    {"checkpoint.best_direction", " greater_is_better "},
    {"checkpoint.resume",
     " resume resume_from resume_from_checkpoint auto_resume load load_checkpoint ckpt_path restore "},
    {"log.every", " log_interval logging_steps log_every log_every_n_steps log_steps log_freq print_every "},
    {"log.format", " log_format progress_bar "},
    {"log.tensorboard", " use_tensorboard report_to logger "},
    {"log.tensorboard_dir", " tensorboard_log_dir tb_dir "},
    {"log.wandb", " use_wandb enable_wandb wandb_log wandb_mode "},
    {"log.wandb_name", " wandb_run_name "},
    {"log.wandb_every", " wandb_log_interval "},
    {"log.statistics", " log_params_norm log_num_zeros_in_grad watch wandb_watch watch_model track_grad_norm "},
    {"log.statistics_every", " watch_freq watch_log_freq wandb_watch_freq "},
    {"log.speed_from_step", " speed_metrics_start_step "},
    {"log.peak_tflops", " peak_hardware_flops promised_flops peak_flops "},
    {"log.profile_start_step", " enable_profiling "},
    {"log.profile_dir", " profile_trace_dir "},
    {"data.name", " dataset_config dataset_config_name subset "},
    {"data.revision", " dataset_revision dataset_version "},
    {"data.data_files", " datafiles "},
    {"data.instruction_field", " field_instruction instruction_column instruction_key "},
    {"data.input_field", " field_input input_column input_key "},
    {"data.output_field", " field_output output_column output_key response_column "},
    {"data.prompt_template", " prompt_no_input no_input_format instruct_template prompt_format alpaca_template "},
    {"data.prompt_template_with_input", " prompt_input "},
    {"data.messages_field", " field_messages messages_column messages_key conversation_column "},
    {"data.chat_template", " chat_template_jinja chat_template_path "},
    {"data.train_on",
     " train_on_inputs train_on_prompt roles_to_train assistant_only_loss completion_only_loss mask_history "},
    {"data.text_field", " json_key json_keys text_key text_column "},
    {"data.validation", " val_fraction validation_fraction validation_size test_size val_size valid_fraction "},
    {"data.tokenizer", " tokenizer_path tokenizer_name tokenizer_type tokenizer_model tokenizer_file "},
    {"output", " output_dir out out_dir output_path output_prefix save_dir "},
    {"recipe", " quant quantize quantization quantization_method scheme "},
    {"threads", " workers num_workers num_proc jobs n_jobs processes "},
}};

constexpr std::array<Synonyms, 11> sections{{
    {"model", " network architecture "},
    {"data", " dataset datasets data_config "},
    {"parallel", " parallelism distributed parallel_config mesh "},
    {"post_local_sgd", " local_sgd localsgd postlocalsgd diloco "},
    {"optimizer", " optim optimization adamw adam "},
    {"schedule", " scheduler lr_scheduler lr_schedule learning_rate "},
    {"train", " training trainer run training_args "},
    {"eval", " evaluation validation val "},
    {"sample", " sampling generation generate "},
    {"checkpoint", " checkpoints checkpointing ckpt save saving "},
    {"log", " logging logger logs wandb "},
}};

constexpr std::array<Synonyms, 17> choices{{
    {"fp32", " float32 float f32 single 32 32-true full_precision torch.float32 "},
    {"bf16", " bfloat16 bfloat b16 bf16-mixed bf16-true torch.bfloat16 "},
    {"fp16", " float16 half 16 f16 16-mixed 16-true torch.float16 "},
    {"fp64", " float64 double f64 64 torch.float64 "},
    {"adamw", " adam adam_w adamw_torch fused_adam fusedadam adamw_torch_fused "},
    {"sgd", " momentum nesterov torch.optim.sgd stochastic_gradient_descent "},
    {"cosine",
     " cos cosine_annealing cosineannealing cosine_with_warmup cosineannealinglr cosine_with_restarts "
     "cosine_with_min_lr "},
    {"linear", " lin linear_with_warmup linearlr "},
    {"constant", " const constant_with_warmup none flat "},
    {"block", " full selective layer true yes on "},
    {"none", " off no false null "},
    {"cpu", " gloo host "},
    {"attention", " core_attn self_attn sdpa flash_attention attn "},
    {"matmul", " mm gemm gemms dots dots_saveable products linear_outputs "},
    {"mlp", " feed_forward ffn "},
    {"projections", " qkv qkv_proj o_proj attention_projections "},
    {"experts", " moe moe_act moe_activation "},
}};

template <std::size_t count>
std::vector<std::string_view> meant_by(std::string_view word, const std::array<Synonyms, count>& table) {
  std::vector<std::string_view> found;
  if (word.empty() || word.find(' ') != std::string_view::npos) return found;
  const std::string between_blanks = " " + lower_ascii(word) + " ";
  for (const Synonyms& synonyms : table) {
    if (synonyms.words.find(between_blanks) != std::string_view::npos) found.push_back(synonyms.meant);
  }
  return found;
}

}  // namespace

std::vector<std::string_view> options_meant_by(std::string_view key) {
  std::string name(key);
  std::ranges::replace(name, '-', '_');
  return meant_by(name, option_synonyms);
}

std::string_view section_meant_by(std::string_view name) {
  const std::vector<std::string_view> found = meant_by(name, sections);
  return found.empty() ? std::string_view() : found.front();
}

std::vector<std::string_view> choices_meant_by(std::string_view value) { return meant_by(value, choices); }

}  // namespace lockstep
