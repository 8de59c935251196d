// Translations shared by the dialects forgather and transformers. Both take trainer arguments from transformers'
// TrainingArguments. A function translates one row of a table (DialectKey::lower), or several keys that have a meaning
// only together.
#pragma once

#include "dialects/lowering.hpp"

#include <initializer_list>
#include <string>
#include <string_view>

namespace lockstep::hf {

inline constexpr const char* nothing_sent = "nothing is uploaded";
inline constexpr const char* launched = "mpirun or srun set the number of ranks and their nodes";
inline constexpr const char* no_adapters =
    "this version trains no adapters: all weights are trained, except optimizer.frozen";
inline constexpr const char* no_preferences = "training on preferences is not supported";
inline constexpr const char* not_needed = "not needed";  // the note of moot keys of torch's DistributedDataParallel

/// Does nothing. It is the row function of a key that another function translates together with other keys.
void jointly(const Node& value, Lowering& lowering);

void no_token(const Node& value, Lowering& lowering);  // refused without its text, except <…>
void export_at_end(const Node& value, Lowering& lowering);
void adafactor(const Node& value, Lowering& lowering);
void max_grad_norm(const Node& value, Lowering& lowering);           // 0: no clipping
void weight_decay(const Node& value, Lowering& lowering);            // applies to all tensors, as in transformers
void save_total_limit(const Node& value, Lowering& lowering);        // 0 keeps 1; a negative number keeps all
void start_point(const Node& value, Lowering& lowering);             // a path, relative to the current folder
void resume_from_checkpoint(const Node& value, Lowering& lowering);  // true: auto; false: never; otherwise a path
void metric(const Node& value, Lowering& lowering);                  // loss, eval_loss or eval_SET_loss
void greater_is_better(const Node& value, Lowering& lowering);
void recompute(const Node& value, Lowering& lowering);
/// Sets train.recompute from gradient_checkpointing, activation_checkpointing and their kwargs together.
void lower_recomputation(Lowering& lowering);
void device(const Node& value, Lowering& lowering);  // cpu or cuda, with or without a number
void use_cpu(const Node& value, Lowering& lowering);
void node_storage(const Node& value, Lowering& lowering);
void logging_dir(const Node& value, Lowering& lowering);  // auto: the default of the run
void bucket_cap(const Node& value, Lowering& lowering);   // MiB
void dtype(const Node& value, std::string_view canonical, Lowering& lowering);
/// Sets train.offload to these words: the state that is kept in host memory.
void offload(std::initializer_list<const char*> what, const Node& because_of, Lowering& lowering);
/// Puts all blocks of a stage into one unit.
void one_unit(const Node& because_of, Lowering& lowering);
/// Sets parallel.schedule from PyTorch's name of a pipeline schedule. Any other name is refused.
void pipeline_schedule(const std::string& name, const Node& value, Lowering& lowering);

/// Makes a step one micro-batch of each rank if only `batch` is set: neither `accumulation` nor Lockstep's own
/// train.global_batch.
void one_micro_batch(std::string_view batch, std::string_view accumulation, Lowering& lowering);
void lower_length(Lowering& lowering);     // num_train_epochs, max_steps
void lower_optimizer(Lowering& lowering);  // adam_beta1, adam_beta2
void lower_schedule(Lowering& lowering);   // lr_scheduler_type, lr_scheduler_kwargs, warmup_steps, warmup_ratio
/// Returns the key of the strategy of evaluations: eval_strategy, or its former name.
std::string_view evaluation_key(const Lowering& lowering);
void lower_cadence(Lowering& lowering);  // strategies and steps of logging, evaluation and saving
/// Translates eval_delay, in `unit` ("steps" or "epochs"). The delay applies to the evaluations of eval_strategy.
void lower_delay(const std::string& unit, Lowering& lowering);
void lower_prefetch(Lowering& lowering);  // dataloader_num_workers, dataloader_prefetch_factor

inline constexpr const char* no_compile = "kernels are compiled ahead of time";

}  // namespace lockstep::hf
