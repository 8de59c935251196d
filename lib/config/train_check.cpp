#include "config/checkpoint_check.hpp"
#include "config/data_check.hpp"
#include "config/log_check.hpp"
#include "config/optimizer_check.hpp"
#include "config/option_rules.hpp"
#include "config/parallel_check.hpp"
#include "config/precision_check.hpp"
#include "config/schedule_check.hpp"
#include "config/start_up.hpp"
#include "config/train_choices.hpp"
#include "config/train_config.hpp"
#include "config/without_training.hpp"
#include "options/ranges.hpp"
#include "plugin/plugins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep {

namespace {

bool offloads(const TrainConfig& config, Offload what) {
  return std::ranges::find(config.train.offload, what) != config.train.offload.end();
}

bool recomputes(const TrainConfig& config) { return config.train.recompute != Recompute{}; }

bool has_no_optimizer_state(const TrainConfig& config) {
  return config.optimizer.name == OptimizerName::sgd && config.optimizer.momentum == 0 &&
         std::ranges::none_of(config.optimizer.groups, [](const auto& group) {
           return group.second.name.has_value() || group.second.momentum.value_or(0) != 0;
         });
}

/// What a run needs: a network, a length and a batch.
const std::vector<Rule>& needs() {
  static const std::vector<Rule> all{
      {{"model.config", "model.path"},
       [](const TrainConfig& config) { return !config.model.config && !config.model.path; },
       "model.config or model.path is needed: the network to train"},
      {{"model.config", "model.path"},
       [](const TrainConfig& config) { return config.model.config && config.model.path; },
       "model.config and model.path both name a network: leave one out (a folder of weights has its own config.json)"},
      {{"train.max_steps", "train.epochs"},
       [](const TrainConfig& config) {
         return !config.train.max_steps && !config.train.epochs && !config.calibrate && !config.check_device;
       },
       "train.max_steps or train.epochs is needed: how long to train"},
      {{"train.global_batch"},
       [](const TrainConfig& config) {
         return !reads_weights_alone(config) && !config.check_device && !config.train.global_batch &&
                !(config.train.micro_batch && config.train.accumulation);
       },
       "train.global_batch is needed: samples of one step over all ranks; or train.micro_batch and "
       "train.accumulation, which make it with the ranks that share the data"},
  };
  return all;
}

const std::vector<Rule>& rules_of_memory() {
  static const std::vector<Rule> all{
      {{"train.activation_memory_budget", "train.recompute"},
       [](const TrainConfig& config) { return config.train.activation_memory_budget && recomputes(config); },
       "train.activation_memory_budget and train.recompute both choose what is recomputed: leave one out"},
      {{"train.activation_memory_budget", "train.recompute_keeps"},
       [](const TrainConfig& config) {
         return config.train.activation_memory_budget && !recomputes(config) && !config.train.recompute_keeps.empty();
       },
       "train.activation_memory_budget and train.recompute_keeps both choose what is recomputed: leave one out"},
      {{"train.activation_memory_budget", "train.offload"},
       [](const TrainConfig& config) {
         return config.train.activation_memory_budget && offloads(config, Offload::activations);
       },
       "train.activation_memory_budget plans activations in device memory, but train.offload activations moves them to "
       "the host: leave one out"},
      {{"train.recompute_keeps", "train.recompute"},
       [](const TrainConfig& config) { return !recomputes(config) && !config.train.recompute_keeps.empty(); },
       "train.recompute_keeps has no effect: train.recompute is none, so blocks keep all activations"},
      {{"train.offload", "optimizer.name"},
       [](const TrainConfig& config) { return offloads(config, Offload::optimizer) && has_no_optimizer_state(config); },
       "train.offload optimizer has no effect: without momentum optimizer.name sgd keeps no state"},
      {{"train.host_memory", "train.offload"},
       [](const TrainConfig& config) { return config.train.host_memory && config.train.offload.empty(); },
       "train.host_memory has no effect: train.offload is empty"},
  };
  return all;
}

const std::vector<Rule>& rules_of_runs() {
  static const std::vector<Rule> all{
      {{"train.max_time"},
       [](const TrainConfig& config) { return config.train.max_time && config.train.max_time->value <= 0; },
       "train.max_time 0 leaves no time for a step"},
      {{"train.callbacks", "sample.prompts"},
       [](const TrainConfig& config) { return calls(config, CallbackName::sample) && config.sample.prompts.empty(); },
       "the sample callback has nothing to continue: sample.prompts is empty"},
      {{"sample.prompts", "train.callbacks"},
       [](const TrainConfig& config) {
         return !calls(config, CallbackName::sample) && !config.sample.prompts.empty() && !samples_alone(config);
       },
       "sample.prompts has no effect without train.callbacks sample; --sample continues a text and exits"},
      {{"sample.stop"},
       [](const TrainConfig& config) { return std::ranges::find(config.sample.stop, "") != config.sample.stop.end(); },
       "sample.stop has an empty text, which would end each text at once"},
      {{"train.callbacks", "eval.every", "eval.at_end"},
       [](const TrainConfig& config) {
         return calls(config, CallbackName::sample) && !config.eval.every && !config.eval.at_end;
       },
       "the sample callback runs at evaluations and at the end, and there are none"},
  };
  return all;
}

/// Of a command that reads weights and trains nothing.
bool names_no_weights(const TrainConfig& config) {
  return config.train.run_dir.empty() && config.checkpoint.resume.from != Resume::From::path && !config.model.path;
}

const std::vector<Rule>& rules_of_switches() {
  static const std::vector<Rule> all{
      {{"eval_only", "profile"},
       [](const TrainConfig& config) { return config.eval_only && config.profile; },
       "--eval-only runs no training step, so --profile has nothing to measure"},
      {{"eval_only", "plan"},
       [](const TrainConfig& config) { return config.eval_only && config.plan; },
       "--plan shows the steps of a run, but --eval-only runs none"},
      {{"eval_only", "dry_run"},
       [](const TrainConfig& config) { return config.eval_only && (config.dry_run || prints_plan(config)); },
       "--eval-only evaluates a checkpoint, but a plan is of a training run: leave one out"},
      {{"calibrate", "dry_run"},
       [](const TrainConfig& config) { return config.calibrate && (config.dry_run || prints_plan(config)); },
       "--calibrate measures steps on the started ranks, but a plan runs none: leave one out"},
      {{"calibrate", "eval_only"},
       [](const TrainConfig& config) { return config.calibrate && config.eval_only; },
       "--calibrate measures training steps, but --eval-only runs none: leave one out"},
      {{"calibrate", "profile"},
       [](const TrainConfig& config) { return config.calibrate && config.profile; },
       "--calibrate writes nothing, but --profile writes into the run folder: leave one out"},
      {{"calibrate", "plan"},
       [](const TrainConfig& config) { return config.calibrate && config.plan; },
       "--plan has no effect: --calibrate prints measured times and costs, --dry-run prints the plan"},
      {{"check_device", "dry_run"},
       [](const TrainConfig& config) { return config.check_device && (config.dry_run || prints_plan(config)); },
       "--check-device runs kernels on the started ranks, but a plan runs none: leave one out"},
      {{"check_device", "eval_only"},
       [](const TrainConfig& config) { return config.check_device && config.eval_only; },
       "--check-device checks the kernels of training, but --eval-only trains nothing: leave one out"},
      {{"check_device", "calibrate"},
       [](const TrainConfig& config) { return config.check_device && config.calibrate; },
       "--check-device runs single kernels, --calibrate whole steps: leave one out"},
      {{"check_device", "profile"},
       [](const TrainConfig& config) { return config.check_device && config.profile; },
       "--check-device runs no step, so --profile has nothing to measure"},
      {{"check_device", "plan"},
       [](const TrainConfig& config) { return config.check_device && config.plan; },
       "--plan has no effect: --check-device prints a table of kernels, --dry-run prints the plan"},
      {{"sample_", "eval_only"},
       [](const TrainConfig& config) { return samples_alone(config) && config.eval_only; },
       "--sample continues texts, --eval-only evaluates: leave one out"},
      {{"sample_", "calibrate"},
       [](const TrainConfig& config) { return samples_alone(config) && config.calibrate; },
       "--sample continues texts, --calibrate measures training steps: leave one out"},
      {{"sample_", "check_device"},
       [](const TrainConfig& config) { return samples_alone(config) && config.check_device; },
       "--sample continues texts, --check-device checks the kernels of training: leave one out"},
      {{"sample_", "profile"},
       [](const TrainConfig& config) { return samples_alone(config) && config.profile; },
       "--sample runs no training step, so --profile has nothing to measure"},
      {{"sample_", "plan"},
       [](const TrainConfig& config) { return samples_alone(config) && config.plan; },
       "--plan shows the steps of a run, but --sample runs none"},
      {{"sample_", "dry_run"},
       [](const TrainConfig& config) { return samples_alone(config) && (config.dry_run || prints_plan(config)); },
       "--sample continues texts, but a plan is of a training run: leave one out"},
      {{"sample_", "sample_file"},
       [](const TrainConfig& config) {
         return std::ranges::count(config.sample_texts, "-") + std::ranges::count(config.sample_files, "-") > 1;
       },
       "standard input is named twice, but can be read only once"},
      {{"chat", "sample_"},
       [](const TrainConfig& config) { return config.chat && !samples_alone(config); },
       "--chat has no effect without --sample or --sample-file"},
      {{"train.run_dir", "checkpoint.resume"},
       [](const TrainConfig& config) {
         const Resume::From from = config.checkpoint.resume.from;
         return reads_weights_alone(config) && config.train.run_dir.empty() &&
                (from == Resume::From::latest || from == Resume::From::best || from == Resume::From::step);
       },
       "checkpoint.resume selects a checkpoint of a run, but train.run_dir does not name the run"},
      {{"eval_only", "train.run_dir", "model.path"},
       [](const TrainConfig& config) { return config.eval_only && names_no_weights(config); },
       "--eval-only needs weights: set train.run_dir or checkpoint.resume to a run or checkpoint, or model.path to a "
       "model"},
      {{"sample_", "train.run_dir", "model.path"},
       [](const TrainConfig& config) { return samples_alone(config) && names_no_weights(config); },
       "--sample needs weights: set train.run_dir or checkpoint.resume to a run or checkpoint, or model.path to a "
       "model"},
      {{"program"},
       [](const TrainConfig& config) { return config.program && !config.print_program && !config.plot_program; },
       "--program chooses the step program to show: add --print-program or --plot-program"},
      {{"rank"},
       [](const TrainConfig& config) {
         return config.rank && !config.print_program && !config.print_layout && !config.plot_program;
       },
       "--rank chooses the rank to show: add --print-program, --print-layout or --plot-program"},
  };
  return all;
}

void check_length(const TrainOptions& train, Problems& problems) {
  if (train.max_steps && train.epochs)
    problems.add({"train.max_steps", "train.epochs"},
                 fmt::format("train.max_steps {} and train.epochs {} both set the length of the run: leave one out",
                             *train.max_steps, *train.epochs));
}

void check_batch(const TrainConfig& config, Problems& problems) {
  const TrainOptions& train = config.train;
  if (!reads_weights_alone(config) && train.micro_batch && train.global_batch &&
      *train.micro_batch > *train.global_batch)
    problems.add({"train.micro_batch", "train.global_batch"},
                 fmt::format("train.micro_batch {} is more than train.global_batch {}", *train.micro_batch,
                             *train.global_batch));
  if (train.global_batch || !train.micro_batch || !train.accumulation) return;
  const double samples = static_cast<double>(*train.micro_batch) * static_cast<double>(*train.accumulation) *
                         static_cast<double>(config.parallel.micro_batches.value_or(1));
  if (samples > most_count)
    problems.add({"train.micro_batch", "train.accumulation"},
                 fmt::format("train.micro_batch {} and train.accumulation {} make too many samples a step on each rank",
                             *train.micro_batch, *train.accumulation));
}

/// A plug-in that chooses what a block keeps leaves nothing to choose.
void check_recompute(const TrainOptions& train, Problems& problems) {
  if (!train.activation_memory_budget && !train.recompute.plugin.empty() && !train.recompute_keeps.empty())
    problems.add(
        {"train.recompute_keeps", "train.recompute"},
        fmt::format("train.recompute {} already chooses what each block keeps: leave train.recompute_keeps out",
                    train.recompute.plugin));
}

void check_loss(const TrainConfig& config, Problems& problems) {
  const auto index = plugin_index(config.train.loss);
  if (!index) return;
  const PluginEntry<lockstep_loss>& loss = Plugins::opened().losses().at(*index);
  if (config.train.label_smoothing != 0)
    problems.add(
        {"train.label_smoothing", "train.loss"},
        fmt::format("train.label_smoothing has no effect: train.loss {} is not the cross entropy", loss.table->name));
  if (config.parallel.tp.value_or(AxisSize{1}).ranks != 1)
    problems.add({"train.loss", "parallel.tp"},
                 fmt::format("train.loss {} needs whole rows of logits, but with parallel.tp each rank has only a part "
                             "of the vocabulary",
                             loss.table->name));
  if (config.precision.dtype == Precision::fp64 && loss.table->rows_f64 == nullptr)
    problems.add({"train.loss", "precision.dtype"},
                 fmt::format("train.loss {} of {} has no function for precision.dtype fp64", loss.table->name,
                             loss.plugin->file()));
}

void check_transport(const TrainConfig& config, Problems& problems) {
  if (config.parallel.transport == RankTransport::nccl && config.train.device == DeviceChoice::cpu)
    problems.add({"parallel.transport", "train.device"},
                 "parallel.transport nccl is for GPUs, but train.device is cpu");
}

}  // namespace

void check(const TrainConfig& given, Problems& problems) {
  const TrainConfig config = without_training(given);
  check_rules(needs(), config, problems);
  check_length(config.train, problems);
  check_transport(config, problems);
  check_batch(config, problems);
  check_schedule(config, problems);
  check_optimizer(config, problems);
  check_precision(config, problems);
  check_recompute(config.train, problems);
  check_rules(rules_of_memory(), config, problems);
  check_loss(config, problems);
  check_data(config, problems);
  check_rules(rules_of_runs(), config, problems);
  check_parallel(config, problems);
  check_checkpoint(config, problems);
  check_log(config, problems);
  check_rules(rules_of_switches(), config, problems);
}

}  // namespace lockstep
