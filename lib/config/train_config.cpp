#include "config/train_config.hpp"

#include "config/option.hpp"
#include "config/ranges.hpp"
#include "config/tool.hpp"
#include "config/train_choices.hpp"

namespace lockstep {

constexpr std::int64_t most_planned_ranks = 1 << 24;  // every rank has its place in a plan

namespace {

void describe(Declaration& visit, ModelOptions& model) {
  visit.field(
      "config", model.config,
      {.help =
           "a Hugging Face config.json, its folder, or a model OWNER/NAME in the cache of the Hugging Face hub: the "
           "network, initialised from train.seed",
       .value_name = "PATH",
       .completes = Completes::files});
  visit.field(
      "path", model.path,
      {.help =
           "a folder with config.json and safetensors, or a model OWNER/NAME in the cache of the Hugging Face hub: the "
           "network, starting from these weights",
       .value_name = "DIR",
       .completes = Completes::folders});
  const auto rate = [&](const std::string& name, std::optional<double>& value, const std::string& help) {
    visit.field(name, value, {.help = help, .min = 0, .max = 0.99, .fixed_on_resume = true});
  };
  rate("dropout", model.dropout,
       "share of values that a training step drops: of the embedding, of attention's probabilities and of what "
       "attention "
       "and the MLP add to the residual stream; instead of the rates of the config (embd_pdrop, attn_pdrop and "
       "resid_pdrop of gpt2, 0.1 where they are left out; attention_dropout of the others)");
  rate("embedding_dropout", model.embedding_dropout, "the same of the embedding alone");
  rate("attention_dropout", model.attention_dropout, "the same of attention's probabilities alone");
  rate("residual_dropout", model.residual_dropout, "the same of what attention and the MLP add, alone");
}

/// How text is prepared.
void describe_preparation(Declaration& visit, DataOptions& data) {
  visit.field("prepare", data.prepare,
              {.help = "what becomes of text that data.path, data.datasets or eval.datasets name: auto, it is prepared "
                       "by all ranks unless that was done before; skip, only that is taken, else the run ends with 3"});
  visit.field("cache", data.cache,
              {.help = "folder for what is prepared of text, which all ranks see; null: .lockstep-cache beside "
                       "train.run_dir",
               .value_name = "DIR",
               .completes = Completes::folders});
  describe(visit, data.preparation);
}

void describe(Declaration& visit, DataOptions& data) {
  visit.field("path", data.path,
              {.help = "folder of token shards that prepare-data wrote; or what it takes: files of text or records, "
                       "quoted globs, folders, which are then prepared first",
               .value_name = "PATH",
               .completes = Completes::files});
  visit.field("datasets", data.datasets,
              {.help = "several datasets instead of data.path, made with one tokenizer: without weights each sample of "
                       "all of them comes once an epoch, with weights each dataset goes through epochs of its own"});
  visit.field("shard", data.shard,
              {.help = "trains on the I-th of N equal parts of each dataset's samples alone, counted from 1; null: all",
               .fixed_on_resume = true});
  visit.field("train_split", data.train_split,
              {.help = "split to train on", .value_name = "NAME", .fixed_on_resume = true});
  visit.field("validation_split", data.validation_split, {.help = "split to evaluate on", .value_name = "NAME"});
  visit.field("sequence_length", data.sequence_length,
              {.help = "length of a sample",
               .unit = "tokens",
               .min = 1,
               .max = most_count,
               .required = true,
               .fixed_on_resume = true});
  visit.field("shuffle", data.shuffle, {.help = "permute the samples anew in each epoch", .fixed_on_resume = true});
  visit.field("shuffle_where", data.shuffle_where,
              {.help = "what data.shuffle permutes of data.datasets: mixture, all samples together; datasets, those of "
                       "each among themselves, which leaves the mixture as its weights say at every step; both; "
                       "absent: datasets with weights, mixture without",
               .fixed_on_resume = true});
  visit.field("isolate_documents", data.isolate_documents,
              {.help = "attention does not cross document boundaries", .fixed_on_resume = true});
  visit.field(
      "packing", data.packing,
      {.help =
           "what a sample is: windows, of the stream of all documents; none, a document, padded to the "
           "longest of the step; or documents that fill a row, each by itself to attention: sequential, in "
           "their order; multipack, first fit of the longest first; best_fit of the longest first; or one of a plug-in",
       .fixed_on_resume = true});
  visit.field("packing_group", data.packing_group,
              {.help = "documents that multipack and best_fit sort, and let share rows, at once; absent: 100000",
               .unit = "documents",
               .min = 1,
               .max = most_count,
               .fixed_on_resume = true});
  visit.field("long_documents", data.long_documents,
              {.help = "what becomes of documents that are longer than a row, unless samples are windows: split, into "
                       "rows; truncate; drop; absent: split",
               .fixed_on_resume = true});
  visit.field(
      "pad_to_multiple_of", data.pad_to_multiple_of,
      {.help = "what a packed document takes of its row, and with none a row, is a multiple of so many; absent: 1",
       .unit = "tokens",
       .min = 1,
       .max = most_count,
       .fixed_on_resume = true});
  visit.field("max_documents_per_row", data.max_documents_per_row,
              {.help = "documents of a sample, at most, where parallel.ring cuts each of them: the dataset is checked "
                       "against it, and without one memory is planned for so many; absent: data.sequence_length",
               .unit = "documents",
               .min = 1,
               .max = most_count});
  visit.field("seed", data.seed,
              {.help = "seed of the order of samples; absent: train.seed", .min = 0, .fixed_on_resume = true});
  visit.field("repeat_order", data.repeat_order,
              {.help = "all epochs have the samples in the order of the first", .fixed_on_resume = true});
  visit.field(
      "drop_last", data.drop_last,
      {.help = "an epoch ends with its last whole step, and what is left is not used in it; otherwise the first "
               "samples of the next epoch complete a step, or short_last_step says so",
       .fixed_on_resume = true});
  visit.field(
      "short_last_step", data.short_last_step,
      {.help = "an epoch ends with a step of the samples that are left, as in transformers, and no step goes on "
               "with the next epoch; with drop_last, samples are left out that are fewer than a micro-batch of "
               "every rank, as these were when the run began",
       .fixed_on_resume = true});
  visit.field("prefetch", data.prefetch,
              {.help = "batches that are made ahead, on a thread of their own, while steps run; 0: each step waits for "
                       "its own",
               .unit = "batches",
               .min = 0,
               .max = 1024});
  visit.field("verify", data.verify,
              {.help = "when shards are compared with the hashes in DATASET.json: use, each in the background once a "
                       "step reads from it, and before the next checkpoint; start, all before the first step; off"});
  describe_preparation(visit, data);
}

void describe(Declaration& visit, ParallelOptions& parallel) {
  visit.field("pp", parallel.pp,
              {.help = "ranks that share out the blocks of one model in stages, and hand activations and gradients on "
                       "(pipeline); auto: those that the other axes leave; absent: 1",
               .unit = "ranks"});
  visit.field("dp_replicate", parallel.dp_replicate,
              {.help = "ranks that hold equal weights and state; auto, or absent: those that dp_shard leaves",
               .unit = "ranks"});
  visit.field(
      "dp_shard", parallel.dp_shard,
      {.help = "ranks that share out the weights, gradients and optimizer state of one model, each parameter cut "
               "along its first dimension; auto: those that dp_replicate leaves; node: those of a node that faster "
               "axes leave, so "
               "that only dp_replicate crosses nodes; absent: 1",
       .unit = "ranks"});
  visit.field("ring", parallel.ring,
              {.help = "ranks that share the tokens of each micro-batch (context parallelism), each two parts of every "
                       "document, around which keys and values go within attention; auto: those that the other axes "
                       "leave; absent: 1",
               .unit = "ranks"});
  visit.field("ulysses", parallel.ulysses,
              {.help = "ranks that share the tokens of each micro-batch (context parallelism), each some rows of all "
                       "heads, and all rows of some heads within attention; auto: those that the other axes leave; "
                       "absent: 1",
               .unit = "ranks"});
  visit.field("cp_fsdp_mode", parallel.cp_fsdp_mode,
              {.help = "which axes of context parallelism share out the weights together with dp_shard, where that is "
                       "given; along the others weights are replicated; absent: all"});
  visit.field("tp", parallel.tp,
              {.help = "ranks that share each block (tensor parallelism): its heads, the width of its MLP and the "
                       "vocabulary, and sum activations in the middle of it; auto: those that the other axes leave; "
                       "absent: 1",
               .unit = "ranks"});
  visit.field("sequence_parallel", parallel.sequence_parallel,
              {.help = "the ranks of tp have the tokens of a micro-batch between them where they would otherwise all "
                       "keep and compute the same: norms, residual stream and what blocks hand on; absent: false"});
  visit.field("ep", parallel.ep,
              {.help = "ranks of a stage that share out the experts of each layer (expert parallelism): rows go to the "
                       "ranks that have their experts, and back; it divides the ranks of a stage anew, whatever the "
                       "other axes make of them; those with the same experts cut these where dp_shard cuts the rest; "
                       "absent: 1",
               .unit = "ranks",
               .min = 1,
               .max = most_count});
  visit.field("ep_outside", parallel.ep_outside,
              {.help = "ranks of ep are as far from each other as can be, and those with the same experts neighbours; "
                       "absent: false, the other way round"});
  visit.field("ep_capacity", parallel.ep_capacity,
              {.help = "rows that the experts of a rank take at once, over those that they get where tokens spread "
                       "evenly; more go there in further rounds, none is dropped; absent: 2",
               .min = 1,
               .max = 1e6});
  visit.field(
      "order", parallel.order,
      {.help = "axes of the mesh in the order in which ranks are numbered along them, the fastest last: its ranks "
               "are neighbours, on one machine where they fit; those that are not named come before: pp, "
               "dp_replicate, dp_shard, ring, ulysses, tp"});
  visit.field(
      "zero", parallel.zero,
      {.help = "what dp_shard shares out while a step runs (ZeRO): 1, optimizer state and the weights that it "
               "updates; 2, gradients too, scattered after each micro-batch; 3, gathered weights too, let go after "
               "each block; absent: 3",
       .min = 1,
       .max = 3});
  visit.field(
      "accumulate", parallel.accumulate,
      {.help = "what adds up over the micro-batches of a step: whole, each rank's whole gradient, which is reduced "
               "with the last; shards, scattered over dp_shard after each and summed over dp_replicate with the last; "
               "sums, reduced over all ranks after each; absent: shards for zero 2 and 3, otherwise whole"});
  visit.field(
      "reshard_after_forward", parallel.reshard_after_forward,
      {.help = "gathered weights of a block after its forward: true, they are let go; false, they stay; a number: so "
               "many neighbouring ranks of dp_shard share them out and gather them from each other alone for the rest "
               "of the step; absent: true for zero 3"});
  visit.field("reshard_after_backward", parallel.reshard_after_backward,
              {.help = "gathered weights of a block are let go after its backward, or stay for the next micro-batch; "
                       "absent: true for zero 3"});
  visit.field("prefetch", parallel.prefetch,
              {.help = "blocks whose weights are gathered ahead of the one that is computed; absent: 1",
               .unit = "blocks",
               .min = 0,
               .max = most_count});
  visit.field("units", parallel.units,
              {.help = "tensors of a block whose names match one of these are gathered, reduced and updated together, "
                       "apart from the rest of the block: a module by its name",
               .value_name = "REGEX"});
  visit.field(
      "bucket_size", parallel.bucket_size,
      {.help =
           "neighbouring blocks of a stage whose gradients fit in are gathered, reduced and updated together, as one "
           "unit, with a size above the model's all of a stage; null: each block by itself"});
  visit.field(
      "schedule", parallel.schedule,
      {.help = "order in which a rank runs its stages: gpipe, all forwards first; 1f1b, forward and backward in "
               "turn; interleaved_1f1b, so with several stages a rank; interleaved_zero_bubble, with gradients "
               "of weights put off to where a rank would wait; zbv, so with two stages a rank in the shape of "
               "a V; or one of a plug-in; absent: 1f1b"});
  visit.field("stages_per_rank", parallel.stages_per_rank,
              {.help = "stages that each rank of the pipeline has; absent: 2 for zbv and the interleaved schedules, "
                       "1 for the others",
               .unit = "stages",
               .min = 1,
               .max = most_count});
  visit.field("split_points", parallel.split_points,
              {.help = "blocks that the stages after the first begin at, in order: layer.8, head; empty: stages that "
                       "cost alike, embedding and head included",
               .value_name = "BLOCK"});
  visit.field("stage_splitter", parallel.stage_splitter,
              {.help = "what cuts blocks into stages where split_points does not: balanced, stages that cost alike, or "
                       "what a plug-in brings; absent: balanced"});
  visit.field("micro_batches", parallel.micro_batches,
              {.help = "micro-batches of one pass through the schedule; absent: those of a step by train.micro_batch, "
                       "divided by train.accumulation",
               .unit = "micro-batches",
               .min = 1,
               .max = most_count});
}

void describe(Declaration& visit, PostLocalSgdOptions& local) {
  visit.field(
      "start_step", local.start_step,
      {.help = "steps, counted from 0, after which cells of ranks sum no gradients with each other any more: each "
               "updates weights of its own, which are averaged over the cells after the first such step and "
               "every period; null: never",
       .unit = "steps",
       .min = 0,
       .max = most_count,
       .fixed_on_resume = true});
  visit.field("period", local.period,
              {.help = "steps from one average of the weights to the next; absent: 4",
               .unit = "steps",
               .min = 1,
               .max = most_count,
               .fixed_on_resume = true});
  visit.field("cell", local.cell,
              {.help = "ranks of a cell, which go on summing gradients with each other, those of a machine for "
                       "instance: neighbours along dp_replicate, each with the ranks of dp_shard that share a model "
                       "out with it, and those that share blocks or rows counted as one; absent: as many as dp_shard",
               .unit = "ranks",
               .min = 1,
               .max = most_count});
}

void describe(Declaration& visit, PrecisionOptions& precision) {
  visit.field("dtype", precision.dtype,
              {.help = "type that weights are gathered and computed in; bf16 and fp16 keep fp32 master weights, and "
                       "fp16, which is computed slowly "
                       "here, has a loss scale: its gradients overflow and vanish easily",
               .fixed_on_resume = true});
  visit.field(
      "reduce_dtype", precision.reduce_dtype,
      {.help = "type in which gradients are summed over ranks: each is cast, the sums are added in fp32 or wider "
               "and rounded once, and kept in the type of the master weights; null: that type, fp32 or fp64",
       .fixed_on_resume = true});
  visit.field(
      "output_dtype", precision.output_dtype,
      {.help = "type of what blocks hand to each other, between pipeline ranks too, and of its gradient: cast when it "
               "leaves a block, and back where the next begins; null: that of the master weights, fp32 or fp64",
       .fixed_on_resume = true});
  visit.field(
      "weights", precision.weights,
      {.help = "type that weights are kept and updated in: master, fp32 or of fp64 fp64; bf16, and no other copy "
               "of them, with precision.dtype bf16: updates that are small beside a weight are then lost "
               "unless optimizer.kahan keeps them",
       .fixed_on_resume = true});
  visit.field("matrix_unit", precision.matrix_unit,
              {.help = "products on the processor's matrix unit (Intel AMX) where it has one, those of fp32 as "
                       "six of three bf16 parts, no less exact; false: by the library's own routines"});
  LossScaleOptions& scale = precision.loss_scale;
  visit.field("init_scale", scale.init_scale,
              {.help = "loss scale of fp16 at the start: the loss's gradient is multiplied with it, and gradients are "
                       "divided by it before their norm is taken and weights are updated",
               .min = 0,
               .above_min = true,
               .fixed_on_resume = true});
  visit.field("growth_factor", scale.growth_factor,
              {.help = "what the loss scale is multiplied with after precision.growth_interval steps without overflow",
               .min = 1,
               .above_min = true,
               .fixed_on_resume = true});
  visit.field("backoff_factor", scale.backoff_factor,
              {.help = "what the loss scale is multiplied with when gradients overflow: the step is skipped then, and "
                       "counts neither for the schedule nor for moments",
               .min = 0,
               .max = 1,
               .above_min = true,
               .fixed_on_resume = true});
  visit.field("growth_interval", scale.growth_interval,
              {.help = "steps in a row without overflow after which the loss scale grows",
               .unit = "steps",
               .min = 1,
               .max = most_count,
               .fixed_on_resume = true});
  visit.field("min_scale", scale.min_scale,
              {.help = "a loss scale that falls below it ends the run with code 6", .min = 0});
}

/// What `rule`, an UpdateRule or what a group changes of one, has of each update rule.
template <class Rule>
void describe_rule(Declaration& visit, Rule& rule) {
  visit.field("betas", rule.betas,
              {.help = "decay rates of adamw's first and second moment; of lion's step and of its average",
               .min = 0,
               .max = 1,
               .fixed_on_resume = true});
  visit.field(
      "eps", rule.eps,
      {.help = "added to the root of adamw's second moment", .min = 0, .above_min = true, .fixed_on_resume = true});
  visit.field("momentum", rule.momentum,
              {.help = "share of the last step that sgd takes again", .min = 0, .max = 1, .fixed_on_resume = true});
  visit.field("nesterov", rule.nesterov,
              {.help = "sgd's momentum looks one step ahead (Nesterov)", .fixed_on_resume = true});
  visit.field(
      "state_dtype", rule.state_dtype,
      {.help = "type of the moments of adamw, and of the averages of lion and muon: that of the weights, or bf16, "
               "rounded to nearest at each step",
       .fixed_on_resume = true});
  visit.field("muon_momentum", rule.muon_momentum,
              {.help = "share of muon's average of gradients that stays each step; 0: no average",
               .min = 0,
               .max = 1,
               .fixed_on_resume = true});
  visit.field("muon_nesterov", rule.muon_nesterov,
              {.help = "muon's momentum looks one step ahead (Nesterov)", .fixed_on_resume = true});
  visit.field("muon_steps", rule.muon_steps,
              {.help = "steps of the Newton-Schulz iteration that makes a matrix orthogonal",
               .min = 1,
               .max = 99,
               .fixed_on_resume = true});
  visit.field("muon_adjust", rule.muon_adjust,
              {.help = "what muon's learning rate is multiplied with: original: sqrt(max(1, out/in)) of a matrix; "
                       "match_rms_adamw: 0.2 sqrt(max(out, in)), so that lr and weight_decay may be those of adamw",
               .fixed_on_resume = true});
  visit.field("adafactor_decay", rule.adafactor_decay,
              {.help = "the decay rate of adafactor's second moments at step t, from 1 on, is 1 - t^N",
               .max = 0,
               .fixed_on_resume = true});
  visit.field("adafactor_eps", rule.adafactor_eps,
              {.help = "added to the squares of gradients that adafactor takes the means of; and the least root of the "
                       "mean square of weights that adafactor_scale counts",
               .min = 0,
               .above_min = true,
               .fixed_on_resume = true});
  visit.field("adafactor_clip", rule.adafactor_clip,
              {.help = "adafactor's step of a tensor, before the learning rate, is divided by the root of its mean "
                       "square over this one, where that is more than 1",
               .min = 0,
               .above_min = true,
               .fixed_on_resume = true});
  visit.field("adafactor_scale", rule.adafactor_scale,
              {.help = "adafactor's learning rate of a tensor is multiplied with the root of the mean square of its "
                       "weights: lr is relative to these",
               .fixed_on_resume = true});
  visit.field("adafactor_relative_step", rule.adafactor_relative_step,
              {.help = "adafactor's learning rate at step t is 1/sqrt(t) at most", .fixed_on_resume = true});
  visit.field("adafactor_momentum", rule.adafactor_momentum,
              {.help = "share of adafactor's average of steps that stays each step; 0: no average, and no memory for "
                       "it",
               .min = 0,
               .max = 1,
               .fixed_on_resume = true});
}

void describe(Declaration& visit, OptimizerOptions& optimizer) {
  visit.field(
      "name", optimizer.name,
      {.help = "update rule; muon makes the momentum of hidden matrices orthogonal, and leaves other tensors to "
               "adamw; adafactor keeps of a matrix the second moments of rows and columns alone; or one of a plug-in",
       .fixed_on_resume = true});
  visit.field("lr", optimizer.lr,
              {.help = "peak learning rate, reached at the end of warm-up",
               .unit = "1/step",
               .min = 0,
               .max = 1,
               .fixed_on_resume = true});
  describe_rule(visit, optimizer);
  visit.field("kahan", optimizer.kahan,
              {.help = "what rounding takes from weights that are kept in bf16 is kept beside them, in bf16, and added "
                       "with the next step (compensated summation)",
               .fixed_on_resume = true});
  visit.field("muon_lr", optimizer.muon_lr,
              {.help = "muon's peak learning rate, which the schedule scales as lr; null: lr",
               .unit = "1/step",
               .min = 0,
               .max = 1,
               .fixed_on_resume = true});
  visit.field("weight_decay", optimizer.weight_decay,
              {.help = "weight decay: of adamw, lion, muon and adafactor decoupled and multiplied by the learning "
                       "rate, of sgd added to the gradient",
               .min = 0,
               .fixed_on_resume = true});
  visit.field("decay", optimizer.decay,
              {.help = "tensors that decay: matrices (two dimensions or more: no norms, no biases) or all",
               .fixed_on_resume = true});
  visit.field(
      "decay_exclude", optimizer.decay_exclude,
      {.help = "tensors whose name matches one of these do not decay", .value_name = "REGEX", .fixed_on_resume = true});
  visit.field(
      "frozen", optimizer.frozen,
      {.help = "tensors whose name matches one of these stay as they are: no gradient, no optimizer state, no part in "
               "the norm",
       .value_name = "REGEX",
       .fixed_on_resume = true});
  visit.field(
      "unmatched", optimizer.unmatched,
      {.help = "what a pattern of groups, decay_exclude or frozen that no tensor matches means: an end with the "
               "reason, or a warning"});
  visit.field("clip_norm", optimizer.clip_norm,
              {.help = "largest global norm of the gradient; null: no clipping",
               .min = 0,
               .above_min = true,
               .fixed_on_resume = true});
  visit.field(
      "in_backward", optimizer.in_backward,
      {.help = "update each block's weights in the backward pass, as soon as their gradient is complete, so that "
               "gradients of few blocks live at once; with one micro-batch a step, and without clip_norm"});
  visit.field("groups", optimizer.groups,
              {.help = "tensors with a learning rate, decay or update rule of their own; the first group that matches "
                       "counts",
               .fixed_on_resume = true});
}

void describe(Declaration& visit, ScheduleOptions& schedule) {
  const auto steps = [&](const std::string& name, auto& value, const std::string& help, double least = 1) {
    visit.field(name, value, {.help = help, .unit = "steps", .min = least, .max = most_count, .fixed_on_resume = true});
  };
  const auto ratio = [&](const std::string& name, std::optional<double>& value, const std::string& steps_option,
                         bool above_min) {
    visit.field(name, value,
                {.help = "the same as a part of the steps of the run, rounded up; null: " + steps_option + " says",
                 .min = 0,
                 .max = 1,
                 .above_min = above_min,
                 .fixed_on_resume = true});
  };
  const auto rate = [&](const std::string& name, auto& value, const std::string& help) {
    visit.field(name, value, {.help = help, .unit = "1/step", .min = 0, .max = 1, .fixed_on_resume = true});
  };
  visit.field(
      "name", schedule.name,
      {.help = "how the learning rate falls after warm-up: as a line, a half cosine or a power of what is left "
               "of the decay; not at all; as the inverse root of the step; wsd: not before its cooldown; "
               "infinite: as a half cosine to schedule.constant_lr, and again in its cooldown; or one of a plug-in",
       .fixed_on_resume = true});
  rate("start_lr", schedule.start_lr, "learning rate that warm-up begins from");
  steps(
      "warmup_steps", schedule.warmup_steps,
      "steps over which the learning rate rises linearly to optimizer.lr, which the last of them has, or the next one "
      "(warmup_from)",
      0);
  ratio("warmup_ratio", schedule.warmup_ratio, "warmup_steps", false);
  visit.field(
      "warmup_from", schedule.warmup_from,
      {.help = "count the steps of warm-up from one, so that the last of them has optimizer.lr, or from zero, so that "
               "the first of them has start_lr, as in transformers",
       .fixed_on_resume = true});
  steps("decay_steps", schedule.decay_steps,
        "step at which the decay has ended, at min_lr, of infinite at constant_lr; null: the last of the run");
  ratio("decay_ratio", schedule.decay_ratio, "decay_steps", true);
  rate("min_lr", schedule.min_lr, "learning rate at the end of the decay, not a fraction of optimizer.lr");
  steps("cooldown_steps", schedule.cooldown_steps,
        "steps in which wsd falls to min_lr, the last before decay_steps, or infinite, the last of the run; null: "
        "infinite stays at constant_lr");
  ratio("cooldown_ratio", schedule.cooldown_ratio, "cooldown_steps", true);
  visit.field("cooldown_shape", schedule.cooldown_shape,
              {.help = "how wsd falls: as a line, a half cosine, or one minus the root of the part that is over; null: "
                       "linear",
               .fixed_on_resume = true});
  rate("constant_lr", schedule.constant_lr,
       "learning rate of infinite between decay and cooldown, from which it falls as an exponential");
  visit.field("cycles", schedule.cycles,
              {.help = "how often a cosine starts anew at optimizer.lr, the first time counted; null: 1",
               .min = 1,
               .max = most_count,
               .fixed_on_resume = true});
  visit.field("power", schedule.power,
              {.help = "of polynomial; null: 2", .min = 0, .max = 100, .above_min = true, .fixed_on_resume = true});
  steps("timescale", schedule.timescale,
        "of inverse_sqrt: steps after which the learning rate, had there been no warm-up, begins to fall, and after "
        "four times as many is half; null: those of warm-up, or 10000");
}

void describe(Declaration& visit, TrainOptions& train) {
  visit.field("run_dir", train.run_dir,
              {.help = "folder of this run: configuration, records, checkpoints; started again, it continues there",
               .value_name = "DIR",
               .required = true,
               .completes = Completes::folders});
  visit.field("max_steps", train.max_steps,
              {.help = "optimizer steps of the whole run; null: train.epochs says",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("epochs", train.epochs,
              {.help = "passes over the data, of which the run takes as many steps as begin in them, 1.5 for instance; "
                       "null: train.max_steps says",
               .unit = "epochs",
               .min = 0,
               .max = most_count,
               .above_min = true});
  visit.field("global_batch", train.global_batch,
              {.help = "samples of one step over all ranks; null: train.micro_batch, train.accumulation and "
                       "parallel.micro_batches say what a rank computes in a step, and the ranks that share the data "
                       "at the first start how often",
               .unit = "samples",
               .min = 1,
               .max = most_count,
               .fixed_on_resume = true});
  visit.field("micro_batch", train.micro_batch,
              {.help = "samples that a rank computes at once; null: all of its samples of a step",
               .unit = "samples",
               .min = 1,
               .max = most_count});
  visit.field("accumulation", train.accumulation,
              {.help = "passes of a step through the schedule, each of parallel.micro_batches, whose gradients add up; "
                       "absent: the micro-batches of a step by train.micro_batch, divided by parallel.micro_batches, "
                       "or 1",
               .unit = "passes",
               .min = 1,
               .max = most_count});
  visit.field("recompute", train.recompute,
              {.help = "what backward computes again instead of keeping it from forward: nothing, each decoder block, "
                       "or the first and every K-th after it"});
  visit.field(
      "recompute_keeps", train.recompute_keeps,
      {.help =
           "what blocks that are recomputed keep from forward all the same, and so do not compute again: attention, "
           "what it gives and the sums of its soft-max; projections, the products before and behind it; mlp, what "
           "goes into the activation, and of experts what they give too; matmul, projections and mlp but for "
           "experts; experts, outputs of their products"});
  visit.field("activation_memory_budget", train.activation_memory_budget,
              {.help = "memory of a rank for activations: what blocks keep between forward and backward, hand to each "
                       "other and compute with; or the part that is kept of what recomputation of all blocks saves, "
                       "from 0% to 100%; it chooses the blocks that are recomputed and what each of them keeps, so "
                       "that the least is computed again; absent: train.recompute and train.recompute_keeps say"});
  visit.field(
      "offload", train.offload,
      {.help =
           "what lies in host memory while nothing uses it: optimizer, the optimizer's state, which comes to "
           "the device for the update of each unit; shards, all that a rank keeps of units that are cut: "
           "weights, reduced gradients and that state; activations, what blocks keep between forward and backward"});
  visit.field(
      "host_memory", train.host_memory,
      {.help = "host memory of a rank for what is offloaded; as many activations go as it has room for, and a run "
               "whose optimizer or shards need more is refused with code 5; absent: no limit"});
  visit.field("seed", train.seed,
              {.help = "of initial weights and sample order; -1: the run draws one, records it and keeps it on resume",
               .min = -1,
               .fixed_on_resume = true});
  visit.field(
      "loss", train.loss,
      {.help = "what a step makes small, by rows of logits: cross_entropy, of the next token, or one of a plug-in; "
               "evaluations measure the cross entropy",
       .fixed_on_resume = true});
  visit.field(
      "label_smoothing", train.label_smoothing,
      {.help = "share of the loss of a step that is the mean over the vocabulary of -log p, the rest is that of the "
               "next token; evaluations measure the next token's alone",
       .min = 0,
       .max = 0.99,
       .fixed_on_resume = true});
  visit.field("device", train.device, {.help = "where the network runs; this version trains on cpu only"});
  visit.field("max_time", train.max_time, {.help = "save and stop, with exit code 75, when the run has taken so long"});
  visit.field(
      "threads", train.threads,
      {.help = "threads of a rank; null: cores divided by the ranks of this machine", .min = 1, .max = most_threads});
  visit.field("memory_check", train.memory_check,
              {.help = "refuse to start, with code 5, where the ranks of a machine need more memory than it or their "
                       "control group has available; --dry-run warns where they need more than there is"});
  visit.field(
      "callbacks", train.callbacks,
      {.help = "what is called at evaluations and at the end: sample generates text from sample.prompts; and what "
               "plug-ins bring, at the events of a run"});
  visit.field("inject", train.inject,
              {.help = "bring a failure about: rank=R,phase=P,step=S,kind=K", .value_name = "SPEC", .hidden = true});
  visit.field("on_nonfinite", train.on_nonfinite,
              {.help = "a step whose loss or gradient is not finite never changes weights or moments: skip "
                       "goes on with the next step's samples and ends with code 6 at the fourth such step in a row, "
                       "stop ends with code 6 at the first"});
  visit.field("detect_anomaly", train.detect_anomaly,
              {.help = "look at what every block puts out, forward and backward, and at each gradient, so that a step "
                       "that is not finite names the first weight, output or gradient that was not, its micro-batch "
                       "and rank; it takes time"});
  visit.field(
      "watchdog", train.watchdog,
      {.help = "longest time that a rank may be in one phase before the job ends with code 7 and a table of where "
               "every rank is; 0: no limit"});
  visit.field("watchdog_phases", train.watchdog_phases,
              {.help = "phases with a limit of their own: save takes long on a slow file system"});
}

void describe(Declaration& visit, EvalOptions& eval) {
  visit.field("every", eval.every,
              {.help = "how often the model is evaluated during training, by steps, by epochs of the data or parts of "
                       "them, by the time since it was last done, or by several of these: 500 steps + 1 epochs"});
  visit.field("delay", eval.delay, {.help = "steps or epochs of the run before which eval.every evaluates nothing"});
  visit.field("at_start", eval.at_start, {.help = "evaluate before the first step of the run"});
  visit.field("on_save", eval.on_save,
              {.help = "evaluate before each checkpoint is saved, so that every one can be the best; not before the "
                       "save of a run that is asked to stop"});
  visit.field(
      "batches", eval.batches,
      {.help = "samples of an evaluation in global batches, spread evenly over the validation split; null: all of "
               "it",
       .min = 1,
       .max = most_count});
  visit.field("at_end", eval.at_end, {.help = "evaluate after the last step"});
  visit.field("patience", eval.patience,
              {.help = "so many evaluations in a row without a better checkpoint.best_metric finish the run before its "
                       "last step, as it would end there; null: it goes on",
               .min = 1,
               .max = most_count});
  visit.field(
      "min_gain", eval.min_gain,
      {.help = "how much better the metric must be than the best that counted before, to count for eval.patience",
       .min = 0});
  visit.field("micro_batch", eval.micro_batch,
              {.help = "samples that a rank evaluates at once: a matter of memory and speed alone; null: those of "
                       "training",
               .unit = "samples",
               .min = 1,
               .max = most_count});
  visit.field("packing", eval.packing,
              {.help = "what a sample of an evaluation is, which packs documents by itself; absent: data.packing"});
  visit.field("datasets", eval.datasets,
              {.help = "sets that are evaluated one after the other, each recorded under its name; empty: the "
                       "data.validation_split of data.path, or of each of data.datasets that has one"});
}

void describe(Declaration& visit, DivergenceOptions& divergence) {
  visit.field("detector", divergence.detector,
              {.help = "how it is noticed that a loss rises for good: averages, of which one follows losses with "
                       "1/divergence.few of each and one with 1/divergence.many; windows, means of so many losses as "
                       "these say; null: nobody looks"});
  visit.field("of", divergence.of,
              {.help = "the loss that is looked at: eval_loss, of each evaluation; loss, of each step"});
  visit.field("threshold", divergence.threshold,
              {.help = "how far the mean of few losses may lie above that of many; as far, and the run ends with "
                       "code 6",
               .min = 0,
               .above_min = true});
  const auto losses = [&](const std::string& name, std::int64_t& value, const std::string& help) {
    visit.field(name, value, {.help = help, .unit = "losses", .min = 1, .max = 100000});
  };
  losses("few", divergence.few, "losses of the mean that follows fast");
  losses("many", divergence.many, "losses of the mean that follows slowly");
  visit.field("action", divergence.action, {.help = "how the run ends then: stop, with a checkpoint; abort, without"});
}

void describe(Declaration& visit, SampleOptions& sample) {
  visit.field("prompts", sample.prompts, {.help = "texts that the sample callback continues", .value_name = "TEXT"});
  visit.field("max_tokens", sample.max_tokens,
              {.help = "length of a continuation", .unit = "tokens", .min = 1, .max = most_count});
  visit.field("temperature", sample.temperature,
              {.help = "divides the logits; 0: always the most probable token", .min = 0});
  visit.field("top_k", sample.top_k,
              {.help = "draw from so many most probable tokens; null: from all",
               .unit = "tokens",
               .min = 1,
               .max = most_count});
  visit.field("seed", sample.seed, {.help = "of the draws", .min = 0});
}

void describe(Declaration& visit, CheckpointOptions& checkpoint) {
  visit.field("every", checkpoint.every,
              {.help = "how often a checkpoint is saved, said as eval.every; never: only when stopped and as at_end "
                       "says"});
  visit.field(
      "interval", checkpoint.interval,
      {.help = "time between checkpoints besides, counted by rank 0 from the last one; auto: what saves cost and "
               "what failures lose is least together, by Daly's estimate from the longest save so far and "
               "checkpoint.mtbf"});
  visit.field("mtbf", checkpoint.mtbf,
              {.help = "mean time between failures of the job, which checkpoint.interval: auto goes by"});
  visit.field("keep_last", checkpoint.keep_last,
              {.help = "sound checkpoints to keep; older ones are removed once a new one is complete, or to make room "
                       "for it where there is none",
               .min = 1,
               .max = most_count});
  visit.field(
      "keep_best", checkpoint.keep_best,
      {.help = "checkpoints with the best values of best_metric that are kept besides", .min = 0, .max = most_count});
  visit.field("best_metric", checkpoint.best_metric,
              {.help = "what is measured by an evaluation that best checkpoints are chosen by, here, in records and "
                       "with resume: best"});
  visit.field("best_dataset", checkpoint.best_dataset,
              {.help = "name of the evaluated set that best_metric is of; null: the first", .value_name = "NAME"});
  visit.field("best_direction", checkpoint.best_direction,
              {.help = "which values of best_metric are better; auto: higher ones of accuracy, lower ones of the "
                       "others"});
  visit.field("keep_every", checkpoint.keep_every,
              {.help = "steps of whose multiples checkpoints are kept besides; null: none",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("pinned", checkpoint.pinned, {.help = "steps whose checkpoints are kept besides", .min = 1});
  visit.field("at_end", checkpoint.at_end, {.help = "save after the last step"});
  visit.field(
      "load_best_at_end", checkpoint.load_best_at_end,
      {.help = "after the last checkpoint, which keeps the weights of the last step, load those of the best one "
               "for a last evaluation, the texts of callbacks and the export"});
  visit.field("export_at_end", checkpoint.export_at_end,
              {.help = "export the last checkpoint, or with load_best_at_end the best one, as a Hugging Face model in "
                       "bf16 to RUN/export/step-N"});
  visit.field(
      "resume", checkpoint.resume,
      {.help = "where to start: auto continues from the newest valid checkpoint if there is one; a path "
               "names a checkpoint of another run, or of weights alone, which counts until this run has one of its "
               "own; never and afresh start from scratch, the one where there is no checkpoint, the other after those "
               "that are there were put aside"});
  visit.field("allow_change", checkpoint.allow_change,
              {.help = "options whose values may be others than those of the checkpoint that the run goes on from, "
                       "though they alter what follows, or sections of such options: each change is recorded",
               .value_name = "OPTION"});
  visit.field(
      "only", checkpoint.only,
      {.help = "of a checkpoint of another run load these alone, what else there is starts afresh: components by "
               "name, or tensors whose full name (model/lm_head.weight) has a match of a regular expression"});
  visit.field("skip", checkpoint.skip, {.help = "of a checkpoint of another run do not load these, said as in only"});
  visit.field("components", checkpoint.components,
              {.help = "what checkpoints hold: model, optimizer, trainer (steps, losses, loss scale), data (where the "
                       "run is in its data), callbacks; empty: all; a run cannot go on from one without optimizer, "
                       "trainer and data, but another may start from it"});
  visit.field(
      "storage", checkpoint.storage,
      {.help = "what train.run_dir lies on: shared, storage that all ranks see; per_node, storage of each node's "
               "own, which has under this path what the ranks of the node write"});
  visit.field("local_dir", checkpoint.local_dir,
              {.help = "folder on a fast disk of each node to which saves go first; they are copied to train.run_dir "
                       "behind training, and a start goes on from either; null: saves go to train.run_dir",
               .value_name = "DIR",
               .completes = Completes::folders});
  visit.field("ranks_per_file", checkpoint.ranks_per_file,
              {.help = "neighbouring ranks that share one part file of a pattern; node: those of a node"});
  visit.field("background", checkpoint.background,
              {.help = "whether training goes on while a copy of the state is written (it stands still for the copy, "
                       "and for a save after which nothing follows): true, false, or auto where memory has room for "
                       "the copy"});
  visit.field("on_busy", checkpoint.on_busy,
              {.help = "what becomes of a save that is due while one is under way: skip leaves it out, wait lets it "
                       "begin when the other is done; null: wait"});
  visit.field(
      "snapshot_memory", checkpoint.snapshot_memory,
      {.help = "memory of a rank for the copy, never less than its largest piece, which is filled several times "
               "where the state needs more; null: as much as the state needs"});
  visit.field("read_back", checkpoint.read_back,
              {.help = "what a save has written is read from the storage and compared before the checkpoint counts and "
                       "older ones go"});
  visit.field(
      "metadata", checkpoint.metadata,
      {.help = "what each checkpoint says of the run besides, in words of yours, for checkpoint-inspect to show"});
  visit.field("validation", checkpoint.validation,
              {.help = "how deeply a save compares the weights and moments that ranks should hold alike: not at all, "
                       "the ends of each tensor, by turns a share of each, fingerprints of all, or these and hashes"});
  visit.field("validation_saves", checkpoint.validation_saves,
              {.help = "saves of checkpoint.every in a row that with validation: rolling compare all of each tensor, "
                       "each an equal share; null: 8",
               .unit = "saves",
               .min = 2,
               .max = 1000});
  visit.field("on_difference", checkpoint.on_difference,
              {.help = "what a save does where ranks that should hold the same do not: fail ends the run with code 1, "
                       "warn saves what the first rank of them holds, repair gives all of them what most of three or "
                       "more hold, else fails; the last two compare once more before the save"});
  visit.field("max_failures", checkpoint.max_failures,
              {.help = "failed saves in a row that end the run; after fewer the checkpoint before stays current and "
                       "training goes on",
               .unit = "saves",
               .min = 1,
               .max = most_count});
  visit.field("patience", checkpoint.patience,
              {.help = "how long a start looks anew at a checkpoint that cannot be read, that lacks files, or that not "
                       "all ranks see alike, and a save at what other ranks have made"});
}

void describe(Declaration& visit, LogOptions& log) {
  visit.field("every", log.every,
              {.help = "how often a step record is written, said as eval.every; the last step has one in any case"});
  visit.field("first_step", log.first_step, {.help = "the first step has a record, too"});
  visit.field("format", log.format,
              {.help = "of the log on standard error: progress, lines for people and how far the run is; structured, "
                       "JSON, one object a line, with the numbers of each step record"});
  visit.field("tensorboard", log.tensorboard, {.help = "write event files for TensorBoard"});
  visit.field("tensorboard_dir", log.tensorboard_dir,
              {.help = "folder for them; null: RUN/tensorboard", .value_name = "DIR", .completes = Completes::folders});
  visit.field("wandb", log.wandb,
              {.help = "Weights & Biases: offline writes the run as its own client does without a network, for "
                       "wandb sync to send; online is refused"});
  visit.field("wandb_project", log.wandb_project, {.help = "project of that run; null: the one that wandb sync takes"});
  visit.field("wandb_name", log.wandb_name, {.help = "its name; null: that of the run folder", .value_name = "NAME"});
  visit.field("wandb_tags", log.wandb_tags, {.help = "its tags"});
  visit.field("wandb_every", log.wandb_every,
              {.help = "steps at whose multiples step records go there; null: all step records do",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("wandb_dir", log.wandb_dir,
              {.help = "folder that gets a folder offline-run-… for each start; null: RUN/wandb",
               .value_name = "DIR",
               .completes = Completes::folders});
  visit.field(
      "statistics", log.statistics,
      {.help = "what has statistics of each tensor in records, norm, mean, deviation, least, greatest and zeros: "
               "weights, gradients"});
  visit.field("statistics_every", log.statistics_every, {.help = "how often, said as eval.every; null: as log.every"});
  visit.field("speed_from_step", log.speed_from_step,
              {.help = "of the steps of a start, counted from 1, the first that counts for the speeds of the summary; "
                       "those before it warm up",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("peak_tflops", log.peak_tflops,
              {.help = "dense peak of the hardware of one rank in the type of precision.dtype: what mfu divides by; "
                       "null: that of peak_device",
               .unit = "TFLOP/s",
               .min = 0,
               .above_min = true});
  visit.field("peak_device", log.peak_device,
              {.help = "product that one rank computes with, as its maker names it, whose dense peak is known "
                       "(lockstep-performance(7) lists them), instead of peak_tflops; null: mfu is not known",
               .value_name = "NAME"});
  visit.field("profile_start_step", log.profile_start_step,
              {.help = "first step that is profiled: time by kind of work in records and as a table, each "
                       "action in profile.json for Perfetto; null: none",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("profile_end_step", log.profile_end_step,
              {.help = "last step that is profiled; null: the first", .unit = "steps", .min = 1, .max = most_count});
  visit.field(
      "profile_dir", log.profile_dir,
      {.help = "folder for profile.json; null: the run folder", .value_name = "DIR", .completes = Completes::folders});
  visit.field("profile_ranks", log.profile_ranks,
              {.help = "ranks whose actions profile.json shows; empty: all; records and table are of all ranks",
               .min = 0,
               .max = most_count});
  visit.field("profile_shapes", log.profile_shapes,
              {.help = "each action in profile.json says what it works on: samples and tokens, bytes, shapes of "
                       "weights"});
  visit.field("profile_memory", log.profile_memory,
              {.help = "profile.json shows the memory of each rank over time, behind each action"});
}

template <class Section>
void section(Declaration& visit, const std::string& name, Section& options, const std::string& help) {
  visit.section(name, help, [&] { describe(visit, options); });
}

}  // namespace

bool shards_along(const ParallelOptions& parallel, MeshAxis axis) {
  if (!parallel.dp_shard) return false;
  switch (parallel.cp_fsdp_mode.value_or(CpFsdpMode::all)) {
    case CpFsdpMode::all: return true;
    case CpFsdpMode::ulysses_only: return axis == MeshAxis::ulysses;
    case CpFsdpMode::ring_only: return axis == MeshAxis::ring;
    case CpFsdpMode::none: return false;
  }
  throw Error(ExitCode::bug, "a cp_fsdp_mode without a meaning");
}

void describe(Declaration& visit, OptimizerGroup& group) {
  visit.field("match", group.match, {.help = "names of tensors", .value_name = "REGEX", .required = true});
  visit.field("optimizer", group.name,
              {.help = "update rule of these tensors, of muon for matrices alone; null: as without the group"});
  visit.field("lr", group.lr,
              {.help = "peak learning rate, which the schedule scales as optimizer.lr; null: as without the group",
               .unit = "1/step",
               .min = 0,
               .max = 1});
  visit.field("lr_scale", group.lr_scale, {.help = "multiplies the learning rate", .min = 0});
  visit.field("weight_decay", group.weight_decay,
              {.help = "instead of optimizer.weight_decay and its exclusions", .min = 0});
  describe_rule(visit, group);
}

void describe(Declaration& visit, PhaseLimit& limit) {
  visit.field(
      "phase", limit.phase,
      {.help =
           "what the rank is doing; step: data, forward, backward, reduction, update, callbacks; save: each part of it",
       .required = true});
  visit.field("limit", limit.limit, {.help = "instead of train.watchdog; 0: no limit", .required = true});
}

namespace {

void describe_choice(Declaration& visit, DatasetChoice& dataset, const std::string& usual_split) {
  visit.field(
      "path", dataset.path,
      {.help =
           "folder of token shards that prepare-data wrote; or text, as data.path takes it; dummy: none, tokens are "
           "made for tests of speed",
       .value_name = "PATH",
       .required = true,
       .completes = Completes::files});
  visit.field("name", dataset.name, {.help = "in plans and records; null: what the path ends with"});
  visit.field("split", dataset.split, {.help = "null: " + usual_split, .value_name = "NAME"});
  visit.field("samples", dataset.samples,
              {.help = "its first so many samples alone, null: all; of dummy, how many there are",
               .unit = "samples",
               .min = 1,
               .max = most_count});
  visit.field("shard", dataset.shard, {.help = "the I-th of N equal parts of these alone, counted from 1; null: all"});
  visit.field("length", dataset.length,
              {.help = "of the samples of dummy, which padding follows; null: data.sequence_length",
               .unit = "tokens",
               .min = 1,
               .max = most_count});
  visit.field("tokens", dataset.tokens,
              {.help = "of dummy: random, ids of the model's vocabulary drawn by data.seed; constant, the id 0; null: "
                       "random"});
}

}  // namespace

void describe(Declaration& visit, TrainingDataset& dataset) {
  describe_choice(visit, dataset, "data.train_split");
  visit.field("weight", dataset.weight,
              {.help = "its share of the samples is its weight by the sum of all; of all datasets or of none",
               .min = 0,
               .above_min = true});
}

void describe(Declaration& visit, EvaluationDataset& dataset) {
  describe_choice(visit, dataset, "data.validation_split");
  visit.field("batches", dataset.batches,
              {.help = "samples of its evaluation in global batches, spread evenly over it; null: eval.batches",
               .min = 1,
               .max = most_count});
}

void describe(Declaration& visit, TrainConfig& config) {
  describe_plugin_files(visit, config.plugin);
  section(visit, "model", config.model, "the network");
  section(visit, "data", config.data, "what is trained on");
  section(visit, "parallel", config.parallel, "how ranks share the work");
  section(visit, "post_local_sgd", config.post_local_sgd, "cells of ranks that train apart and average their weights");
  section(visit, "precision", config.precision, "element types");
  section(visit, "optimizer", config.optimizer, "how weights are updated");
  section(visit, "schedule", config.schedule, "learning rate over time");
  section(visit, "train", config.train, "the run");
  section(visit, "eval", config.eval, "evaluation on the validation split");
  section(visit, "divergence", config.divergence, "when a loss that rises ends a run");
  section(visit, "sample", config.sample, "text generated by the sample callback");
  section(visit, "checkpoint", config.checkpoint, "saving and resuming");
  section(visit, "log", config.log, "records");
  describe_plugin_options(visit, config.plugin_values);
  visit.field("print_program", config.print_program,
              {.help = "print the step programs, one list for each class of ranks that do the same, and exit",
               .command_line_only = true});
  visit.field("print_layout", config.print_layout,
              {.help = "print which part of each tensor each rank holds, and exit", .command_line_only = true});
  visit.field(
      "print_groups", config.print_groups,
      {.help = "print which tensors the optimizer updates alike, by what rule, learning rate and weight decay, and "
               "exit",
       .command_line_only = true});
  visit.field("print_components", config.print_components,
              {.help = "print what a checkpoint is made of, which ranks hold, write and compare it, and exit",
               .command_line_only = true});
  visit.field("plot_schedule", config.plot_schedule,
              {.help = "draw the learning rate over the steps of the run, and exit: as a picture, as its values in "
                       "JSON, or in text on standard output",
               .bare = "text",
               .command_line_only = true,
               .completes = Completes::files});
  visit.field("plot_program", config.plot_program,
              {.help = "draw when each rank does what in a step, by estimated costs, and exit: as a picture, as a "
                       "trace for Perfetto, or in text on standard output",
               .bare = "text",
               .command_line_only = true,
               .completes = Completes::files});
  visit.field("program", config.program,
              {.help = "of the step programs, print or draw the one of this name: train, eval, sample, or local and "
                       "average of post-local SGD; absent: all are printed, and the one that updates weights is drawn",
               .value_name = "NAME",
               .command_line_only = true});
  visit.field("rank", config.rank,
              {.help = "of what is printed for all ranks, only the part of this one",
               .min = 0,
               .max = most_count,
               .command_line_only = true});
  visit.field("world_size", config.world_size,
              {.help = "plan for so many ranks instead of those that were started; where the dataset is not there, all "
                       "that does not depend on it",
               .unit = "ranks",
               .min = 1,
               .max = most_planned_ranks,
               .command_line_only = true});
  visit.field("ranks_per_node", config.ranks_per_node,
              {.help = "plan for machines with so many ranks each, numbered one machine after the other",
               .unit = "ranks",
               .min = 1,
               .max = most_planned_ranks,
               .command_line_only = true});
  visit.field(
      "eval_only", config.eval_only,
      {.help = "print the validation loss of the checkpoint that checkpoint.resume means, as an eval record, and exit; "
               "nothing is written",
       .command_line_only = true});
  visit.field("plan", config.plan,
              {.help = "show the whole plan, at the start or with --dry-run, not only what fits on a screen",
               .command_line_only = true});
  visit.field("profile", config.profile,
              {.help = "profile so many steps (10 if it is not said) after the first two of this start, as "
                       "log.profile_start_step and log.profile_end_step would",
               .unit = "steps",
               .min = 1,
               .max = most_count,
               .bare = "10",
               .command_line_only = true});
}

Tool tool_of(const TrainConfig&) {
  return {.name = "train",
          .summary = "train a transformer language model",
          .synopsis = {"[OPTION...] CONFIG.yaml..."},
          .arguments = Tool::Arguments::config_files,
          .dry_run = Tool::DryRun::yes,
          .output = Tool::Output::records};
}

}  // namespace lockstep
