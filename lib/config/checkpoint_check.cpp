#include "config/checkpoint_check.hpp"

#include "config/fixed_options.hpp"
#include "config/train_config.hpp"
#include "options/problems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

void check_metadata(const CheckpointOptions& checkpoint, Problems& problems) {
  for (auto entry = checkpoint.metadata.begin(); entry != checkpoint.metadata.end(); ++entry)
    if (std::ranges::find(checkpoint.metadata.begin(), entry, entry->key, &MetadataEntry::key) != entry)
      problems.add({"checkpoint.metadata"}, fmt::format("checkpoint.metadata has {} twice", entry->key));
}

void check_part(const TrainConfig& config, Problems& problems) {
  for (const auto& [option, patterns] :
       {std::pair("checkpoint.only", &config.checkpoint.only), std::pair("checkpoint.skip", &config.checkpoint.skip)}) {
    if (patterns->empty()) continue;
    if (config.checkpoint.resume.from != Resume::From::path) {
      problems.add({option, "checkpoint.resume"},
                   fmt::format("{} has no effect: checkpoint.resume names no checkpoint of another run, and a run "
                               "loads its own checkpoints whole",
                               option));
    } else if (reads_weights_alone(config)) {
      problems.add({option}, fmt::format("{} has no effect: {} loads the whole checkpoint", option,
                                         config.eval_only ? "--eval-only" : "--sample"));
    }
  }
}

void check_components(const CheckpointOptions& checkpoint, Problems& problems) {
  const auto& saved = checkpoint.components;
  const auto has = [&](SavedComponent component) { return std::ranges::find(saved, component) != saved.end(); };
  if (saved.empty()) return;
  if (!has(SavedComponent::model))
    problems.add({"checkpoint.components"},
                 "checkpoint.components leaves out the model: a checkpoint without weights is useless");
  if (has(SavedComponent::optimizer) != has(SavedComponent::trainer))
    problems.add(
        {"checkpoint.components"},
        "checkpoint.components has only one of optimizer and trainer, which belong together: name both or neither");
}

void check_interval(const CheckpointOptions& checkpoint, Problems& problems) {
  if (checkpoint.interval && checkpoint.every.time.value > 0)
    problems.add(
        {"checkpoint.interval", "checkpoint.every"},
        fmt::format("checkpoint.interval {} and checkpoint.every {} are both times between saves: leave one out",
                    checkpoint.interval->text(), checkpoint.every.text()));
}

void check_storage(const CheckpointOptions& checkpoint, Problems& problems) {
  if (checkpoint.local_dir && checkpoint.storage == CheckpointStorage::per_node)
    problems.add({"checkpoint.local_dir", "checkpoint.storage"},
                 "checkpoint.local_dir copies checkpoints to storage that all ranks share, but with checkpoint.storage "
                 "per_node train.run_dir is not shared: leave one out");
  if (checkpoint.max_unpromoted && !checkpoint.local_dir)
    problems.add({"checkpoint.max_unpromoted", "checkpoint.local_dir"},
                 "checkpoint.max_unpromoted has no effect: without checkpoint.local_dir saves go to train.run_dir");
}

void check_background(const CheckpointOptions& checkpoint, Problems& problems) {
  if (checkpoint.background != Background::never) return;
  for (const auto& [option, is_set] : {std::pair("checkpoint.on_busy", checkpoint.on_busy.is_set()),
                                       std::pair("checkpoint.snapshot_memory", checkpoint.snapshot_memory.has_value())})
    if (is_set)
      problems.add(
          {option, "checkpoint.background"},
          fmt::format("{} has no effect: without checkpoint.background, training waits for each save", option));
}

void check_validation(const CheckpointOptions& checkpoint, Problems& problems) {
  const bool rolls = checkpoint.validation == Compared::rolling;
  if (rolls && (checkpoint.every.steps == 0 || checkpoint.every != Cadence{.steps = checkpoint.every.steps}))
    problems.add(
        {"checkpoint.validation", "checkpoint.every"},
        "checkpoint.validation rolling needs checkpoint.every in steps only: the step of a save selects the part "
        "that it compares");
  if (checkpoint.validation_saves.is_set() && !rolls)
    problems.add({"checkpoint.validation_saves", "checkpoint.validation"},
                 "checkpoint.validation_saves has no effect: it applies only to checkpoint.validation rolling");
  if (checkpoint.validation == Compared::none && checkpoint.on_difference != OnDifference::fail)
    problems.add({"checkpoint.on_difference", "checkpoint.validation"},
                 "checkpoint.on_difference has no effect: checkpoint.validation none compares nothing");
}

void check_evaluations(const TrainConfig& config, Problems& problems) {
  const EvalOptions& eval = config.eval;
  if (eval.delay && !eval.every)
    problems.add({"eval.delay", "eval.every"}, "eval.delay has no effect: eval.every is never");
  if (eval.patience && !eval.every && !eval.on_save)
    problems.add({"eval.patience", "eval.every"},
                 "eval.patience counts evaluations during training: set eval.every or eval.on_save");
  if (eval.min_gain != 0 && !eval.patience)
    problems.add({"eval.min_gain", "eval.patience"}, "eval.min_gain has no effect without eval.patience");
  if (eval.on_save && !saves(config.checkpoint))
    problems.add({"eval.on_save", "checkpoint.every"}, "eval.on_save has no effect: no checkpoint is saved");
}

void check_divergence(const TrainConfig& config, Problems& problems) {
  const DivergenceOptions& divergence = config.divergence;
  const DivergenceOptions plain;
  if (!divergence.detector) {
    for (const auto& [name, changed] : {std::pair("of", divergence.of != plain.of),
                                        {"threshold", divergence.threshold != plain.threshold},
                                        {"few", divergence.few != plain.few},
                                        {"many", divergence.many != plain.many},
                                        {"action", divergence.action != plain.action}})
      if (changed)
        problems.add({fmt::format("divergence.{}", name), "divergence.detector"},
                     fmt::format("divergence.{} has no effect without divergence.detector", name));
    return;
  }
  if (divergence.few >= divergence.many)
    problems.add({"divergence.few", "divergence.many"},
                 fmt::format("divergence.few {} must be below divergence.many {}: the mean of few losses is compared "
                             "with that of many",
                             divergence.few, divergence.many));
  if (divergence.of == DivergenceLoss::eval_loss && !config.eval.every && !config.eval.on_save)
    problems.add({"divergence.detector", "eval.every"},
                 "divergence.of eval_loss needs evaluations during training: set eval.every or eval.on_save, or use "
                 "--divergence.of loss to watch each step");
}

/// Whether each checkpoint that checkpoint.every and checkpoint.interval save is evaluated.
bool evaluates_each(const TrainConfig& config) {
  if (config.eval.on_save) return true;
  const Cadence &saved = config.checkpoint.every, &evaluated = config.eval.every;
  const bool at_steps = saved.steps == 0 || (evaluated.steps > 0 && saved.steps % evaluated.steps == 0);
  const bool at_epochs = saved.epochs == 0 || saved.epochs == evaluated.epochs;
  return at_steps && at_epochs && saved.time.value == 0 && !config.checkpoint.interval;
}

/// What comes after the last checkpoint.
void check_end(const TrainConfig& config, Problems& problems) {
  const CheckpointOptions& checkpoint = config.checkpoint;
  if (checkpoint.load_best_at_end) {
    if (!saves(checkpoint))
      problems.add({"checkpoint.load_best_at_end", "checkpoint.every"},
                   "checkpoint.load_best_at_end has no checkpoint to load: none is saved");
    if (saves(checkpoint) && !evaluates_each(config))
      problems.add({"checkpoint.load_best_at_end", "checkpoint.every", "eval.every"},
                   "checkpoint.load_best_at_end needs an evaluation of each checkpoint, but checkpoint.every saves at "
                   "steps without one: set eval.on_save");
    if (checkpoint.keep_best == 0)
      problems.add({"checkpoint.load_best_at_end", "checkpoint.keep_best"},
                   "checkpoint.load_best_at_end has no checkpoint to load: checkpoint.keep_best is 0, so the best one "
                   "is removed");
  }
  if (!checkpoint.export_at_end) return;
  if (!checkpoint.at_end && !checkpoint.load_best_at_end)
    problems.add(
        {"checkpoint.export_at_end", "checkpoint.at_end"},
        "checkpoint.export_at_end exports the last checkpoint, but with checkpoint.at_end false the last step may "
        "have none");
  if (checkpoint.storage == CheckpointStorage::per_node)
    problems.add(
        {"checkpoint.export_at_end", "checkpoint.storage"},
        "checkpoint.export_at_end reads a checkpoint that all ranks share, but with checkpoint.storage per_node "
        "each node has only its part: gather them with checkpoint-reshard and export with finalize-quantize");
}

}  // namespace

bool is_saved(const CheckpointOptions& checkpoint, const std::string& key) {
  const auto of = [&] {
    if (key == "model") return SavedComponent::model;
    if (key == "optimizer" || key == "local") return SavedComponent::optimizer;
    if (key == "data") return SavedComponent::data;
    return key.starts_with("callback_") ? SavedComponent::callbacks : SavedComponent::trainer;
  }();
  return checkpoint.components.empty() || std::ranges::find(checkpoint.components, of) != checkpoint.components.end();
}

void check_checkpoint(const TrainConfig& config, Problems& problems) {
  check_interval(config.checkpoint, problems);
  check_storage(config.checkpoint, problems);
  check_background(config.checkpoint, problems);
  check_validation(config.checkpoint, problems);
  check_metadata(config.checkpoint, problems);
  check_components(config.checkpoint, problems);
  check_part(config, problems);
  check_allowed_changes(config, problems);
  check_evaluations(config, problems);
  check_divergence(config, problems);
  check_end(config, problems);
}

}  // namespace lockstep
