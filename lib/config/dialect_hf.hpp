// What the dialects forgather and transformers lower alike: the arguments of a trainer that both have from
// transformers' TrainingArguments. The functions are those of rows (DialectKey::lower), or lower what several keys say
// together.
#pragma once

#include "config/lowering.hpp"

#include <initializer_list>
#include <string>
#include <string_view>

namespace lockstep::hf {

/// Of keys that several say one thing together with.
void jointly(const Node& value, Lowering& lowering);

void max_grad_norm(const Node& value, Lowering& lowering);           // 0: no clipping
void weight_decay(const Node& value, Lowering& lowering);            // of all tensors, as there
void save_total_limit(const Node& value, Lowering& lowering);        // 0: 1; null or less than 0: all
void start_point(const Node& value, Lowering& lowering);             // a path, relative to the current folder
void resume_from_checkpoint(const Node& value, Lowering& lowering);  // true: auto, false: never, else a path
void metric(const Node& value, Lowering& lowering);                  // as loss, eval_loss or eval_SET_loss
void greater_is_better(const Node& value, Lowering& lowering);
void recompute(const Node& value, Lowering& lowering);
void device(const Node& value, Lowering& lowering);  // cpu or cuda, perhaps with a number
void use_cpu(const Node& value, Lowering& lowering);
void node_storage(const Node& value, Lowering& lowering);
void logging_dir(const Node& value, Lowering& lowering);  // auto: that of the run
void bucket_cap(const Node& value, Lowering& lowering);   // in MiB
void dtype(const Node& value, std::string_view canonical, Lowering& lowering);
/// What lies in host memory: a list of these words.
void offload(std::initializer_list<const char*> what, const Node& because_of, Lowering& lowering);
/// All blocks in one unit.
void one_unit(const Node& because_of, Lowering& lowering);
/// The name of a schedule of pipelines in PyTorch; what other name is refused.
void pipeline_schedule(const std::string& name, const Node& value, Lowering& lowering);

/// A step is one micro-batch of each rank where `batch` alone is said, unless the options of Lockstep's own say its
/// size.
void one_micro_batch(std::string_view batch, std::string_view accumulation, Lowering& lowering);
void lower_length(Lowering& lowering);     // num_train_epochs, max_steps
void lower_optimizer(Lowering& lowering);  // adam_beta1, adam_beta2
void lower_schedule(Lowering& lowering);   // lr_scheduler_type, lr_scheduler_kwargs, warmup_steps, warmup_ratio
void lower_cadence(Lowering& lowering);    // logging, evaluation, saving: strategies and steps
/// eval_delay, in such a unit: "steps" or "epochs". It waits for what eval_strategy says.
void lower_delay(const std::string& unit, Lowering& lowering);
void lower_prefetch(Lowering& lowering);  // dataloader_num_workers, dataloader_prefetch_factor

inline constexpr const char* no_compile = "kernels are compiled before, not while a model runs";

}  // namespace lockstep::hf
