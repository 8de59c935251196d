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
      {.brief = "Hugging Face config.json (file, folder, OWNER/NAME): from scratch",
       .details = "OWNER/NAME is read from the cache of the Hugging Face hub. Weights are initialised from train.seed",
       .value_name = "PATH",
       .completes = Completes::files});
  visit.field(
      "path", model.path,
      {.brief = "Hugging Face model (folder or OWNER/NAME): fine-tune its weights",
       .details =
           "The folder holds config.json and safetensors. OWNER/NAME is read from the cache of the Hugging Face hub",
       .value_name = "DIR",
       .completes = Completes::folders});
  const auto rate = [&](const std::string& name, std::optional<double>& value, const std::string& brief) {
    visit.field(name, value, {.brief = brief, .min = 0, .max = 0.99, .fixed_on_resume = true});
  };
  rate("dropout", model.dropout, "dropout rate of embedding, attention and residual (not config.json's)");
  rate("embedding_dropout", model.embedding_dropout, "dropout rate of the embedding");
  rate("attention_dropout", model.attention_dropout, "dropout rate of the attention probabilities");
  rate("residual_dropout", model.residual_dropout, "dropout rate of the attention and MLP outputs (residual)");
}

/// How text is prepared.
void describe_preparation(Declaration& visit, DataOptions& data) {
  visit.field(
      "prepare", data.prepare,
      {.brief = "tokenize raw text before training: auto or skip",
       .details = "It applies to text that data.path, data.datasets or eval.datasets name. auto: all ranks prepare it "
                  "unless that was done before. skip: only prepared text is used, otherwise the run ends with 3"});
  visit.field("cache", data.cache,
              {.brief = "cache folder for prepared text, visible to all ranks",
               .unset = ".lockstep-cache beside train.run_dir",
               .value_name = "DIR",
               .completes = Completes::folders});
  describe(visit, data.preparation);
}

void describe(Declaration& visit, DataOptions& data) {
  visit.field("path", data.path,
              {.brief = "training data: token shards, or text and records to tokenize first",
               .details = "Token shards are a folder that prepare-data wrote. Text and records are files, quoted globs "
                          "or folders, as prepare-data takes them",
               .value_name = "PATH",
               .completes = Completes::files});
  visit.field("datasets", data.datasets,
              {.brief = "several datasets (a mixture) instead of data.path",
               .details = "All use one tokenizer. Without weights, each sample of each dataset comes once per epoch. "
                          "With weights, each dataset has epochs of its own"});
  visit.field("shard", data.shard,
              {.brief = "train on part I of N equal parts of each dataset, counted from 1",
               .unset = "all of it",
               .fixed_on_resume = true});
  visit.field("train_split", data.train_split,
              {.brief = "split to train on", .value_name = "NAME", .fixed_on_resume = true});
  visit.field("validation_split", data.validation_split, {.brief = "split to evaluate on", .value_name = "NAME"});
  visit.field("sequence_length", data.sequence_length,
              {.brief = "sequence length of a sample",
               .unit = "tokens",
               .min = 1,
               .max = most_count,
               .required = true,
               .fixed_on_resume = true});
  visit.field("shuffle", data.shuffle, {.brief = "shuffle the samples in each epoch", .fixed_on_resume = true});
  visit.field("shuffle_where", data.shuffle_where,
              {.brief = "scope of data.shuffle in a mixture",
               .details = "mixture shuffles all samples together. datasets shuffles within each dataset, and keeps the "
                          "mixture exact at every step. both does both",
               .unset = "datasets with weights, mixture without",
               .fixed_on_resume = true});
  visit.field("isolate_documents", data.isolate_documents,
              {.brief = "mask attention at document boundaries", .fixed_on_resume = true});
  visit.field(
      "packing", data.packing,
      {.brief = "packing of documents into samples",
       .details = "windows cut the stream of all documents. none makes one document a sample, padded to the longest of "
                  "the step. The others fill a row with whole documents and mask attention between them: sequential in "
                  "their order; multipack by first fit, longest first; best_fit, longest first. Plug-ins add names",
       .fixed_on_resume = true});
  visit.field("packing_group", data.packing_group,
              {.brief = "documents that multipack and best_fit pack together in one group",
               .unset = "100000",
               .unit = "documents",
               .min = 1,
               .max = most_count,
               .fixed_on_resume = true});
  visit.field("long_documents", data.long_documents,
              {.brief = "documents longer than a row: split, truncate or drop",
               .details = "It applies to all packings but windows",
               .unset = "split",
               .fixed_on_resume = true});
  visit.field("pad_to_multiple_of", data.pad_to_multiple_of,
              {.brief = "pad each packed document to a multiple of this many tokens",
               .unset = "1",
               .unit = "tokens",
               .min = 1,
               .max = most_count,
               .fixed_on_resume = true});
  visit.field("max_documents_per_row", data.max_documents_per_row,
              {.brief = "maximum documents in a sample, for planning with parallel.ring",
               .details = "The dataset is checked against it; memory is planned for this many documents",
               .unset = "data.sequence_length",
               .unit = "documents",
               .min = 1,
               .max = most_count});
  visit.field("seed", data.seed,
              {.brief = "seed of the sample order", .unset = "train.seed", .min = 0, .fixed_on_resume = true});
  visit.field("repeat_order", data.repeat_order,
              {.brief = "keep the sample order of the first epoch in all epochs", .fixed_on_resume = true});
  visit.field(
      "drop_last", data.drop_last,
      {.brief = "drop the last incomplete step of an epoch",
       .details = "Otherwise the first samples of the next epoch complete the step, unless data.short_last_step is set",
       .fixed_on_resume = true});
  visit.field("short_last_step", data.short_last_step,
              {.brief = "end each epoch with a step of the samples that are left",
               .details = "transformers does so. With drop_last, samples are dropped if they are fewer than a "
                          "micro-batch of every rank of the first start",
               .fixed_on_resume = true});
  visit.field("prefetch", data.prefetch,
              {.brief = "batches that the data loader makes ahead in a background thread",
               .details = "0 makes each batch when its step needs it",
               .unit = "batches",
               .min = 0,
               .max = 1024});
  visit.field("verify", data.verify,
              {.brief = "verify shard hashes: use, start or off",
               .details = "use verifies each shard in the background once a step reads from it, and before the next "
                          "checkpoint. start verifies all before the first step"});
  describe_preparation(visit, data);
}

void describe(Declaration& visit, ParallelOptions& parallel) {
  visit.field("pp", parallel.pp,
              {.brief = "pipeline-parallel degree (stages of the model)",
               .details = "auto takes the ranks that the other axes leave",
               .unset = "1",
               .unit = "ranks"});
  visit.field("dp_replicate", parallel.dp_replicate,
              {.brief = "data-parallel replicas (DDP, HSDP)",
               .details = "auto takes the ranks that dp_shard leaves",
               .unset = "auto",
               .unit = "ranks"});
  visit.field(
      "dp_shard", parallel.dp_shard,
      {.brief = "fully sharded data-parallel degree (FSDP, ZeRO)",
       .details = "Each parameter is cut along its first dimension. auto takes the ranks that dp_replicate leaves. "
                  "node takes the ranks of a node that faster axes leave, so that only dp_replicate crosses nodes",
       .unset = "1",
       .unit = "ranks"});
  visit.field("ring", parallel.ring,
              {.brief = "context-parallel degree of ring attention",
               .details = "Each rank holds two parts of every document; keys and values go around the ring. auto takes "
                          "the ranks that the other axes leave",
               .unset = "1",
               .unit = "ranks"});
  visit.field("ulysses", parallel.ulysses,
              {.brief = "context-parallel degree of Ulysses (all-to-all over heads)",
               .details = "Each rank holds some rows of all heads, and all rows of some heads within attention. auto "
                          "takes the ranks that the other axes leave",
               .unset = "1",
               .unit = "ranks"});
  visit.field("cp_fsdp_mode", parallel.cp_fsdp_mode,
              {.brief = "context-parallel axes that also shard weights, with dp_shard",
               .details = "Weights are replicated along the others",
               .unset = "all"});
  visit.field("tp", parallel.tp,
              {.brief = "tensor-parallel degree",
               .details = "Heads, the width of the MLP and the vocabulary are split; activations are summed inside "
                          "each block. auto takes the ranks that the other axes leave",
               .unset = "1",
               .unit = "ranks"});
  visit.field("sequence_parallel", parallel.sequence_parallel,
              {.brief = "sequence parallelism: split norms and residual stream over tp", .unset = "false"});
  visit.field(
      "ep", parallel.ep,
      {.brief = "expert-parallel degree",
       .details = "Rows go to the ranks of their experts and back. It divides the ranks of a stage independently of "
                  "the other axes. Ranks with the same experts shard them where dp_shard shards the rest",
       .unset = "1",
       .unit = "ranks",
       .min = 1,
       .max = most_count});
  visit.field("ep_outside", parallel.ep_outside,
              {.brief = "spread expert-parallel ranks far apart; equal experts are neighbours",
               .unset = "false: expert-parallel ranks are neighbours"});
  visit.field("ep_capacity", parallel.ep_capacity,
              {.brief = "expert capacity of a round, relative to an even spread of tokens",
               .details = "More rows go in further rounds; no token is dropped",
               .unset = "2",
               .min = 1,
               .max = 1e6});
  visit.field(
      "order", parallel.order,
      {.brief = "order of mesh axes, the fastest (neighbouring ranks) last",
       .details = "Axes that are not named come first. Ranks of the last axis are on one machine where they fit",
       .unset = "pp, dp_replicate, dp_shard, ring, ulysses, tp"});
  visit.field("zero", parallel.zero,
              {.brief = "ZeRO stage of dp_shard: 1, 2 or 3",
               .details = "1 shards the optimizer state and master weights. 2 also shards gradients after each "
                          "micro-batch. 3 also frees gathered weights after each block",
               .unset = "3",
               .min = 1,
               .max = 3});
  visit.field(
      "accumulate", parallel.accumulate,
      {.brief = "gradient accumulation over micro-batches: whole, shards or sums",
       .details =
           "whole keeps each rank's whole gradient and reduces it with the last micro-batch. shards reduce-scatters "
           "over dp_shard after each, and sums over dp_replicate with the last. sums reduces over all ranks after each",
       .unset = "shards for zero 2 and 3, otherwise whole"});
  visit.field("reshard_after_forward", parallel.reshard_after_forward,
              {.brief = "free gathered weights after forward: true, false, or a number of ranks",
               .details = "With a number, that many neighbouring ranks of dp_shard keep the weights sharded among "
                          "themselves for the rest of the step",
               .unset = "true for zero 3"});
  visit.field("reshard_after_backward", parallel.reshard_after_backward,
              {.brief = "free gathered weights after backward",
               .details = "Otherwise they stay for the next micro-batch",
               .unset = "true for zero 3"});
  visit.field("prefetch", parallel.prefetch,
              {.brief = "prefetch depth: blocks whose weights are gathered ahead",
               .unset = "1",
               .unit = "blocks",
               .min = 0,
               .max = most_count});
  visit.field(
      "units", parallel.units,
      {.brief = "patterns of tensors that form a sharding unit of their own",
       .details =
           "Such tensors of a block are gathered, reduced and updated together, apart from the rest of the block",
       .value_name = "REGEX"});
  visit.field(
      "bucket_size", parallel.bucket_size,
      {.brief = "bucket size: neighbouring blocks of a stage up to this size form a unit",
       .details =
           "A unit is gathered, reduced and updated at once. A size above the model's makes one unit for each stage",
       .unset = "each block is a unit"});
  visit.field(
      "schedule", parallel.schedule,
      {.brief = "pipeline schedule",
       .details = "gpipe runs all forwards first. 1f1b alternates forward and backward. interleaved_1f1b does so with "
                  "several stages (virtual stages) per rank. interleaved_zero_bubble delays weight gradients to fill "
                  "idle time. zbv does so with two stages per rank in a V. Plug-ins add names",
       .unset = "1f1b"});
  visit.field("stages_per_rank", parallel.stages_per_rank,
              {.brief = "virtual pipeline stages per rank",
               .unset = "2 for zbv and the interleaved schedules, 1 for the others",
               .unit = "stages",
               .min = 1,
               .max = most_count});
  visit.field("split_points", parallel.split_points,
              {.brief = "first blocks of the stages after the first: layer.8, head",
               .details = "Empty: stages of equal cost, embedding and head included",
               .value_name = "BLOCK"});
  visit.field("stage_splitter", parallel.stage_splitter,
              {.brief = "how blocks are split into stages without split_points",
               .details = "balanced makes stages of equal cost. Plug-ins add names",
               .unset = "balanced"});
  visit.field("micro_batches", parallel.micro_batches,
              {.brief = "micro-batches of one pass through the pipeline schedule",
               .unset = "the step's micro-batches divided by train.accumulation",
               .unit = "micro-batches",
               .min = 1,
               .max = most_count});
}

void describe(Declaration& visit, PostLocalSgdOptions& local) {
  visit.field("start_step", local.start_step,
              {.brief = "first step of local SGD, from 0",
               .details = "From then on, each cell of ranks updates its own weights. They are averaged over the cells "
                          "after the first such step and every period",
               .unset = "never",
               .unit = "steps",
               .min = 0,
               .max = most_count,
               .fixed_on_resume = true});
  visit.field("period", local.period,
              {.brief = "steps between averages of the weights in local SGD",
               .unset = "4",
               .unit = "steps",
               .min = 1,
               .max = most_count,
               .fixed_on_resume = true});
  visit.field("cell", local.cell,
              {.brief = "ranks of a local SGD cell that keep summing gradients together",
               .details = "A cell is a set of neighbours along dp_replicate, for instance those of a machine, each "
                          "with its dp_shard ranks. Ranks of tp, ring and ulysses count as one",
               .unset = "as many as dp_shard",
               .unit = "ranks",
               .min = 1,
               .max = most_count});
}

void describe(Declaration& visit, PrecisionOptions& precision) {
  visit.field("dtype", precision.dtype,
              {.brief = "compute type: fp32, fp64, bf16 or fp16 (mixed precision)",
               .details = "bf16 and fp16 keep fp32 master weights. fp16 uses a loss scale; its gradients overflow and "
                          "vanish easily, and it is slow on CPU",
               .fixed_on_resume = true});
  visit.field(
      "reduce_dtype", precision.reduce_dtype,
      {.brief = "type of gradient reduction over ranks",
       .details =
           "Each gradient is cast, summed in fp32 or wider, rounded once, and kept in the type of the master weights",
       .unset = "the master weights' type, fp32 or fp64",
       .fixed_on_resume = true});
  visit.field("output_dtype", precision.output_dtype,
              {.brief = "type of activations between blocks and pipeline stages",
               .details = "The activation and its gradient are cast when they leave a block, and cast back where the "
                          "next block begins",
               .unset = "the master weights' type, fp32 or fp64",
               .fixed_on_resume = true});
  visit.field("weights", precision.weights,
              {.brief = "type of master weights: master (fp32 or fp64) or bf16",
               .details = "bf16 keeps no other copy and needs precision.dtype bf16. Updates that are small beside a "
                          "weight are then lost unless optimizer.kahan keeps them",
               .fixed_on_resume = true});
  visit.field("matrix_unit", precision.matrix_unit,
              {.brief = "use the matrix unit (Intel AMX) for matrix products",
               .details = "fp32 products are computed as six products of three bf16 parts, with the accuracy of fp32. "
                          "false uses the library's routines"});
  LossScaleOptions& scale = precision.loss_scale;
  visit.field("init_scale", scale.init_scale,
              {.brief = "initial fp16 loss scale",
               .details = "The loss gradient is multiplied by it; gradients are divided by it before their norm is "
                          "taken and weights are updated",
               .min = 0,
               .above_min = true,
               .fixed_on_resume = true});
  visit.field("growth_factor", scale.growth_factor,
              {.brief = "growth factor of the loss scale",
               .details = "It applies after precision.growth_interval steps without overflow",
               .min = 1,
               .above_min = true,
               .fixed_on_resume = true});
  visit.field("backoff_factor", scale.backoff_factor,
              {.brief = "backoff factor of the loss scale on overflow",
               .details = "The step is skipped then, and counts neither for the schedule nor for moments",
               .min = 0,
               .max = 1,
               .above_min = true,
               .fixed_on_resume = true});
  visit.field("growth_interval", scale.growth_interval,
              {.brief = "consecutive steps without overflow before the loss scale grows",
               .unit = "steps",
               .min = 1,
               .max = most_count,
               .fixed_on_resume = true});
  visit.field("min_scale", scale.min_scale,
              {.brief = "minimum loss scale; below it the run ends with code 6", .min = 0});
}

/// What `rule`, an UpdateRule or what a group changes of one, has of each update rule.
template <class Rule>
void describe_rule(Declaration& visit, Rule& rule) {
  visit.field(
      "betas", rule.betas,
      {.brief = "betas of adamw (first and second moment) and of lion", .min = 0, .max = 1, .fixed_on_resume = true});
  visit.field("eps", rule.eps,
              {.brief = "epsilon of adamw, added to the root of the second moment",
               .min = 0,
               .above_min = true,
               .fixed_on_resume = true});
  visit.field("momentum", rule.momentum, {.brief = "momentum of sgd", .min = 0, .max = 1, .fixed_on_resume = true});
  visit.field("nesterov", rule.nesterov, {.brief = "Nesterov momentum for sgd", .fixed_on_resume = true});
  visit.field(
      "state_dtype", rule.state_dtype,
      {.brief = "type of optimizer state: weights (as the weights) or bf16",
       .details =
           "It applies to the moments of adamw and the averages of lion and muon. bf16 rounds to nearest at each step",
       .fixed_on_resume = true});
  visit.field("muon_momentum", rule.muon_momentum,
              {.brief = "momentum of muon; 0: none", .min = 0, .max = 1, .fixed_on_resume = true});
  visit.field("muon_nesterov", rule.muon_nesterov, {.brief = "Nesterov momentum for muon", .fixed_on_resume = true});
  visit.field("muon_steps", rule.muon_steps,
              {.brief = "Newton-Schulz iterations of muon", .min = 1, .max = 99, .fixed_on_resume = true});
  visit.field("muon_adjust", rule.muon_adjust,
              {.brief = "learning-rate factor of muon: original or match_rms_adamw",
               .details = "original is sqrt(max(1, out/in)) of a matrix. match_rms_adamw is 0.2 sqrt(max(out, in)), so "
                          "that lr and weight_decay may be those of adamw",
               .fixed_on_resume = true});
  visit.field(
      "adafactor_decay", rule.adafactor_decay,
      {.brief = "exponent N of adafactor's decay rate 1 - t^N at step t (from 1)", .max = 0, .fixed_on_resume = true});
  visit.field("adafactor_eps", rule.adafactor_eps,
              {.brief = "epsilons of adafactor: for squared gradients, and for weight scale",
               .details = "The first is added to squared gradients. The second is the least root mean square of "
                          "weights that adafactor_scale uses",
               .min = 0,
               .above_min = true,
               .fixed_on_resume = true});
  visit.field(
      "adafactor_clip", rule.adafactor_clip,
      {.brief = "clipping threshold of adafactor's update",
       .details = "A tensor's update is divided by its root mean square over this value, if that is more than 1",
       .min = 0,
       .above_min = true,
       .fixed_on_resume = true});
  visit.field("adafactor_scale", rule.adafactor_scale,
              {.brief = "scale adafactor's learning rate by the root mean square of weights", .fixed_on_resume = true});
  visit.field("adafactor_relative_step", rule.adafactor_relative_step,
              {.brief = "limit adafactor's learning rate to 1/sqrt(t) at step t", .fixed_on_resume = true});
  visit.field(
      "adafactor_momentum", rule.adafactor_momentum,
      {.brief = "momentum of adafactor; 0: none, and no memory for it", .min = 0, .max = 1, .fixed_on_resume = true});
}

void describe(Declaration& visit, OptimizerOptions& optimizer) {
  visit.field("name", optimizer.name,
              {.brief = "optimizer: adamw, sgd, lion, muon, adafactor, or a plug-in's",
               .details = "muon orthogonalises the momentum of hidden matrices and updates other tensors with adamw. "
                          "adafactor keeps second moments of rows and columns only",
               .fixed_on_resume = true});
  visit.field("lr", optimizer.lr,
              {.brief = "peak learning rate, reached at the end of warm-up",
               .unit = "1/step",
               .min = 0,
               .max = 1,
               .fixed_on_resume = true});
  describe_rule(visit, optimizer);
  visit.field(
      "kahan", optimizer.kahan,
      {.brief = "Kahan summation for bf16 weights (one more bf16 value a weight)",
       .details = "The rounding error of each weight is kept and added with the next step (compensated summation)",
       .fixed_on_resume = true});
  visit.field("muon_lr", optimizer.muon_lr,
              {.brief = "peak learning rate of muon's matrices, scaled as optimizer.lr",
               .unset = "optimizer.lr",
               .unit = "1/step",
               .min = 0,
               .max = 1,
               .fixed_on_resume = true});
  visit.field("weight_decay", optimizer.weight_decay,
              {.brief = "weight decay",
               .details = "It is decoupled and multiplied by the learning rate for adamw, lion, muon and adafactor, "
                          "and added to the gradient for sgd",
               .min = 0,
               .fixed_on_resume = true});
  visit.field("decay", optimizer.decay,
              {.brief = "tensors with weight decay: matrices or all",
               .details = "matrices are tensors of two dimensions or more: no norms, no biases",
               .fixed_on_resume = true});
  visit.field("decay_exclude", optimizer.decay_exclude,
              {.brief = "patterns of tensors without weight decay", .value_name = "REGEX", .fixed_on_resume = true});
  visit.field("frozen", optimizer.frozen,
              {.brief = "patterns of frozen tensors",
               .details = "They have no gradient, no optimizer state and no part in the gradient norm",
               .value_name = "REGEX",
               .fixed_on_resume = true});
  visit.field("unmatched", optimizer.unmatched,
              {.brief = "pattern that matches no tensor: refuse or warn",
               .details = "It applies to the patterns of groups, decay_exclude and frozen"});
  visit.field("clip_norm", optimizer.clip_norm,
              {.brief = "gradient clipping: maximum global norm",
               .unset = "no clipping",
               .min = 0,
               .above_min = true,
               .fixed_on_resume = true});
  visit.field("in_backward", optimizer.in_backward,
              {.brief = "update weights during backward (optimizer in backward)",
               .details = "Gradients of few blocks exist at once. It needs one micro-batch a step and no clip_norm"});
  visit.field("groups", optimizer.groups,
              {.brief = "parameter groups with their own learning rate, decay or optimizer",
               .details = "The first group that matches a tensor counts",
               .fixed_on_resume = true});
}

void describe(Declaration& visit, ScheduleOptions& schedule) {
  const auto steps = [&](const std::string& name, auto& value, OptionFacts facts) {
    facts.unit = "steps";
    facts.min = facts.min.value_or(1);
    facts.max = most_count;
    facts.fixed_on_resume = true;
    visit.field(name, value, facts);
  };
  const auto ratio = [&](const std::string& name, std::optional<double>& value, const std::string& steps_option,
                         bool above_min) {
    visit.field(name, value,
                {.brief = steps_option + " as a fraction of the run's steps, rounded up",
                 .unset = "given by " + steps_option,
                 .min = 0,
                 .max = 1,
                 .above_min = above_min,
                 .fixed_on_resume = true});
  };
  const auto rate = [&](const std::string& name, auto& value, const std::string& brief) {
    visit.field(name, value, {.brief = brief, .unit = "1/step", .min = 0, .max = 1, .fixed_on_resume = true});
  };
  visit.field(
      "name", schedule.name,
      {.brief = "learning-rate schedule after warm-up",
       .details =
           "linear falls as a line, cosine as a half cosine, polynomial as a power of the decay that is left. constant "
           "does not fall. inverse_sqrt falls as the inverse root of the step. wsd stays until its cooldown. infinite "
           "falls as a half cosine to schedule.constant_lr, and again in its cooldown. Plug-ins add names",
       .fixed_on_resume = true});
  rate("start_lr", schedule.start_lr, "learning rate at the start of warm-up");
  steps("warmup_steps", schedule.warmup_steps,
        {.brief = "warm-up: steps over which the learning rate rises linearly",
         .details = "The last of them has optimizer.lr, or the next step does (schedule.warmup_from)",
         .min = 0});
  ratio("warmup_ratio", schedule.warmup_ratio, "warmup_steps", false);
  visit.field("warmup_from", schedule.warmup_from,
              {.brief = "first step of warm-up: one or zero",
               .details = "one: the last step of warm-up has optimizer.lr. zero: the first step has schedule.start_lr, "
                          "as in transformers",
               .fixed_on_resume = true});
  steps("decay_steps", schedule.decay_steps,
        {.brief = "step at which the decay ends",
         .details = "The learning rate is schedule.min_lr there, and schedule.constant_lr with infinite",
         .unset = "the last step of the run"});
  ratio("decay_ratio", schedule.decay_ratio, "decay_steps", true);
  rate("min_lr", schedule.min_lr, "learning rate at the end of the decay (absolute, not a fraction)");
  steps(
      "cooldown_steps", schedule.cooldown_steps,
      {.brief = "cooldown: steps in which wsd or infinite falls to schedule.min_lr",
       .details =
           "They are the last steps before schedule.decay_steps with wsd, and the last steps of the run with infinite",
       .unset = "infinite stays at constant_lr"});
  ratio("cooldown_ratio", schedule.cooldown_ratio, "cooldown_steps", true);
  visit.field("cooldown_shape", schedule.cooldown_shape,
              {.brief = "shape of the wsd cooldown: linear, cosine or sqrt",
               .details = "sqrt is one minus the root of the part that is over",
               .unset = "linear",
               .fixed_on_resume = true});
  rate("constant_lr", schedule.constant_lr, "learning rate of the infinite schedule between decay and cooldown");
  visit.field(
      "cycles", schedule.cycles,
      {.brief = "cycles of cosine with restarts", .unset = "1", .min = 1, .max = most_count, .fixed_on_resume = true});
  visit.field("power", schedule.power,
              {.brief = "power of the polynomial schedule",
               .unset = "2",
               .min = 0,
               .max = 100,
               .above_min = true,
               .fixed_on_resume = true});
  steps("timescale", schedule.timescale,
        {.brief = "steps after which inverse_sqrt begins to fall",
         .details = "The learning rate is half its peak after four times as many steps",
         .unset = "the steps of warm-up, or 10000"});
}

void describe(Declaration& visit, TrainOptions& train) {
  visit.field("run_dir", train.run_dir,
              {.brief = "run folder: configuration, records, checkpoints",
               .details = "The same command started again resumes there",
               .value_name = "DIR",
               .required = true,
               .completes = Completes::folders});
  visit.field("max_steps", train.max_steps,
              {.brief = "optimizer steps of the run",
               .unset = "given by train.epochs",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("epochs", train.epochs,
              {.brief = "epochs of the run, such as 1.5",
               .details = "The run takes the steps that begin within them",
               .unset = "given by train.max_steps",
               .unit = "epochs",
               .min = 0,
               .max = most_count,
               .above_min = true});
  visit.field("global_batch", train.global_batch,
              {.brief = "global batch size: samples of an optimizer step over all ranks",
               .unset = "micro-batch × gradient accumulation × data-parallel ranks of the first start",
               .unit = "samples",
               .min = 1,
               .max = most_count,
               .fixed_on_resume = true});
  visit.field("micro_batch", train.micro_batch,
              {.brief = "micro-batch size: samples that a rank computes at once",
               .unset = "all samples of a rank in a step",
               .unit = "samples",
               .min = 1,
               .max = most_count});
  visit.field("accumulation", train.accumulation,
              {.brief = "gradient accumulation: passes through the schedule in a step",
               .details = "Each pass has parallel.micro_batches micro-batches; their gradients are summed",
               .unset = "the step's micro-batches divided by parallel.micro_batches, or 1",
               .unit = "passes",
               .min = 1,
               .max = most_count});
  visit.field("recompute", train.recompute,
              {.brief = "activation checkpointing (recompute): none, all blocks, or every K-th",
               .details = "every K-th block counts from the first"});
  visit.field("recompute_keeps", train.recompute_keeps,
              {.brief = "activations that recomputed blocks keep",
               .details = "attention keeps its output and softmax sums. projections keeps the products before and "
                          "after it. mlp keeps the input of the activation, and the outputs of experts. matmul is "
                          "projections and mlp without experts. experts keeps the outputs of their products"});
  visit.field("activation_memory_budget", train.activation_memory_budget,
              {.brief = "memory budget of a rank for activations: bytes, or 0% to 100%",
               .details = "It counts activations kept between forward and backward, handed between blocks, and used in "
                          "computing. A percentage is the part that is kept of the saving of full recomputation. The "
                          "blocks to recompute, and their kept activations, are chosen so that the least is recomputed",
               .unset = "train.recompute and train.recompute_keeps decide"});
  visit.field("offload", train.offload,
              {.brief = "offload to host memory: optimizer, shards, activations",
               .details = "optimizer is the optimizer state, fetched for the update of each unit. shards is also the "
                          "sharded weights and gradients. activations are kept between forward and backward"});
  visit.field("host_memory", train.host_memory,
              {.brief = "host memory limit of a rank for offloading",
               .details = "As many activations are offloaded as fit. If the optimizer state or shards do not fit, the "
                          "run is refused with code 5",
               .unset = "no limit"});
  visit.field("seed", train.seed,
              {.brief = "seed of initial weights and sample order; -1 draws one",
               .details = "A drawn seed is recorded and kept on resume",
               .min = -1,
               .fixed_on_resume = true});
  visit.field("loss", train.loss,
              {.brief = "training loss: cross_entropy, or a plug-in's",
               .details = "Evaluations always measure the cross entropy of the next token",
               .fixed_on_resume = true});
  visit.field(
      "label_smoothing", train.label_smoothing,
      {.brief = "label smoothing of the training loss",
       .details =
           "It is the share of the loss that is the mean over the vocabulary of -log p. Evaluations do not use it",
       .min = 0,
       .max = 0.99,
       .fixed_on_resume = true});
  visit.field("device", train.device, {.brief = "device: cpu (cuda is not supported yet)"});
  visit.field("max_time", train.max_time, {.brief = "save and stop with exit code 75 after this time"});
  visit.field("threads", train.threads,
              {.brief = "threads per rank",
               .unset = "cores divided by the ranks of this machine",
               .min = 1,
               .max = most_threads});
  visit.field("memory_check", train.memory_check,
              {.brief = "refuse to start, with code 5, if memory does not suffice",
               .details = "The ranks of a machine are compared with its memory and their control group. --dry-run "
                          "warns if they need more than there is"});
  visit.field("callbacks", train.callbacks,
              {.brief = "callbacks: sample (prints generated text), or a plug-in's",
               .details = "sample generates text from sample.prompts at evaluations and at the end"});
  visit.field(
      "inject", train.inject,
      {.brief = "inject a failure for tests: rank=R,phase=P,step=S,kind=K", .value_name = "SPEC", .hidden = true});
  visit.field("on_nonfinite", train.on_nonfinite,
              {.brief = "step with NaN or infinite loss or gradient: skip or stop",
               .details = "Such a step never changes weights or moments. skip continues with the next samples, and "
                          "ends with code 6 at the fourth such step in a row. stop ends with code 6 at the first"});
  visit.field("detect_anomaly", train.detect_anomaly,
              {.brief = "find the first NaN or infinity: weight, output or gradient (slow)",
               .details = "The message names its micro-batch and rank"});
  visit.field("watchdog", train.watchdog,
              {.brief = "watchdog: longest time of a rank in one phase",
               .details = "After it, the job ends with code 7 and a table of every rank's phase. 0 sets no limit"});
  visit.field("watchdog_phases", train.watchdog_phases,
              {.brief = "watchdog limits of single phases, such as save on slow storage"});
}

void describe(Declaration& visit, EvalOptions& eval) {
  visit.field("every", eval.every,
              {.brief = "evaluation interval: 500 steps + 1 epochs + 1h",
               .details = "Steps, epochs of the data, time since the last evaluation, or several of these"});
  visit.field("delay", eval.delay, {.brief = "no evaluation before this step or epoch"});
  visit.field("at_start", eval.at_start, {.brief = "evaluate before the first step of the run"});
  visit.field("on_save", eval.on_save,
              {.brief = "evaluate before each save, so that every checkpoint can be the best",
               .details = "The save of a run that is asked to stop has no evaluation"});
  visit.field("batches", eval.batches,
              {.brief = "evaluation size in global batches, spread over the split",
               .unset = "the whole split",
               .min = 1,
               .max = most_count});
  visit.field("at_end", eval.at_end, {.brief = "evaluate after the last step"});
  visit.field("patience", eval.patience,
              {.brief = "early stopping: evaluations without improvement before the end",
               .details = "The metric is checkpoint.best_metric. The run then ends as it would after its last step",
               .unset = "no early stopping",
               .min = 1,
               .max = most_count});
  visit.field("min_gain", eval.min_gain,
              {.brief = "least improvement of the metric that counts for eval.patience", .min = 0});
  visit.field("micro_batch", eval.micro_batch,
              {.brief = "micro-batch size of evaluations",
               .details = "It affects memory and speed only",
               .unset = "the micro-batch size of training",
               .unit = "samples",
               .min = 1,
               .max = most_count});
  visit.field("packing", eval.packing, {.brief = "packing of documents in evaluations", .unset = "data.packing"});
  visit.field("datasets", eval.datasets,
              {.brief = "named evaluation datasets",
               .details = "They are evaluated one after the other. Empty: the data.validation_split of data.path, or "
                          "of each of data.datasets that has one"});
}

void describe(Declaration& visit, DivergenceOptions& divergence) {
  visit.field("detector", divergence.detector,
              {.brief = "divergence detector: averages or windows",
               .details = "averages compares moving averages with rates 1/divergence.few and 1/divergence.many. "
                          "windows compares means of that many losses",
               .unset = "none"});
  visit.field("of", divergence.of, {.brief = "watched loss: eval_loss (each evaluation) or loss (each step)"});
  visit.field("threshold", divergence.threshold,
              {.brief = "excess of the recent mean over the long mean that ends the run",
               .details = "The run then ends with code 6",
               .min = 0,
               .above_min = true});
  const auto losses = [&](const std::string& name, std::int64_t& value, const std::string& brief) {
    visit.field(name, value, {.brief = brief, .unit = "losses", .min = 1, .max = 100000});
  };
  losses("few", divergence.few, "losses of the recent mean");
  losses("many", divergence.many, "losses of the long mean");
  visit.field("action", divergence.action, {.brief = "end of a diverged run: stop (saves a checkpoint) or abort"});
}

void describe(Declaration& visit, SampleOptions& sample) {
  visit.field("prompts", sample.prompts, {.brief = "prompts of the sample callback", .value_name = "TEXT"});
  visit.field("max_tokens", sample.max_tokens,
              {.brief = "maximum tokens of a generated text", .unit = "tokens", .min = 1, .max = most_count});
  visit.field("temperature", sample.temperature, {.brief = "sampling temperature; 0: greedy", .min = 0});
  visit.field("top_k", sample.top_k,
              {.brief = "top-k sampling", .unset = "all tokens", .unit = "tokens", .min = 1, .max = most_count});
  visit.field("seed", sample.seed, {.brief = "seed of sampling", .min = 0});
}

void describe(Declaration& visit, CheckpointOptions& checkpoint) {
  visit.field("every", checkpoint.every,
              {.brief = "checkpoint interval in steps, epochs or time, as eval.every",
               .unset = "only when stopped, and as at_end says"});
  visit.field("interval", checkpoint.interval,
              {.brief = "additional time between checkpoints, or auto",
               .details = "Rank 0 counts it from the last checkpoint. auto minimises the cost of saves and lost work "
                          "by Daly's estimate, from the longest save so far and checkpoint.mtbf"});
  visit.field("mtbf", checkpoint.mtbf,
              {.brief = "mean time between failures of the job, for checkpoint.interval auto"});
  visit.field("keep_last", checkpoint.keep_last,
              {.brief = "valid checkpoints to keep",
               .details = "Older ones are removed once a new one is complete, or to make room for it",
               .min = 1,
               .max = most_count});
  visit.field("keep_best", checkpoint.keep_best,
              {.brief = "best checkpoints to keep as well, by best_metric", .min = 0, .max = most_count});
  visit.field("best_metric", checkpoint.best_metric,
              {.brief = "evaluation metric that selects the best checkpoint",
               .details = "It is used here, in records, and with resume: best"});
  visit.field("best_dataset", checkpoint.best_dataset,
              {.brief = "evaluation dataset of best_metric", .unset = "the first", .value_name = "NAME"});
  visit.field(
      "best_direction", checkpoint.best_direction,
      {.brief = "better direction of best_metric", .details = "auto: higher accuracy, lower values of other metrics"});
  visit.field("keep_every", checkpoint.keep_every,
              {.brief = "keep checkpoints at multiples of this step as well",
               .unset = "none",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("pinned", checkpoint.pinned, {.brief = "steps whose checkpoints are kept as well", .min = 1});
  visit.field("at_end", checkpoint.at_end, {.brief = "save after the last step"});
  visit.field("load_best_at_end", checkpoint.load_best_at_end,
              {.brief = "load the best checkpoint at the end of the run",
               .details = "The last checkpoint keeps the weights of the last step. The last evaluation, the texts of "
                          "callbacks and the export use the best one"});
  visit.field("export_at_end", checkpoint.export_at_end,
              {.brief = "export a Hugging Face model at the end, in RUN/export/step-N",
               .details = "The last checkpoint is exported in bf16, or the best one with load_best_at_end"});
  visit.field(
      "resume", checkpoint.resume,
      {.brief = "start of the run: auto, never, afresh, best, or a checkpoint path",
       .details =
           "auto resumes from the newest valid checkpoint if there is one. A path names a checkpoint of another run, "
           "or weights alone; it counts until this run has a checkpoint of its own. never and afresh start from "
           "scratch: never requires that there is no checkpoint, afresh first puts existing ones aside. A run that was "
           "stopped with exit code 75, or requeued by Slurm, continues from its newest checkpoint in any case",
       .completes = Completes::folders});
  visit.field("allow_change", checkpoint.allow_change,
              {.brief = "options, or sections, that may change on resume",
               .details = "Options that affect training are otherwise refused if they change. Each change is recorded",
               .value_name = "OPTION"});
  visit.field("only", checkpoint.only,
              {.brief = "load only these components or tensors of another run's checkpoint",
               .details = "The rest starts afresh. Components are given by name, tensors by a regular expression that "
                          "matches in their full name (model/lm_head.weight)"});
  visit.field("skip", checkpoint.skip, {.brief = "do not load these parts of another run's checkpoint (as only)"});
  visit.field(
      "components", checkpoint.components,
      {.brief = "components of checkpoints: model, optimizer, trainer, data, callbacks",
       .details = "trainer holds steps, losses and loss scale; data holds the position in the data. A run cannot "
                  "resume without optimizer, trainer and data, but another run can start from it. Empty: all"});
  visit.field("storage", checkpoint.storage,
              {.brief = "storage of train.run_dir: shared, or per_node (node-local)",
               .details = "With per_node, this path on each node has the files that ranks of the node write"});
  visit.field("local_dir", checkpoint.local_dir,
              {.brief = "node-local folder (local tier) where saves go first",
               .details = "They are copied to train.run_dir in the background, and a start resumes from either",
               .unset = "saves go to train.run_dir",
               .value_name = "DIR",
               .completes = Completes::folders});
  visit.field("max_unpromoted", checkpoint.max_unpromoted,
              {.brief = "limit of node-local saves that are not yet in train.run_dir",
               .details = "A further save waits, and training with it",
               .unset = "8",
               .unit = "saves",
               .min = 1,
               .max = most_count});
  visit.field("ranks_per_file", checkpoint.ranks_per_file,
              {.brief = "neighbouring ranks that share one part file", .details = "node: the ranks of a node"});
  visit.field("background", checkpoint.background,
              {.brief = "save in the background: true, false or auto",
               .details = "Training stops only while the state is copied. auto: where memory has room for the copy. "
                          "The last save of a run is never in the background"});
  visit.field("on_busy", checkpoint.on_busy,
              {.brief = "save due while another is running: skip or wait", .unset = "wait"});
  visit.field("snapshot_memory", checkpoint.snapshot_memory,
              {.brief = "memory of a rank for the copy of a background save",
               .details = "It is at least the largest piece. If the state needs more, it is filled several times",
               .unset = "as much as the state needs"});
  visit.field("read_back", checkpoint.read_back,
              {.brief = "read back and compare each save before it counts",
               .details = "Older checkpoints are removed only after that"});
  visit.field("metadata", checkpoint.metadata,
              {.brief = "your own metadata for checkpoints, shown by checkpoint-inspect"});
  visit.field(
      "validation", checkpoint.validation,
      {.brief = "comparison of replicas at each save: none, quick, rolling, tensor, full",
       .details =
           "It compares weights and moments that ranks should hold alike. quick compares the ends of each tensor, "
           "rolling a share of each tensor in turn, tensor fingerprints of all, full also their hashes"});
  visit.field("validation_saves", checkpoint.validation_saves,
              {.brief = "saves that validation: rolling takes to compare everything",
               .details = "Each save compares an equal share of each tensor",
               .unset = "8",
               .unit = "saves",
               .min = 2,
               .max = 1000});
  visit.field("on_difference", checkpoint.on_difference,
              {.brief = "replicas that differ at a save: fail, warn or repair",
               .details = "fail ends the run with code 1. warn saves the values of the first rank. repair uses a "
                          "majority vote of three or more replicas, and fails if there is no majority. warn and repair "
                          "compare once more before the save"});
  visit.field("max_failures", checkpoint.max_failures,
              {.brief = "consecutive failed saves that end the run",
               .details = "After fewer, the previous checkpoint stays current and training continues",
               .unit = "saves",
               .min = 1,
               .max = most_count});
  visit.field("patience", checkpoint.patience,
              {.brief = "time to retry an unreadable or incomplete checkpoint at a start",
               .details = "A save also waits this long for files of other ranks to appear"});
}

void describe(Declaration& visit, LogOptions& log) {
  visit.field("every", log.every,
              {.brief = "interval of step records, as eval.every", .details = "The last step always has a record"});
  visit.field("first_step", log.first_step, {.brief = "write a record of the first step as well"});
  visit.field(
      "format", log.format,
      {.brief = "log format on standard error: progress or structured",
       .details =
           "progress is for people. structured is JSON, one object per line, with the numbers of each step record"});
  visit.field("tensorboard", log.tensorboard, {.brief = "write TensorBoard event files"});
  visit.field("tensorboard_dir", log.tensorboard_dir,
              {.brief = "folder of TensorBoard event files",
               .unset = "RUN/tensorboard",
               .value_name = "DIR",
               .completes = Completes::folders});
  visit.field("wandb", log.wandb,
              {.brief = "Weights & Biases: offline writes files for wandb sync", .details = "online is refused"});
  visit.field("wandb_project", log.wandb_project,
              {.brief = "Weights & Biases project", .unset = "chosen by wandb sync"});
  visit.field("wandb_name", log.wandb_name,
              {.brief = "Weights & Biases run name", .unset = "name of the run folder", .value_name = "NAME"});
  visit.field("wandb_tags", log.wandb_tags, {.brief = "Weights & Biases tags"});
  visit.field("wandb_every", log.wandb_every,
              {.brief = "steps between records for Weights & Biases",
               .unset = "all step records",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("wandb_dir", log.wandb_dir,
              {.brief = "folder for offline-run-… of each start",
               .unset = "RUN/wandb",
               .value_name = "DIR",
               .completes = Completes::folders});
  visit.field("statistics", log.statistics,
              {.brief = "per-tensor statistics in records: weights, gradients",
               .details = "Norm, mean, deviation, minimum, maximum and number of zeros"});
  visit.field("statistics_every", log.statistics_every,
              {.brief = "interval of statistics, as eval.every", .unset = "log.every"});
  visit.field("speed_from_step", log.speed_from_step,
              {.brief = "first step of a start that counts for speeds in the summary, from 1",
               .details = "Steps before it are warm-up",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("peak_tflops", log.peak_tflops,
              {.brief = "dense peak TFLOP/s of a rank's hardware, for MFU",
               .details = "It is the peak in the type of precision.dtype",
               .unset = "that of log.peak_device",
               .unit = "TFLOP/s",
               .min = 0,
               .above_min = true});
  visit.field("peak_device", log.peak_device,
              {.brief = "hardware of a rank with a known peak, for MFU",
               .details = "lockstep-performance(7) lists the names",
               .unset = "MFU is not reported",
               .value_name = "NAME"});
  visit.field("profile_start_step", log.profile_start_step,
              {.brief = "first profiled step",
               .details = "Records and a table show time by kind of work; profile.json shows each action, for Perfetto",
               .unset = "none",
               .unit = "steps",
               .min = 1,
               .max = most_count});
  visit.field("profile_end_step", log.profile_end_step,
              {.brief = "last profiled step", .unset = "the first", .unit = "steps", .min = 1, .max = most_count});
  visit.field("profile_dir", log.profile_dir,
              {.brief = "folder of profile.json",
               .unset = "the run folder",
               .value_name = "DIR",
               .completes = Completes::folders});
  visit.field("profile_ranks", log.profile_ranks,
              {.brief = "ranks whose actions profile.json shows",
               .details = "Empty: all. Records and table are of all ranks",
               .min = 0,
               .max = most_count});
  visit.field("profile_shapes", log.profile_shapes,
              {.brief = "add samples, tokens, bytes and shapes to actions in profile.json"});
  visit.field("profile_memory", log.profile_memory, {.brief = "add the memory of each rank over time to profile.json"});
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
  visit.field("match", group.match,
              {.brief = "patterns of tensor names in this group", .value_name = "REGEX", .required = true});
  visit.field(
      "optimizer", group.name,
      {.brief = "optimizer of these tensors", .details = "muon is for matrices only", .unset = "as without the group"});
  visit.field("lr", group.lr,
              {.brief = "peak learning rate, scaled as optimizer.lr",
               .unset = "as without the group",
               .unit = "1/step",
               .min = 0,
               .max = 1});
  visit.field("lr_scale", group.lr_scale, {.brief = "factor of the learning rate", .min = 0});
  visit.field("weight_decay", group.weight_decay,
              {.brief = "weight decay, instead of optimizer.weight_decay and its exclusions", .min = 0});
  describe_rule(visit, group);
}

void describe(Declaration& visit, PhaseLimit& limit) {
  visit.field(
      "phase", limit.phase,
      {.brief = "phase",
       .details = "step covers data, forward, backward, reduction, update and callbacks. save covers each part of it",
       .required = true});
  visit.field("limit", limit.limit, {.brief = "limit, instead of train.watchdog; 0: no limit", .required = true});
}

namespace {

void describe_choice(Declaration& visit, DatasetChoice& dataset, const std::string& usual_split) {
  visit.field("path", dataset.path,
              {.brief = "token shards, text as in data.path, or dummy",
               .details = "dummy makes tokens for tests of speed",
               .value_name = "PATH",
               .required = true,
               .completes = Completes::files});
  visit.field("name", dataset.name, {.brief = "name in plans and records", .unset = "last part of the path"});
  visit.field("split", dataset.split, {.brief = "split", .unset = usual_split, .value_name = "NAME"});
  visit.field("samples", dataset.samples,
              {.brief = "use only this many first samples; of dummy, their number",
               .unset = "all",
               .unit = "samples",
               .min = 1,
               .max = most_count});
  visit.field("shard", dataset.shard, {.brief = "use part I of N equal parts, counted from 1", .unset = "all"});
  visit.field("length", dataset.length,
              {.brief = "tokens in samples of dummy; padding follows",
               .unset = "data.sequence_length",
               .unit = "tokens",
               .min = 1,
               .max = most_count});
  visit.field("tokens", dataset.tokens,
              {.brief = "tokens of dummy: random or constant",
               .details = "random draws ids of the model's vocabulary by data.seed. constant is the id 0",
               .unset = "random"});
}

}  // namespace

void describe(Declaration& visit, TrainingDataset& dataset) {
  describe_choice(visit, dataset, "data.train_split");
  visit.field(
      "weight", dataset.weight,
      {.brief = "weight in the mixture",
       .details =
           "Its share of the samples is its weight divided by the sum of all. Set it for all datasets or for none",
       .min = 0,
       .above_min = true});
}

void describe(Declaration& visit, EvaluationDataset& dataset) {
  describe_choice(visit, dataset, "data.validation_split");
  visit.field("batches", dataset.batches,
              {.brief = "evaluation size in global batches, spread evenly",
               .unset = "eval.batches",
               .min = 1,
               .max = most_count});
}

void describe(Declaration& visit, TrainConfig& config) {
  describe_plugin_files(visit, config.plugin);
  section(visit, "model", config.model, "the network");
  section(visit, "data", config.data, "training data, samples and packing");
  section(visit, "parallel", config.parallel, "data, tensor, pipeline, context and expert parallelism");
  section(visit, "post_local_sgd", config.post_local_sgd, "post-local SGD");
  section(visit, "precision", config.precision, "element types, mixed precision");
  section(visit, "optimizer", config.optimizer, "optimizer, weight decay, gradient clipping");
  section(visit, "schedule", config.schedule, "learning-rate schedule");
  section(visit, "train", config.train, "length, batch size, memory and failures of the run");
  section(visit, "eval", config.eval, "evaluation, early stopping");
  section(visit, "divergence", config.divergence, "detection of a diverging loss");
  section(visit, "sample", config.sample, "generated text (callback sample)");
  section(visit, "checkpoint", config.checkpoint, "saving and resuming");
  section(visit, "log", config.log, "log, records, statistics, profile");
  describe_plugin_options(visit, config.plugin_values);
  visit.field("print_program", config.print_program,
              {.brief = "print the step programs of each class of ranks, and exit", .command_line_only = true});
  visit.field("print_layout", config.print_layout,
              {.brief = "print the part of each tensor on each rank, and exit", .command_line_only = true});
  visit.field("print_groups", config.print_groups,
              {.brief = "print the parameter groups of the optimizer, and exit", .command_line_only = true});
  visit.field("print_components", config.print_components,
              {.brief = "print the components of checkpoints and their ranks, and exit", .command_line_only = true});
  visit.field("plot_schedule", config.plot_schedule,
              {.brief = "draw the learning rate over the run (.svg, .json or text), and exit",
               .bare = "text",
               .command_line_only = true,
               .completes = Completes::files});
  visit.field("plot_program", config.plot_program,
              {.brief = "draw a step's time line by estimated costs, and exit",
               .details = "As a picture, as a trace for Perfetto, or in text on standard output",
               .bare = "text",
               .command_line_only = true,
               .completes = Completes::files});
  visit.field("program", config.program,
              {.brief = "step program to print or draw: train, eval, sample, local, average",
               .details = "local and average are of post-local SGD",
               .unset = "all are printed; the one that updates weights is drawn",
               .value_name = "NAME",
               .command_line_only = true});
  visit.field("rank", config.rank,
              {.brief = "print only the part of this rank", .min = 0, .max = most_count, .command_line_only = true});
  visit.field("world_size", config.world_size,
              {.brief = "plan for this many ranks instead of those started",
               .details = "Without the dataset, everything that does not depend on it is planned",
               .unit = "ranks",
               .min = 1,
               .max = most_planned_ranks,
               .command_line_only = true});
  visit.field("ranks_per_node", config.ranks_per_node,
              {.brief = "plan for machines with this many ranks each, numbered in order",
               .unit = "ranks",
               .min = 1,
               .max = most_planned_ranks,
               .command_line_only = true});
  visit.field("eval_only", config.eval_only,
              {.brief = "print the validation loss of a checkpoint as an eval record, and exit",
               .details = "checkpoint.resume names the checkpoint. Nothing is written",
               .command_line_only = true});
  visit.field("plan", config.plan,
              {.brief = "show the whole plan, not only what fits on a screen", .command_line_only = true});
  visit.field("profile", config.profile,
              {.brief = "profile this many steps (10) after the first two of this start",
               .details = "It sets log.profile_start_step and log.profile_end_step",
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
          .output = Tool::Output::records,
          .first_options = {"model.config", "model.path", "data.path", "data.tokenizer", "data.sequence_length",
                            "parallel.dp_shard", "parallel.tp", "parallel.pp", "precision.dtype", "optimizer.lr",
                            "train.run_dir", "train.max_steps", "train.global_batch", "train.micro_batch", "eval.every",
                            "checkpoint.every", "config", "dry-run", "print-config"}};
}

}  // namespace lockstep
