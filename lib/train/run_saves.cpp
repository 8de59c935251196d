#include "train/run_saves.hpp"

#include "base/clock.hpp"
#include "base/run_clock.hpp"
#include "base/text.hpp"
#include "checkpoint/replicas.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "device/device.hpp"
#include "tensor/arena.hpp"
#include "tensor/unit.hpp"
#include "train/components.hpp"
#include "train/evaluated_metrics.hpp"
#include "train/nonfinite.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

namespace lockstep {

namespace {

/// Of an injection: the lowest bit of a weight that this rank holds.
void flip_bit(const Model& model) {
  for (const Parameter* parameter : model.parameters()) {
    const Region weights = region_of(parameter->master());
    if (weights.bytes == 0) continue;
    const Region flipped = part_of(weights, weights.bytes / 2 / sizeof(double) * sizeof(double), 1);
    std::byte value{};
    read_region(flipped, {&value, 1});
    value ^= std::byte{1};
    return write_region({&value, 1}, flipped);
  }
}

Retention retention_of(const TrainConfig& config, const TrainPlan& plan) {
  const CheckpointOptions& options = config.checkpoint;
  return {.keep_last = options.keep_last,
          .keep_best = options.keep_best,
          .best_by = best_by(options, plan.deciding_metrics(config)),
          .keep_every = options.keep_every,
          .pinned = options.pinned};
}

}  // namespace

RunSaves::RunSaves(const LoopParts& parts, RunJournal& journal, StopChannels& stop, const RunEvaluations& evaluations,
                   std::function<void(const std::string&)> tell)
    : parts_(parts),
      journal_(journal),
      stop_(stop),
      evaluations_(evaluations),
      tell_(std::move(tell)),
      saver_(parts.session.world()),
      clock_(parts.config.checkpoint, run_seconds()),
      saved_step_(parts.train_state.step),
      failed_(parts.config, parts.plan.length) {
  if (parts.files.local() == nullptr) return;
  promotions_.emplace(
      Promotions::Parts{parts_.config, parts_.session, parts_.files, journal_, retention_of(parts_.config, parts_.plan),
                        [this](const PromotionReport& report) {
                          stop_.save_took(longest_wait_s_ + last_save_s_ + report.seconds);  // an end waits for it
                          if (report.step == saved_step_) last_checkpoint_ = report.path.string();
                          journal_.promoted(report);
                        }});
}

void RunSaves::make_ready() {
  if (in_background()) saver_.make_ready(chosen_components(), request(), snapshot_memory());
}

void RunSaves::save(AfterSave after) {
  const TrainState& now = parts_.train_state;
  const CheckpointOptions& options = parts_.config.checkpoint;
  const bool may_go_on = in_background() && after == AfterSave::more_steps;
  if (saver_.under_way()) {
    if (may_go_on && begun_step_ == now.step) return;
    if (may_go_on && options.on_busy.value() == OnBusy::skip) {
      journal_.warn(
          {.step = now.step,
           .name = "save_skipped",
           .message = fmt::format("no save of step {}: the save of step {} is in progress", now.step, begun_step_)},
          0);
      return;
    }
    finish(AfterSave::more_steps);
  }
  bool around_local = std::exchange(is_lost_, false);
  if (saved_step_ == now.step) return;
  const bool begins = may_go_on && !around_local;
  parts_.verifier.settle(parts_.session);
  if (promotions_ && after == AfterSave::more_steps) keep_up();
  const double start_s = monotonic_seconds();
  const double run_start_s = run_seconds();
  require_finite_weights(parts_.model, now.step, parts_.session.world());
  std::optional<SaveReport> report;
  try {
    const std::vector<Component> components = settled_components();
    try {
      if (begins) {
        begun_step_ = now.step;
        saver_.begin(components, request(), snapshot_memory());
      } else if (!around_local) {
        report = saver_.save(components, request());
      }
    } catch (const AgreedError& error) {  // the same on all ranks, so all go on or none
      if (error.code() != ExitCode::storage || !promotions_) throw;
      tell_local_failure(error, now.step);
      around_local = true;
    }
    if (around_local) report = save_to_run(components);
  } catch (const AgreedError& error) {
    if (error.code() != ExitCode::storage) throw;
    tell_failure(reason_of(error), now.step, after);
  }
  parts_.cells.drop();
  const double seconds = run_seconds() - run_start_s;
  stop_.save_took(seconds);
  clock_.save_ended(seconds, run_seconds());
  journal_.exclude(monotonic_seconds() - start_s);
  if (report) saved(*report, seconds, 0);
}

void RunSaves::keep_up() {
  const double start_s = monotonic_seconds();
  promotions_->keep_up(parts_.train_state.step);
  const double seconds = monotonic_seconds() - start_s;
  longest_wait_s_ = std::max(longest_wait_s_, seconds);
  journal_.exclude(seconds);
}

SaveReport RunSaves::save_to_run(const std::vector<Component>& components) {
  promotions_->settle(parts_.train_state.step);
  if (!saver_to_run_) saver_to_run_.emplace(parts_.session.world());
  return saver_to_run_->save(components, request_for(parts_.files.run()));
}

void RunSaves::tell_local_failure(const AgreedError& error, std::int64_t step) {
  journal_.warn({.step = step,
                 .name = "local_save_failed",
                 .message = fmt::format("{}\n  a checkpoint is written directly to {}", error.what(),
                                        parts_.files.folder().string())},
                error.owner());
}

bool RunSaves::end(Promotions::AtEnd promotions) {
  finish(promotions_ ? AfterSave::more_steps : AfterSave::end_of_run);
  if (is_lost_) save(AfterSave::nothing);
  return !promotions_ || promotions_->finish(parts_.train_state.step, promotions);
}

std::vector<Component> RunSaves::chosen_components() const {
  std::vector<Component> components = parts_.components;
  std::erase_if(components,
                [&](const Component& component) { return !is_saved(parts_.config.checkpoint, component.key); });
  return components;
}

std::vector<Component> RunSaves::components_now() {
  std::vector<Component> components = chosen_components();
  const std::int64_t step = parts_.train_state.step;
  if (parts_.cells.state_apart(step)) {
    parts_.cells.take_averages(parts_.engine, parts_.session, step);
    if (is_saved(parts_.config.checkpoint, parts_.cells.component().key))
      components.push_back(compared_as(parts_.config.checkpoint, parts_.cells.component()));
  }
  return components;
}

std::vector<Component> RunSaves::settled_components() {
  std::vector<Component> components = components_now();
  Communicator& world = parts_.session.world();
  const std::int64_t step = parts_.train_state.step;
  const auto begin = [this] { enter(Phase::save_plan, nullptr); };
  switch (parts_.config.checkpoint.on_difference) {
    case OnDifference::fail: break;
    case OnDifference::warn:
      if (const auto told = compare_replicas(world, parts_.world, components, share_of_now(), begin)) {
        journal_.warn({.step = step,
                       .name = "replicas_differ",
                       .message = *told + "; the lowest of the ranks that should be equal saves its state"});
        for (Component& component : components) component.validation = Validation::none;
      }
      break;
    case OnDifference::repair:
      if (const auto told = repair_replicas(world, parts_.world, components, share_of_now(), begin)) {
        for (Unit* unit : parts_.model.units()) unit->update_compute_copy();
        parts_.cells.drop();
        components = components_now();  // averages of what was wrong are wrong
        journal_.warn({.step = step, .name = "replicas_repaired", .message = *told});
      }
      break;
  }
  return components;
}

void RunSaves::carry_on(AfterSave after) {
  advance(false, promotions_ ? AfterSave::more_steps : after);
  if (promotions_) promotions_->carry_on(parts_.train_state.step);
}

void RunSaves::finish(AfterSave after) { advance(true, after); }

void RunSaves::save_of_failed_run() {
  if (!saves(parts_.config.checkpoint) || saved_step_ == parts_.train_state.step) return;
  try {
    save(AfterSave::nothing);
    end(Promotions::AtEnd::newest);
  } catch (const AgreedError& error) {
    journal_.warn({.step = parts_.train_state.step, .name = "save_failed", .message = error.what()}, error.owner());
  }
}

void RunSaves::finish_of_failed_run() {
  try {
    finish(AfterSave::end_of_run);
  } catch (const AgreedError& error) {
    journal_.warn({.step = begun_step_, .name = "save_failed", .message = error.what()}, error.owner());
  }
}

void RunSaves::advance(bool to_the_end, AfterSave after) {
  if (!saver_.under_way()) return;
  const double start_s = monotonic_seconds();
  std::optional<SaveReport> report;
  try {
    report = saver_.advance(to_the_end);
  } catch (const AgreedError& error) {
    if (error.code() != ExitCode::storage) throw;
    is_lost_ = promotions_.has_value() && after == AfterSave::more_steps;
    if (is_lost_)
      tell_local_failure(error, begun_step_);
    else
      tell_failure(reason_of(error), begun_step_, after);
  }
  journal_.exclude(monotonic_seconds() - start_s);
  if (!report) return;
  stop_.save_took(report->seconds);
  saved(*report, saver_.stall_seconds(), saver_.waves());
}

void RunSaves::saved(const SaveReport& report, double stall_s, int waves) {
  failed_.forget();
  saved_step_ = report.step;
  last_checkpoint_ = report.path.string();
  last_save_s_ = report.seconds;
  journal_.saved(report, stall_s, waves);
  tell_(*last_checkpoint_);
  if (!promotions_) return;
  if (step_within(report.path, parts_.files.folder()))
    promotions_->add_to_run(report.step, report.pruned);
  else
    promotions_->add(report.step);
}

std::uint64_t RunSaves::snapshot_memory() const {
  const auto& memory = parts_.config.checkpoint.snapshot_memory;
  return memory ? memory->bytes : 0;
}

// What the local tier keeps is for promotions to say.
SaveRequest RunSaves::request() const {
  if (!promotions_) return request_for(parts_.files.run());
  SaveRequest request = request_for(*parts_.files.local());
  request.retention = {.keep_last = std::numeric_limits<std::int64_t>::max()};
  return request;
}

SaveRequest RunSaves::request_for(RunFolder& folder) const {
  const TrainState& now = parts_.train_state;
  SaveRequest request{.run = folder.path(),
                      .step = now.step,
                      .world = parts_.world,
                      .documents = parts_.documents,
                      .retention = retention_of(parts_.config, parts_.plan),
                      .trash = folder.trash(),
                      .share = share_of_now(),
                      .read_back = parts_.config.checkpoint.read_back,
                      .patience_s = parts_.config.checkpoint.patience.value,
                      .storage = folder.storage(),
                      .enter = [this, to = &folder](Phase phase) { enter(phase, to); }};
  if (const std::int64_t ranks = parts_.config.checkpoint.ranks_per_file.ranks; ranks > 0)
    request.ranks_per_file = static_cast<int>(ranks);
  request.documents.emplace_back(run_totals_document, document_of(journal_.totals()));
  if (!now.best_evaluations.ranked.empty())
    request.documents.emplace_back(best_evaluations_document, document_of(now.best_evaluations));
  if (const std::vector<Metric>* measured = evaluations_.measured_at(now.step)) {
    request.metrics = *measured;
    request.documents.emplace_back("evaluation", now.evaluation);
  }
  return request;
}

RollingShare RunSaves::share_of_now() const {
  const CheckpointOptions& options = parts_.config.checkpoint;
  if (options.validation != Compared::rolling) return {};
  const std::int64_t saves = options.validation_saves.value();
  const std::int64_t turn = parts_.train_state.step / options.every.steps % saves;
  return {.number = static_cast<std::uint64_t>(turn), .of = static_cast<std::uint64_t>(saves)};
}

/// Nothing is made and nothing committed under the name of a run folder that leads elsewhere by now.
void RunSaves::enter(Phase phase, const RunFolder* folder) const {
  parts_.session.enter(phase, parts_.train_state.step);
  if (parts_.session.take_injected_flip()) flip_bit(parts_.model);
  if (phase != Phase::save_stage && phase != Phase::save_commit) return;
  parts_.files.run().require_in_place();
  if (folder != nullptr) folder->require_in_place();
}

/// Where the run folder went away amid a save, that is the reason, whatever call failed first. Collective over the
/// world.
AgreedError RunSaves::reason_of(const AgreedError& error) const {
  try {
    together(parts_.session.world(), "save a checkpoint", [&] {
      if (parts_.session.world().rank() == 0) parts_.files.run().require_in_place();
    });
  } catch (const AgreedError& moved) {
    return moved;
  }
  return error;
}

void RunSaves::tell_failure(const AgreedError& error, std::int64_t step, AfterSave after) {
  const std::string message = failed_.on_save_failure(error, step, saved_step_, after);
  journal_.warn({.step = step, .name = "save_failed", .message = message}, error.owner());
}

}  // namespace lockstep
