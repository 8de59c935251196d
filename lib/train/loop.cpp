#include "train/loop.hpp"

#include "base/clock.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "optim/schedule.hpp"
#include "train/nonfinite.hpp"

#include <unistd.h>

#include <cmath>

namespace lockstep {

namespace {

Meter::Settings meter_settings(const TrainConfig& config, const TrainPlan& plan) {
  Meter::Settings settings{
      .last_step = config.train.max_steps, .flops_per_token = plan.flops_per_token, .peak_flops_per_s = {}};
  if (config.log.peak_tflops) settings.peak_flops_per_s = *config.log.peak_tflops * 1e12 * plan.ranks;
  return settings;
}

}  // namespace

TrainingLoop::TrainingLoop(const LoopParts& parts)
    : parts_(parts),
      loader_(*parts.plan.training, parts.plan.loader(parts.config, parts.session.world().rank())),
      stop_(parts.session,
            {.control_file = parts.session.world().rank() == 0 ? parts.files.folder() / "control" : Path(),
             .max_time_s =
                 parts.config.train.max_time ? std::optional(parts.config.train.max_time->value) : std::nullopt}),
      meter_(meter_settings(parts.config, parts.plan), monotonic_seconds()),
      callbacks_(make_callbacks(parts.config)),
      saved_step_(parts.train_state.step),
      failed_saves_(parts.config) {
  if (const auto steps = profiled_steps(parts.config, parts.train_state.step))
    profile_.emplace(parts.plan.programs.train, parts.session.world().rank(), steps->first, steps->last);
  if (parts.session.world().rank() != 0) return;
  const Progress::Settings settings{.what = "progress",
                                    .unit = "steps",
                                    .total = static_cast<double>(parts.config.train.max_steps),
                                    .style = progress_style(parts.output.common().progress, STDERR_FILENO)};
  progress_ = std::make_unique<Progress>(parts.output.log(), settings);
}

TrainingLoop::~TrainingLoop() = default;

LoopEnd TrainingLoop::run() {
  TrainState& now = parts_.train_state;
  if (finished()) return LoopEnd::finished;
  parts_.session.enter(Phase::data, now.step);
  together(parts_.session.world(), "read the samples of the first step",
           [&] { batch_ = loader_.make_step(now.step, now.position); });
  valid_tokens_ = parts_.session.world().all_reduce(batch_.valid_tokens, Reduce::sum);
  while (!finished()) {
    const StepOutcome outcome = step();
    const bool last = finished();
    if (due(parts_.config.eval.every) || (last && parts_.config.eval.at_end) ||
        asks(outcome.requests, Request::evaluate))
      evaluate();
    if (outcome.stop == StopLevel::now || (outcome.stop != StopLevel::none && asked_again()))
      return LoopEnd::stopped_now;
    const bool stopping = outcome.stop == StopLevel::after_step && !last;
    if (stopping || due(parts_.config.checkpoint.every) || (last && parts_.config.checkpoint.at_end) ||
        asks(outcome.requests, Request::save)) {
      save(stopping || last ? AfterSave::nothing : AfterSave::more_steps);
    }
    if (profile_ && (profile_->ends_with(now.step) || last || stopping)) end_profile();
    if (stopping) return LoopEnd::stopped_saved;
    if (now.step % parts_.config.log.every == 0) tell_holdings();
  }
  together(parts_.session.world(), "end the run", [&] {
    if (failure_) std::rethrow_exception(failure_);
  });
  return LoopEnd::finished;
}

bool TrainingLoop::asked_again() const {
  const auto level = static_cast<std::int64_t>(parts_.session.stop_level());
  return parts_.session.world().all_reduce(level, Reduce::max) >= static_cast<std::int64_t>(StopLevel::now);
}

void TrainingLoop::attempt(const std::function<void()>& work) {
  if (failure_) return;
  try {
    work();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

StepOutcome TrainingLoop::step() {
  TrainState& now = parts_.train_state;
  parts_.session.enter(Phase::data, now.step);
  const DataPosition next_position = loader_.next(now.position);
  StepBatch next;
  StopChannels::Asked asked;
  Profile* const profile = profile_of(now.step + 1);
  attempt([&] {
    const ProfiledScope scope(profile, "data");
    if (now.step + 1 < parts_.config.train.max_steps) next = loader_.make_step(now.step + 1, next_position);
    asked = stop_.poll();
  });
  const StepOrder order{.step = now.step,
                        .valid_tokens = valid_tokens_,
                        .lr = learning_rate(parts_.config, now.step),
                        .skipped = now.skipped,
                        .next_valid_tokens = next.valid_tokens,
                        .stop = asked.stop,
                        .requests = asked.requests | pending_requests_,
                        .failure = failure_,
                        .times = profile == nullptr ? nullptr : profile->start_step(now.step + 1)};
  const StepOutcome outcome = parts_.engine.run_step(batch_, order);
  ++now.step;
  now.position = next_position;
  meter_.count(outcome.updated ? valid_tokens_ : 0);
  if (outcome.updated) {
    now.tokens += valid_tokens_;
    now.loss = outcome.loss;
    now.skipped_in_a_row = 0;
    look_for_spike(outcome.loss);
  } else {
    ++now.skipped;
    ++now.skipped_in_a_row;
    skip_step(outcome);
  }
  batch_ = std::move(next);
  valid_tokens_ = outcome.next_valid_tokens;
  pending_requests_ = Request::none;
  const ProfiledScope scope(profile, "records");
  attempt([&] {
    for (const auto& callback : callbacks_) pending_requests_ = pending_requests_ | callback->after_step(view());
  });
  if (now.step % parts_.config.log.every == 0 || finished() || outcome.stop != StopLevel::none ||
      asks(outcome.requests, Request::log)) {
    attempt([&] { record_step(outcome, order.lr); });
  }
  return outcome;
}

void TrainingLoop::record_step(const StepOutcome& outcome, double lr) {
  if (!progress_) return;
  const TrainState& now = parts_.train_state;
  const Meter::Reading reading = meter_.read(monotonic_seconds(), now.step);
  const double epoch = static_cast<double>(now.position.epoch) +
                       static_cast<double>(now.position.sample) / static_cast<double>(parts_.plan.samples_per_epoch);
  parts_.files.records().write(StepRecord{.step = now.step,
                                          .loss = outcome.loss,
                                          .lr = lr,
                                          .grad_norm = outcome.gradient_norm,
                                          .tokens = now.tokens,
                                          .tokens_per_s = reading.tokens_per_s,
                                          .step_ms = reading.step_ms,
                                          .mfu = reading.mfu,
                                          .eta_s = reading.eta_s,
                                          .epoch = epoch});
  const std::string detail = fmt::format("loss {:.4f}, {} tokens/s, {:.0f} ms a step", outcome.loss,
                                         human_count(reading.tokens_per_s), reading.step_ms);
  progress_->update(static_cast<double>(now.step), detail);
}

void TrainingLoop::tell_holdings() {
  if (parts_.output.common().log_level != LogLevel::debug) return;
  const ProcessHoldings held = holdings_of_process();
  parts_.output.log().debug("step {}: {} KiB of memory, {} descriptors, {} threads", parts_.train_state.step,
                            held.resident_kib, held.descriptors, held.threads);
}

void TrainingLoop::skip_step(const StepOutcome& outcome) {
  const SkippedStep skipped{.step = parts_.train_state.step,
                            .loss = outcome.loss,
                            .gradient_norm = outcome.gradient_norm,
                            .in_a_row = parts_.train_state.skipped_in_a_row};
  const EventRecord event = event_of(skipped);
  record_event(event);
  refuse_to_go_on(skipped, parts_.config.train.on_nonfinite, parts_.model, parts_.session.world());
  warn_of(event);  // not before: what ends the run is explained once
}

void TrainingLoop::look_for_spike(double loss) {
  const std::optional<double> limit = recent_losses_.limit();
  recent_losses_.add(loss);
  if (!limit || loss <= *limit) return;
  const std::string message =
      fmt::format("loss {:.4f} is far beyond the last {} ones: mean + {} standard deviations is {:.4f}", loss,
                  LossWindow::capacity, LossWindow::deviations, *limit);
  const EventRecord event{
      .step = parts_.train_state.step, .name = "loss_spike", .message = message, .loss = loss, .limit = limit};
  record_event(event);
  warn_of(event);
}

void TrainingLoop::record_event(const EventRecord& event) {
  if (progress_) attempt([&] { parts_.files.records().write(event); });
}

void TrainingLoop::warn_of(const EventRecord& event) {
  if (progress_) parts_.output.log().warning("step {}: {}", *event.step, event.message);
}

void TrainingLoop::evaluate() {
  TrainState& now = parts_.train_state;
  const ProfiledScope scope(profile_of(now.step), "evaluation");
  const double start_s = monotonic_seconds();
  if (parts_.plan.validation) {
    parts_.session.enter(Phase::evaluation, now.step);
    const EvaluationOutcome outcome =
        lockstep::evaluate(parts_.engine, parts_.config, parts_.plan, parts_.session, now.step);
    const double loss = outcome.loss_sum / static_cast<double>(outcome.tokens);
    const bool finite = std::isfinite(loss);
    const bool best = finite && (!now.best_eval_loss || loss < *now.best_eval_loss);
    now.eval_loss = finite ? std::optional(loss) : std::nullopt;
    if (best) now.best_eval_loss = loss;
    if (finite) evaluated_step_ = now.step;
    if (progress_)
      attempt([&] {
        parts_.files.records().write(EvalRecord{.step = now.step,
                                                .split = parts_.config.data.validation_split,
                                                .loss = loss,
                                                .perplexity = std::exp(loss),
                                                .tokens = outcome.tokens,
                                                .eval_ms = (monotonic_seconds() - start_s) * 1e3,
                                                .best = best});
        parts_.output.log().info("step {}: validation loss {:.4f}{}", now.step, loss, best ? ", the best so far" : "");
      });
    if (!finite) {
      const EventRecord event{.step = now.step,
                              .name = "nonfinite_validation",
                              .message = fmt::format("validation loss {} is not finite", loss)};
      record_event(event);
      warn_of(event);
    }
  }
  for (const auto& callback : callbacks_) callback->after_evaluation(view());
  meter_.exclude(monotonic_seconds() - start_s);
}

void TrainingLoop::save(AfterSave after) {
  const TrainState& now = parts_.train_state;
  if (saved_step_ == now.step) return;
  const ProfiledScope scope(profile_of(now.step), "save");
  const double start_s = monotonic_seconds();
  std::optional<SaveReport> report;
  try {
    report = lockstep::save(parts_.session.world(), parts_.components, save_request());
  } catch (const AgreedError& error) {  // the same on all ranks, so all go on or none
    if (error.code() != ExitCode::storage) throw;
    tell_failed_save(error, after);
  }
  const double seconds = monotonic_seconds() - start_s;
  stop_.save_took(seconds);
  meter_.exclude(seconds);
  if (!report) return;
  failed_saves_.forget();
  saved_step_ = now.step;
  last_checkpoint_ = report->path.string();
  if (progress_) record_save(*report, seconds);
}

SaveRequest TrainingLoop::save_request() const {
  const TrainState& now = parts_.train_state;
  SaveRequest request{.run = parts_.files.folder(),
                      .step = now.step,
                      .world = {.mesh = parts_.plan.mesh},
                      .documents = parts_.documents,
                      .retention = {.keep_last = parts_.config.checkpoint.keep_last},
                      .ranks_per_file = static_cast<int>(parts_.config.checkpoint.ranks_per_file),
                      .enter = [this](Phase phase) { parts_.session.enter(phase, parts_.train_state.step); }};
  if (evaluated_step_ == now.step) request.metrics.emplace_back("validation_loss", *now.eval_loss);
  return request;
}

void TrainingLoop::tell_failed_save(const AgreedError& error, AfterSave after) {
  const std::int64_t step = parts_.train_state.step;
  const std::string message = failed_saves_.on_save_failure(error, step, saved_step_, after);
  if (parts_.session.world().rank() == error.owner()) parts_.output.log().warning("{}", message);
  record_event({.step = step, .name = "save_failed", .message = message});
}

void TrainingLoop::record_save(const SaveReport& report, double seconds) {
  CheckpointRecord record{.step = report.step,
                          .path = report.path.string(),
                          .bytes = static_cast<std::int64_t>(report.bytes),
                          .state_digest = to_hex(report.state_digest),
                          .save_ms = seconds * 1e3,
                          .removed = {}};
  for (const std::int64_t step : report.pruned)
    record.removed.push_back(checkpoint_folder(parts_.files.folder(), step).string());
  attempt([&] { parts_.files.records().write(record); });
  parts_.output.log().info("saved {} ({} in {})", report.path.string(), human_bytes(report.bytes),
                           human_seconds(seconds));
  if (!report.retention_problem.empty())
    parts_.output.log().warning("older checkpoints stay: {}", report.retention_problem);
}

Profile* TrainingLoop::profile_of(std::int64_t step) {
  return profile_ && profile_->covers(step) ? &*profile_ : nullptr;
}

void TrainingLoop::end_profile() {
  profile_->gather(parts_.session.world());
  if (progress_) attempt([&] { profile_->report(parts_.files.records(), parts_.output.log(), parts_.files.folder()); });
  profile_.reset();
}

bool TrainingLoop::due(const std::optional<std::int64_t>& every) const {
  return every && parts_.train_state.step % *every == 0;
}

RunView TrainingLoop::view() const {
  return {parts_.session, parts_.model, parts_.tokenizer, parts_.train_state, parts_.files.records()};
}

}  // namespace lockstep
