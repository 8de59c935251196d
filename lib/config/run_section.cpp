// The sections train, eval, divergence and sample of train.
#include "config/train_choices.hpp"
#include "config/train_sections.hpp"
#include "options/option.hpp"
#include "options/ranges.hpp"

namespace lockstep {

void describe(Declaration& visit, TrainOptions& train) {
  visit.field("run_dir", train.run_dir,
              {.brief = "run folder: configuration, records, checkpoints",
               .details = "The same command started again resumes there",
               .value_name = "DIR",
               .required = true,
               .needless_with = {"eval_only", "sample_", "sample_file", "calibrate", "check_device"},
               .completes = Completes::folders});
  visit.field("max_steps", train.max_steps,
              {.brief = "optimizer steps of the run",
               .unset = "given by train.epochs",
               .unit = "steps",
               .min = 1,
               .max = most_count,
               .on_resume = {.compared = OnResume::Compared::as_resolved,
                             .when = "in the cooldown of schedule.name infinite"}});
  visit.field("epochs", train.epochs,
              {.brief = "epochs of the run, such as 1.5",
               .details = "The run takes the steps that begin within them",
               .unset = "given by train.max_steps",
               .unit = "epochs",
               .min = 0,
               .max = most_count,
               .above_min = true,
               .on_resume = OnResume::resolved("train.max_steps")});
  visit.field("global_batch", train.global_batch,
              {.brief = "global batch size: samples of an optimizer step over all ranks",
               .unset = "micro-batch × gradient accumulation × data-parallel ranks of the first start",
               .unit = "samples",
               .min = 1,
               .max = most_count,
               .on_resume = OnResume::resolved()});
  visit.field("micro_batch", train.micro_batch,
              {.brief = "micro-batch size: samples that a rank computes at once",
               .unset = "all samples of a rank in a step",
               .unit = "samples",
               .min = 1,
               .max = most_count,
               .on_resume = OnResume::resolved("train.global_batch")});
  visit.field("accumulation", train.accumulation,
              {.brief = "gradient accumulation: passes through the schedule in a step",
               .details = "Each pass has parallel.micro_batches micro-batches; their gradients are summed",
               .unset = "the step's micro-batches divided by parallel.micro_batches, or 1",
               .unit = "passes",
               .min = 1,
               .max = most_count,
               .on_resume = OnResume::resolved("train.global_batch")});
  visit.field("recompute", train.recompute,
              {.brief = "activation checkpointing (recompute): none, all blocks, or every K-th",
               .details = "every K-th block counts from the first"});
  visit.field("recompute_keeps", train.recompute_keeps, {.brief = "activations that recomputed blocks keep"});
  visit.field("activation_memory_budget", train.activation_memory_budget,
              {.brief = "memory budget of a rank for activations: bytes, or 0% to 100%",
               .details = "It counts activations kept between forward and backward, handed between blocks, and used in "
                          "computing. A percentage is the part that is kept of the saving of full recomputation. The "
                          "blocks to recompute, and their kept activations, are chosen so that the least is recomputed",
               .unset = "train.recompute and train.recompute_keeps decide"});
  visit.field("offload", train.offload, {.brief = "offload to host memory: optimizer, shards, activations"});
  visit.field("host_memory", train.host_memory,
              {.brief = "host memory limit of a rank for offloading",
               .details = "As many activations are offloaded as fit. If the optimizer state or shards do not fit, the "
                          "run is refused with code 5",
               .unset = "no limit"});
  visit.field("seed", train.seed,
              {.brief = "seed of initial weights and sample order; -1 draws one",
               .details = "A drawn seed is recorded and kept on resume",
               .min = -1,
               .on_resume = OnResume::fixed()});
  visit.field("loss", train.loss,
              {.brief = "training loss: cross_entropy, or a plug-in's",
               .details = "Evaluations always measure the cross entropy of the next token",
               .on_resume = OnResume::fixed()});
  visit.field(
      "label_smoothing", train.label_smoothing,
      {.brief = "label smoothing of the training loss",
       .details =
           "It is the share of the loss that is the mean over the vocabulary of -log p. Evaluations do not use it",
       .min = 0,
       .max = 0.99,
       .on_resume = OnResume::fixed()});
  visit.field("device", train.device,
              {.brief = "device that holds the tensors and computes",
               .details = "Checkpoints do not depend on it: a run may resume on another one. See lockstep-devices(7)"});
  visit.field("max_time", train.max_time, {.brief = "save and stop with exit code 75 after this time"});
  visit.field("threads", train.threads,
              {.brief = "threads per rank",
               .unset = "cores divided by the ranks of this machine",
               .min = 1,
               .max = most_threads});
  visit.field("memory_check", train.memory_check,
              {.brief = "refuse to start, with code 5, if memory does not suffice",
               .details = "The ranks of a machine are compared with its memory and their control group, the ranks on "
                          "a GPU with its memory. --dry-run warns if they need more than there is"});
  visit.field("callbacks", train.callbacks,
              {.brief = "callbacks: sample (prints generated text), or a plug-in's", .details = "Plug-ins add names"});
  visit.field(
      "inject", train.inject,
      {.brief = "inject a failure for tests: rank=R,phase=P,step=S,kind=K", .value_name = "SPEC", .hidden = true});
  visit.field("on_nonfinite", train.on_nonfinite,
              {.brief = "step with NaN or infinite loss or gradient: skip or stop",
               .details = "Such a step changes no weights and moments, except with optimizer.in_backward, which has "
                          "updated some of them"});
  visit.field("detect_anomaly", train.detect_anomaly,
              {.brief = "find the first NaN or infinity: weight, output or gradient (slow)",
               .details = "The message names its micro-batch and rank"});
  visit.field("watchdog", train.watchdog,
              {.brief = "watchdog: longest time of a rank in one phase",
               .details = "After it, the job ends with code 7 and a table of every rank's phase. 0 sets no limit"});
  visit.field("watchdog_phases", train.watchdog_phases,
              {.brief = "watchdog limits of single phases, such as save on slow storage"});
}

void describe(Declaration& visit, PhaseLimit& limit) {
  visit.field(
      "phase", limit.phase,
      {.brief = "phase",
       .details = "step covers data, forward, backward, reduction, update and callbacks. save covers each part of it",
       .required = true});
  visit.field("limit", limit.limit, {.brief = "limit, instead of train.watchdog; 0: no limit", .required = true});
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
  visit.field("detector", divergence.detector, {.brief = "divergence detector: averages or windows", .unset = "none"});
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
              {.brief = "maximum tokens that are added to a prompt", .unit = "tokens", .min = 1, .max = most_count});
  visit.field("temperature", sample.temperature, {.brief = "sampling temperature; 0: greedy", .min = 0});
  visit.field("top_k", sample.top_k,
              {.brief = "top-k sampling: draw from this many likeliest tokens",
               .unset = "all tokens",
               .unit = "tokens",
               .min = 1,
               .max = most_count});
  visit.field("top_p", sample.top_p,
              {.brief = "top-p sampling: draw from the likeliest tokens of this probability",
               .details = "Also called nucleus sampling. Their probabilities add up to this or more. They are those "
                          "after sample.temperature and sample.top_k",
               .unset = "all tokens",
               .min = 0,
               .max = 1,
               .above_min = true});
  visit.field("seed", sample.seed, {.brief = "seed of sampling", .min = 0});
  visit.field("count", sample.count, {.brief = "texts for each prompt", .unit = "texts", .min = 1, .max = most_count});
  visit.field("batch", sample.batch,
              {.brief = "texts that are generated at once, at most",
               .details = "It affects memory and speed only. With rope_scaling dynamic or longrope it is 1",
               .unit = "texts",
               .min = 1,
               .max = 4096});
  visit.field("stop", sample.stop,
              {.brief = "texts that end a generated text; they are left out of it",
               .details = "In a shell, a newline is typed as $'\\n'",
               .value_name = "TEXT"});
  visit.field("add_bos", sample.add_bos,
              {.brief = "begin each prompt with the tokenizer's bos_token, once",
               .details = "The default follows the files of the tokenizer, as transformers does. Prompts with a chat "
                          "template have the tokens of the template",
               .unset = "as the tokenizer says"});
}

}  // namespace lockstep
