#include "train/loop.hpp"

#include "base/clock.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "checkpoint/replicas.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "tensor/unit.hpp"
#include "train/best_weights.hpp"
#include "train/cadence_change.hpp"
#include "train/components.hpp"
#include "train/divergence.hpp"
#include "train/evaluated_metrics.hpp"
#include "train/nonfinite.hpp"
#include "train/plugin_parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

namespace lockstep {

namespace {

/// Of an injection: the lowest bit of a weight that this rank holds.
void flip_bit(const Model& model) {
  for (const Parameter* parameter : model.parameters()) {
    const std::span<std::byte> bytes = bytes_of(parameter->master());
    if (bytes.empty()) continue;
    bytes[bytes.size() / 2 / sizeof(double) * sizeof(double)] ^= std::byte{1};
    return;
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

Profile::Settings profile_settings(const TrainConfig& config, const ProfiledSteps& steps, const Path& run) {
  return {.first = steps.first,
          .last = steps.last,
          .ranks = config.log.profile_ranks,
          .shapes = config.log.profile_shapes,
          .memory = config.log.profile_memory,
          .folder = config.log.profile_dir ? Path(*config.log.profile_dir) : run};
}

}  // namespace

TrainingLoop::TrainingLoop(const LoopParts& parts)
    : parts_(parts),
      loader_(*parts.plan.training_samples,
              parts.plan.loader(parts.config, SampleUse::training, parts.session.world().rank())),
      stop_(
          parts.session,
          {.control_file = parts.session.world().rank() == 0 ? parts.files.folder() / "control" : Path(),
           .max_time_s = parts.config.train.max_time ? std::optional(parts.config.train.max_time->value) : std::nullopt,
           .options = cadence_options()}),
      saver_(parts.session.world()),
      save_clock_(parts.config.checkpoint, monotonic_seconds()),
      log_clock_(parts.config.log.every, monotonic_seconds()),
      eval_clock_(parts.config.eval.every, monotonic_seconds()),
      schedule_(schedule_of(parts.config, parts.plan.length)),
      loss_of_user_(loss_of_user(parts.config.train.loss)),
      journal_(parts.config, parts.plan, parts.output, parts.files, parts.session.world().rank()),
      callbacks_(parts.callbacks, parts.session, journal_),
      statistics_({parts.config, parts.plan, parts.session, parts.engine, parts.cells, parts.model, journal_},
                  monotonic_seconds()),
      began_step_(parts.train_state.step),
      began_s_(monotonic_seconds()),
      saved_step_(parts.train_state.step),
      failed_saves_(parts.config, parts.plan.length) {
  if (const auto steps = profiled_steps(parts.config, parts.train_state.step))
    profile_.emplace(parts.plan.programs, parts.model, parts.session.world().rank(),
                     profile_settings(parts.config, *steps, parts.files.folder()));
  if (parts.files.local() == nullptr) return;
  promotions_.emplace(Promotions::Parts{parts_.config, parts_.session, parts_.files, journal_,
                                        retention_of(parts_.config, parts_.plan),
                                        [this](const PromotionReport& report) {
                                          stop_.save_took(last_save_s_ + report.seconds);  // which an end waits for
                                          if (report.step == saved_step_) last_checkpoint_ = report.path.string();
                                          journal_.promoted(report);
                                        }});
}

LoopEnd TrainingLoop::run() {
  try {
    const LoopEnd end = run_steps();
    if (parts_.train_state.step > began_step_) {
      tell(LOCKSTEP_RUN_END);
      callbacks_.report(view());
    }
    return end;
  } catch (const AgreedError&) {
    finish_save_of_failed_run();
    throw;
  }
}

LoopEnd TrainingLoop::run_steps() {
  TrainState& now = parts_.train_state;
  if (finished()) {
    if (promotions_) promotions_->finish(now.step);
    return LoopEnd::finished;
  }
  // Memory that is lacking is missed now, not when the first save is due.
  if (saves_in_background()) saver_.make_ready(saved_components(), save_request(), snapshot_memory());
  parts_.session.enter(Phase::data, now.step);
  together(parts_.session.world(), "read the samples of the first step", [&] {
    prefetcher_.emplace(loader_,
                        Prefetcher::Settings{.step = now.step,
                                             .position = now.position,
                                             .end_step = parts_.plan.length.steps,
                                             .ahead = parts_.config.data.prefetch},
                        [this](std::int64_t step) { parts_.session.inject_error(Phase::data, step); });
    batch_ = prefetcher_->take();
  });
  const bool counts = parts_.engine.counts_batch();
  valid_tokens_ = parts_.session.world().all_reduce(counts ? batch_.valid_tokens : 0, Reduce::sum);
  samples_ = parts_.session.world().all_reduce(counts ? batch_.samples : 0, Reduce::sum);
  std::vector<double> uses = numbers_of(batch_.uses);
  if (!counts) std::ranges::fill(uses, 0);
  parts_.session.world().all_reduce(uses, Reduce::sum);
  uses_ = uses_of(uses);
  if (now.position.sample > 0) epoch_told_ = now.position.epoch;  // by the start that began it
  tell(LOCKSTEP_RUN_BEGIN);
  if (parts_.config.eval.at_start && now.step == 0) evaluate();
  while (!finished()) {
    tell_epoch();
    const StepOutcome outcome = step();
    bool last = finished();
    const bool stopping = outcome.stop == StopLevel::after_step && !last;
    bool saves = stopping || due(parts_.config.checkpoint.every) || (last && parts_.config.checkpoint.at_end) ||
                 asks(outcome.requests, Request::save);
    const bool ends = !saves && !promotions_ && (last || outcome.stop == StopLevel::now);
    carry_on_save(ends ? AfterSave::end_of_run : AfterSave::more_steps);
    if (promotions_) promotions_->carry_on(now.step);
    if (evaluation_due(outcome.requests) || (saves && !stopping && parts_.config.eval.on_save)) evaluate();
    if (diverged_) end_diverged();
    if (!last && !stopping && finished()) {  // by that evaluation
      last = true;
      saves = saves || parts_.config.checkpoint.at_end;
    }
    if (outcome.stop == StopLevel::now || (outcome.stop != StopLevel::none && asked_again())) {
      finish_save(AfterSave::end_of_run);
      return LoopEnd::stopped_now;
    }
    if (saves || save_is_lost_) save(stopping || last ? AfterSave::nothing : AfterSave::more_steps);
    if (last || stopping) end_saves();
    if (profile_ && (profile_->ends_with(now.step) || last || stopping)) end_profile();
    if (stopping) return LoopEnd::stopped_saved;
    if (logged_step_ == now.step) tell_holdings();
  }
  parts_.verifier.settle(parts_.session);  // no checkpoint, and no end, rests on data that is not verified
  if (parts_.config.checkpoint.load_best_at_end) end_with_best();
  return LoopEnd::finished;
}

void TrainingLoop::tell(lockstep_event event) {
  const TrainState& now = parts_.train_state;
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  facts_.step = now.step;
  facts_.steps = parts_.plan.length.steps;
  facts_.epoch = now.position.epoch;
  facts_.tokens = now.tokens;
  facts_.eval_loss = now.eval_loss.value_or(unknown);
  if (now.step == began_step_) facts_.loss = facts_.gradient_norm = facts_.lr = unknown;
  callbacks_.tell(event, facts_);
}

void TrainingLoop::tell_epoch() {
  const std::int64_t epoch = parts_.train_state.position.epoch;
  if (std::exchange(epoch_told_, epoch) != epoch) tell(LOCKSTEP_EPOCH_BEGIN);
}

bool TrainingLoop::evaluation_due(Request requests) const {
  const EvalOptions& options = parts_.config.eval;
  const bool at_end = options.at_end || parts_.config.checkpoint.load_best_at_end;
  return (due(options.every) && evaluation_delay_is_over()) || (finished() && at_end) ||
         asks(requests, Request::evaluate);
}

bool TrainingLoop::evaluation_delay_is_over() const {
  const TrainState& now = parts_.train_state;
  return is_over(parts_.config.eval.delay, now.step, now.position, parts_.plan.samples_per_epoch);
}

bool TrainingLoop::asked_again() const {
  const auto level = static_cast<std::int64_t>(parts_.session.stop_level());
  return parts_.session.world().all_reduce(level, Reduce::max) >= static_cast<std::int64_t>(StopLevel::now);
}

StepOutcome TrainingLoop::step() {
  TrainState& now = parts_.train_state;
  tell(LOCKSTEP_STEP_BEGIN);
  parts_.session.enter(Phase::data, now.step);
  const DataPosition next_position = loader_.next(now.position);
  const double waited_s = prefetcher_->waited_s();
  StepBatch next;
  Profile* const profile = profile_of(now.step + 1);
  std::shared_ptr<TensorStatistics> gradients;
  std::exception_ptr failure;  // of this rank: the heartbeat makes it that of all
  try {
    gradients = statistics_.begin_step(now, next_position);
    const ProfiledScope scope(profile, "data");
    loader_.declare_use(now.position, parts_.verifier);
    parts_.verifier.check();
    if (now.step + 1 < parts_.plan.length.steps) next = prefetcher_->take();
  } catch (...) {
    failure = std::current_exception();
  }
  next.uses.resize(parts_.plan.training.size());  // as many numbers on each rank, whatever has failed
  const StopChannels::Asked asked = stop_.poll();
  if (!asked.problem.empty())
    journal_.warn({.step = now.step, .name = "control_ignored", .message = asked.problem},
                  parts_.session.world().rank());
  const Profile::Measured measured =
      profile == nullptr ? Profile::Measured{} : profile->start_step(now.step + 1, batch_);
  const CallbackAsks told = callbacks_.take_asks();
  StepOrder order{.step = now.step,
                  .valid_tokens = valid_tokens_,
                  .samples = samples_,
                  .lr = learning_rate(schedule_, now.step - now.loss_scale.overflows),
                  .seed = static_cast<std::uint64_t>(parts_.config.train.seed),
                  .loss = {parts_.config.train.label_smoothing, loss_of_user_ ? &*loss_of_user_ : nullptr},
                  .loss_scale = now.loss_scale.scale,
                  .skipped = now.skipped,
                  .next_valid_tokens = next.valid_tokens,
                  .next_samples = next.samples,
                  .next_uses = next.uses,
                  .stop = told.stop ? std::max(asked.stop, StopLevel::after_step) : asked.stop,
                  .requests = asked.requests | request_of(asked.change) | told.requests | requests_of_clocks(),
                  .failure = failure,
                  .times = measured.times,
                  .memory = measured.memory,
                  .gradients = gradients};
  if (callbacks_.listen())
    order.moments = [this](StepMoment moment, MicroBatch micro_batch) {
      constexpr std::array events{LOCKSTEP_MICRO_BATCH_END, LOCKSTEP_BEFORE_UPDATE, LOCKSTEP_UPDATED};
      facts_.micro_batch = micro_batch;
      tell(events.at(static_cast<std::size_t>(moment)));
    };
  const std::int64_t positions = parts_.plan.batch.global_batch * batch_.length;
  const double fill = static_cast<double>(valid_tokens_) / static_cast<double>(positions);
  const StepOutcome outcome = parts_.engine.run_step(batch_, order);
  began_at_ = std::exchange(now.position, next_position);
  count(outcome);
  if (outcome.updated) watch(DivergenceLoss::loss, outcome.loss);
  journal_.count(now, outcome, samples_, valid_tokens_, prefetcher_->waited_s() - waited_s);
  const ProfiledScope scope(profile, "records");
  if (asks(outcome.requests, Request::statistics)) statistics_.asked(monotonic_seconds());
  statistics_.end_step(now, gradients.get(), order.loss_scale);  // before what may end the run: they show why
  if (scales_loss(parts_.config)) update_loss_scale(outcome);
  if (!outcome.updated && !overflows(parts_.config, outcome)) skip_step(outcome);
  batch_ = std::move(next);
  valid_tokens_ = outcome.next_valid_tokens;
  samples_ = outcome.next_samples;
  uses_ = outcome.next_uses;
  if (asks(outcome.requests, Request::report)) callbacks_.report(view());
  if (asks(outcome.requests, Request::change)) make_change();
  facts_.loss = outcome.loss;
  facts_.gradient_norm = outcome.gradient_norm;
  facts_.lr = order.lr;
  facts_.updated = outcome.updated ? 1 : 0;
  tell(LOCKSTEP_STEP_END);
  if (now.position.epoch != began_at_.epoch) tell(LOCKSTEP_EPOCH_END);
  const bool first = parts_.config.log.first_step && now.step == 1;
  const bool may_be_last = parts_.config.eval.patience && due(parts_.config.eval.every);
  if (due(parts_.config.log.every) || first || may_be_last || finished() || diverged_ ||
      outcome.stop != StopLevel::none || asks(outcome.requests, Request::log)) {
    journal_.step(now, outcome, order, fill);
    logged_step_ = now.step;
    tell(LOCKSTEP_LOGGED);
    log_clock_.done(monotonic_seconds());
  }
  if (asked.status) tell_status();
  return outcome;
}

void TrainingLoop::count(const StepOutcome& outcome) {
  TrainState& now = parts_.train_state;
  ++now.step;
  if (outcome.updated) {
    now.tokens += valid_tokens_;
    for (std::size_t i = 0; now.uses && i < uses_.size(); ++i) {
      (*now.uses)[i].samples += uses_[i].samples;
      (*now.uses)[i].tokens += uses_[i].tokens;
    }
    now.loss = outcome.loss;
    now.skipped_in_a_row = 0;
    return;
  }
  ++now.skipped;
  if (overflows(parts_.config, outcome))
    ++now.loss_scale.overflows;
  else
    ++now.skipped_in_a_row;
}

void TrainingLoop::update_loss_scale(const StepOutcome& outcome) {
  TrainState& now = parts_.train_state;
  const LossScaleOptions& options = parts_.config.precision.loss_scale;
  const LossScale before = now.loss_scale;
  now.loss_scale = after_step(before, options, outcome.updated);
  if (now.loss_scale.scale == before.scale) return;
  const ScaledStep step{
      .step = now.step, .outcome = outcome, .scale = before.scale, .next_scale = now.loss_scale.scale};
  journal_.tell(event_of(step));
  if (now.loss_scale.scale < options.min_scale) refuse_to_scale(step, options.min_scale);
}

Request TrainingLoop::request_of(const std::optional<StopChannels::Change>& change) {
  if (!change) return Request::none;
  try {
    TrainConfig tried = parts_.config;
    change_cadence(tried, parts_.plan, *change);
    change_ = change;
    return Request::change;
  } catch (const Error& error) {
    journal_.warn({.step = parts_.train_state.step,
                   .name = "control_ignored",
                   .message = fmt::format("{} stays as it is: {}", change->option, error.what())},
                  parts_.session.world().rank());
    return Request::none;
  }
}

void TrainingLoop::make_change() {
  const std::string told = rank0_tells(parts_.session.world(), "change how often something is done",
                                       [&] { return change_->option + " " + change_->value; });
  change_.reset();
  const std::size_t space = told.find(' ');
  const std::string said =
      change_cadence(parts_.config, parts_.plan, {.option = told.substr(0, space), .value = told.substr(space + 1)});
  log_clock_.follow(parts_.config.log.every);
  eval_clock_.follow(parts_.config.eval.every);
  save_clock_.follow(parts_.config.checkpoint);
  statistics_.follow_cadence();
  journal_.tell({.step = parts_.train_state.step, .name = "option_changed", .message = said});
}

void TrainingLoop::tell_status() {
  const TrainState& now = parts_.train_state;
  const double step_s = (monotonic_seconds() - began_s_) / static_cast<double>(now.step - began_step_);
  const auto left = static_cast<double>(parts_.plan.length.steps - now.step);
  journal_.tell(
      {.step = now.step,
       .name = "status",
       .message = fmt::format(
           "step {} of {}, loss {}, {} tokens; {} a step, about {} to the end; {}", now.step, parts_.plan.length.steps,
           now.loss ? fmt::format("{:.4f}", *now.loss) : "unknown", human_count(static_cast<double>(now.tokens)),
           human_seconds(step_s), human_seconds(step_s * left),
           last_checkpoint_ ? "last checkpoint " + *last_checkpoint_ : std::string("no checkpoint of this start yet")),
       .loss = now.loss});
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
                            .in_a_row = parts_.train_state.skipped_in_a_row,
                            .in_backward = parts_.config.optimizer.in_backward,
                            .first = parts_.config.train.detect_anomaly
                                         ? first_of(parts_.engine.anomaly(), parts_.session.world())
                                         : std::string()};
  const EventRecord event = event_of(skipped);
  journal_.event(event);
  refuse_to_go_on(skipped, parts_.config.train.on_nonfinite, parts_.model, parts_.session.world());
  journal_.say(event);  // not before: what ends the run is explained once
}

void TrainingLoop::evaluate() {
  TrainState& now = parts_.train_state;
  const ProfiledScope scope(profile_of(now.step), "evaluation");
  const double start_s = monotonic_seconds();
  const AveragedWeights average(parts_.cells, parts_.engine, parts_.session, now.step);
  const std::vector<EvaluationPlan>& sets = parts_.plan.evaluations;
  if (!sets.empty()) {
    parts_.session.enter(Phase::evaluation, now.step);
    for (const EvaluationPlan& evaluation : sets)
      if (const auto& stream = evaluation.set.stream) parts_.verifier.use(*stream, 0, stream->tokens());
    forget_incomparable_best();
    std::vector<EvalRecord> measured;
    measured_.clear();
    for (const EvaluationPlan& evaluation : sets) {
      parts_.session.enter(Phase::evaluation, now.step);
      measured.push_back(lockstep::evaluate(parts_.engine, parts_.config, parts_.plan, evaluation, parts_.session,
                                            now.step, [this] { tell(LOCKSTEP_EVALUATION_BATCH_END); }));
      std::ranges::copy(metrics_of(measured.back(), parts_.config.checkpoint, evaluation.metrics),
                        std::back_inserter(measured_));
    }
    EvalRecord& deciding = measured[parts_.plan.deciding];
    now.eval_loss = std::isfinite(deciding.loss) ? std::optional(deciding.loss) : std::nullopt;
    if (now.eval_loss) evaluated_step_ = now.step;
    deciding.best = take_evaluation();
    for (const EvalRecord& record : measured) tell_evaluation(record);
    count_for_patience();
    if (now.eval_loss) watch(DivergenceLoss::eval_loss, *now.eval_loss);
  }
  const bool best_follows = finished() && parts_.config.checkpoint.load_best_at_end;
  if (!best_follows) callbacks_.after_evaluation(view());
  eval_clock_.done(monotonic_seconds());
  journal_.exclude(monotonic_seconds() - start_s);
}

void TrainingLoop::watch(DivergenceLoss of, double loss) {
  const DivergenceOptions& options = parts_.config.divergence;
  if (of != options.of) return;
  count_loss(options, loss, parts_.train_state.losses);
  diverged_ = has_diverged(options, parts_.train_state.losses);
}

void TrainingLoop::end_diverged() {
  const TrainState& now = parts_.train_state;
  const DivergenceOptions& options = parts_.config.divergence;
  const std::string text = divergence_text(options, now.losses);
  journal_.event({.step = now.step, .name = "diverged", .message = text});
  if (options.action == DivergenceAction::stop) {
    save(AfterSave::nothing);
    end_saves();
  }
  throw AgreedError(
      Error(ExitCode::numerics, fmt::format("step {}: {}", now.step, text),
            "an earlier checkpoint may go on with a lower optimizer.lr, as checkpoint.allow_change lets it; without "
            "divergence.detector nobody looks"),
      0);
}

void TrainingLoop::count_for_patience() {
  TrainState& now = parts_.train_state;
  const BestBy& by = now.best_evaluations.by;
  const auto value = std::ranges::find(measured_, by.metric, &Metric::name);
  count_evaluation(parts_.config.eval, by,
                   value == measured_.end() ? std::nullopt : std::optional<double>(value->value), now);
  if (!has_lost_patience(parts_.config.eval, now)) return;
  journal_.tell({.step = now.step,
                 .name = "patience_lost",
                 .message = fmt::format("{} was no better than {} in {}: the run is finished", by.metric,
                                        now.best_counted ? fmt::format("{:.4g}", *now.best_counted) : "before",
                                        counted(now.without_gain, "evaluation"))});
}

void TrainingLoop::end_with_best() {
  TrainState& now = parts_.train_state;
  const auto& ranked = now.best_evaluations.ranked;
  const bool is_last = saved_step_ == now.step && !ranked.empty() && ranked.front().step == now.step;
  const std::int64_t step = is_last ? now.step : load_best_weights(parts_);
  if (step != now.step) {
    journal_.tell({.step = now.step,
                   .name = "best_loaded",
                   .message = fmt::format("what follows is of the weights of step {}, which are the best", step)});
    for (std::size_t i = 0; i < parts_.plan.evaluations.size(); ++i) {
      const EvaluationPlan& evaluation = parts_.plan.evaluations[i];
      parts_.session.enter(Phase::evaluation, step);
      EvalRecord record = lockstep::evaluate(parts_.engine, parts_.config, parts_.plan, evaluation, parts_.session,
                                             step, [this] { tell(LOCKSTEP_EVALUATION_BATCH_END); });
      if (i == parts_.plan.deciding) {
        record.best = true;
        now.eval_loss = record.loss;
      }
      tell_evaluation(record);
    }
  }
  TrainState shown = now;
  shown.step = step;  // records of texts name the step of the weights
  callbacks_.after_evaluation(view_of(shown));
}

void TrainingLoop::tell_evaluation(const EvalRecord& record) {
  journal_.evaluation(record);
  const std::string name = record.name.value_or(record.split);
  facts_.evaluated = name.c_str();
  tell(LOCKSTEP_EVALUATED);
  facts_.evaluated = nullptr;
  if (std::isfinite(record.loss)) return;
  journal_.warn({.step = record.step,
                 .name = "nonfinite_validation",
                 .message = fmt::format("{} loss {} is not finite", record.name.value_or("validation"), record.loss)});
}

bool TrainingLoop::take_evaluation() {
  TrainState& now = parts_.train_state;
  if (!now.eval_loss) return false;
  BestEvaluations& best = now.best_evaluations;
  const bool least_loss = !now.best_eval_loss || *now.eval_loss < *now.best_eval_loss;
  if (least_loss) now.best_eval_loss = now.eval_loss;
  const auto value = std::ranges::find(measured_, best.by.metric, &Metric::name);
  if (value == measured_.end()) return false;
  const bool is_best = best.by == BestEvaluations().by ? least_loss : is_better(best, value->value);
  rank_evaluation(best, {now.step, *now.eval_loss, value->value});
  return is_best;
}

void TrainingLoop::forget_incomparable_best() {
  TrainState& now = parts_.train_state;
  if (now.best_eval_loss && now.evaluation != parts_.plan.evaluation()) {
    journal_.warn({.step = now.step,
                   .name = "evaluation_changed",
                   .message = fmt::format(
                       "the best validation loss so far, {:.4f}, was measured on {}, from here on it "
                       "is {}: what is the best counts anew",
                       *now.best_eval_loss, now.evaluation.empty() ? "samples of an earlier version" : now.evaluation,
                       parts_.plan.evaluation()),
                   .loss = now.best_eval_loss});
    now.best_eval_loss.reset();
    now.best_evaluations.ranked.clear();
    now.best_counted.reset();
    now.without_gain = 0;
  }
  BestEvaluations& best = now.best_evaluations;
  if (const BestBy by = best_by(parts_.config.checkpoint, parts_.plan.deciding_metrics(parts_.config)); best.by != by) {
    if (!best.ranked.empty())
      journal_.warn({.step = now.step,
                     .name = "best_metric_changed",
                     .message = fmt::format("the best evaluations so far were those with the {}, from here on they are "
                                            "those with the {}: what is the best counts anew; checkpoints that are "
                                            "there are compared by what they were measured to have",
                                            to_text(best.by), to_text(by))},
                    0);
    best = {by, {}};
    now.best_counted.reset();
    now.without_gain = 0;
  }
  now.evaluation = parts_.plan.evaluation();
}

void TrainingLoop::save(AfterSave after) {
  const TrainState& now = parts_.train_state;
  const CheckpointOptions& options = parts_.config.checkpoint;
  const bool may_go_on = saves_in_background() && after == AfterSave::more_steps;
  if (saver_.under_way()) {
    if (may_go_on && begun_step_ == now.step) return;
    if (may_go_on && options.on_busy.value_or(OnBusy::wait) == OnBusy::skip) {
      journal_.warn({.step = now.step,
                     .name = "save_skipped",
                     .message = fmt::format("no save of step {}: that of step {} is under way", now.step, begun_step_)},
                    0);
      return;
    }
    finish_save(AfterSave::more_steps);
  }
  bool around_local = std::exchange(save_is_lost_, false);
  if (saved_step_ == now.step) return;
  const bool in_background = may_go_on && !around_local;
  const ProfiledScope scope(profile_of(now.step), "save");
  parts_.verifier.settle(parts_.session);
  const double start_s = monotonic_seconds();
  require_finite_weights(parts_.model, now.step, parts_.session.world());
  std::optional<SaveReport> report;
  try {
    const std::vector<Component> components = settled_components();
    try {
      if (in_background) {
        begun_step_ = now.step;
        saver_.begin(components, save_request(), snapshot_memory());
      } else if (!around_local) {
        report = saver_.save(components, save_request());
      }
    } catch (const AgreedError& error) {  // the same on all ranks, so all go on or none
      if (error.code() != ExitCode::storage || !promotions_) throw;
      tell_local_failure(error, now.step);
      around_local = true;
    }
    if (around_local) report = save_to_run(components);
  } catch (const AgreedError& error) {
    if (error.code() != ExitCode::storage) throw;
    tell_failed_save(reason_of(error), now.step, after);
  }
  parts_.cells.drop();
  const double seconds = monotonic_seconds() - start_s;
  stop_.save_took(seconds);
  save_clock_.save_ended(seconds, monotonic_seconds());
  journal_.exclude(seconds);
  if (report) saved(*report, seconds, 0);
}

SaveReport TrainingLoop::save_to_run(const std::vector<Component>& components) {
  promotions_->settle(parts_.train_state.step);
  if (!saver_to_run_) saver_to_run_.emplace(parts_.session.world());
  return saver_to_run_->save(components, request_for(parts_.files.run()));
}

void TrainingLoop::tell_local_failure(const AgreedError& error, std::int64_t step) {
  journal_.warn({.step = step,
                 .name = "local_save_failed",
                 .message = fmt::format("{}\n  a checkpoint is written to {} at once", error.what(),
                                        parts_.files.folder().string())},
                error.owner());
}

void TrainingLoop::end_saves() {
  finish_save(promotions_ ? AfterSave::more_steps : AfterSave::end_of_run);
  if (save_is_lost_) save(AfterSave::nothing);
  if (promotions_) promotions_->finish(parts_.train_state.step);
}

std::vector<Component> TrainingLoop::saved_components() const {
  std::vector<Component> components = parts_.components;
  std::erase_if(components,
                [&](const Component& component) { return !is_saved(parts_.config.checkpoint, component.key); });
  return components;
}

std::vector<Component> TrainingLoop::components_now() {
  std::vector<Component> components = saved_components();
  const std::int64_t step = parts_.train_state.step;
  if (parts_.cells.state_apart(step)) {
    parts_.cells.take_averages(parts_.engine, parts_.session, step);
    if (is_saved(parts_.config.checkpoint, parts_.cells.component().key))
      components.push_back(compared_as(parts_.config.checkpoint, parts_.cells.component()));
  }
  return components;
}

std::vector<Component> TrainingLoop::settled_components() {
  std::vector<Component> components = components_now();
  Communicator& world = parts_.session.world();
  const std::int64_t step = parts_.train_state.step;
  const auto enter = [this] { enter_save(Phase::save_plan, nullptr); };
  switch (parts_.config.checkpoint.on_difference) {
    case OnDifference::fail: break;
    case OnDifference::warn:
      if (const auto told = compare_replicas(world, parts_.world, components, share_of_now(), enter)) {
        journal_.warn({.step = step,
                       .name = "replicas_differ",
                       .message = *told + "; of ranks that should hold the same the lowest saves what it holds"});
        for (Component& component : components) component.validation = Validation::none;
      }
      break;
    case OnDifference::repair:
      if (const auto told = repair_replicas(world, parts_.world, components, share_of_now(), enter)) {
        for (Unit* unit : parts_.model.units()) unit->update_compute_copy();
        parts_.cells.drop();
        components = components_now();  // averages of what was wrong are wrong
        journal_.warn({.step = step, .name = "replicas_repaired", .message = *told});
      }
      break;
  }
  return components;
}

void TrainingLoop::carry_on_save(AfterSave after) { advance_save(false, after); }

void TrainingLoop::finish_save(AfterSave after) { advance_save(true, after); }

void TrainingLoop::finish_save_of_failed_run() {
  try {
    finish_save(AfterSave::end_of_run);
  } catch (const AgreedError& error) {
    journal_.warn({.step = begun_step_, .name = "save_failed", .message = error.what()}, error.owner());
  }
}

void TrainingLoop::advance_save(bool to_the_end, AfterSave after) {
  if (!saver_.under_way()) return;
  const double start_s = monotonic_seconds();
  std::optional<SaveReport> report;
  try {
    report = saver_.advance(to_the_end);
  } catch (const AgreedError& error) {
    if (error.code() != ExitCode::storage) throw;
    save_is_lost_ = promotions_.has_value() && after == AfterSave::more_steps;
    if (save_is_lost_)
      tell_local_failure(error, begun_step_);
    else
      tell_failed_save(reason_of(error), begun_step_, after);
  }
  journal_.exclude(monotonic_seconds() - start_s);
  if (!report) return;
  stop_.save_took(report->seconds);
  saved(*report, saver_.stall_seconds(), saver_.waves());
}

void TrainingLoop::saved(const SaveReport& report, double stall_s, int waves) {
  failed_saves_.forget();
  saved_step_ = report.step;
  last_checkpoint_ = report.path.string();
  last_save_s_ = report.seconds;
  journal_.saved(report, stall_s, waves);
  facts_.checkpoint = last_checkpoint_->c_str();
  tell(LOCKSTEP_SAVED);
  facts_.checkpoint = nullptr;
  if (!promotions_) return;
  if (step_within(report.path, parts_.files.folder()))
    promotions_->drop_before(report.step);
  else
    promotions_->add(report.step);
}

std::uint64_t TrainingLoop::snapshot_memory() const {
  const auto& memory = parts_.config.checkpoint.snapshot_memory;
  return memory ? memory->bytes : 0;
}

// What the local tier keeps is for promotions to say.
SaveRequest TrainingLoop::save_request() const {
  if (!promotions_) return request_for(parts_.files.run());
  SaveRequest request = request_for(*parts_.files.local());
  request.retention = {.keep_last = std::numeric_limits<std::int64_t>::max()};
  return request;
}

SaveRequest TrainingLoop::request_for(RunFolder& folder) const {
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
                      .enter = [this, to = &folder](Phase phase) { enter_save(phase, to); }};
  if (const std::int64_t ranks = parts_.config.checkpoint.ranks_per_file.ranks; ranks > 0)
    request.ranks_per_file = static_cast<int>(ranks);
  if (!now.best_evaluations.ranked.empty())
    request.documents.emplace_back(best_evaluations_document, document_of(now.best_evaluations));
  if (evaluated_step_ == now.step) {
    request.metrics = measured_;
    request.documents.emplace_back("evaluation", now.evaluation);
  }
  return request;
}

RollingShare TrainingLoop::share_of_now() const {
  const CheckpointOptions& options = parts_.config.checkpoint;
  if (options.validation != Compared::rolling) return {};
  constexpr std::int64_t usual_saves = 8;
  const std::int64_t saves = options.validation_saves.value_or(usual_saves);
  const std::int64_t turn = parts_.train_state.step / options.every.steps % saves;
  return {.number = static_cast<std::uint64_t>(turn), .of = static_cast<std::uint64_t>(saves)};
}

/// Nothing is made and nothing committed under the name of a run folder that leads elsewhere by now.
void TrainingLoop::enter_save(Phase phase, const RunFolder* folder) const {
  parts_.session.enter(phase, parts_.train_state.step);
  if (parts_.session.take_injected_flip()) flip_bit(parts_.model);
  if (phase != Phase::save_stage && phase != Phase::save_commit) return;
  parts_.files.run().require_in_place();
  if (folder != nullptr) folder->require_in_place();
}

/// Where the run folder went away amid a save, that is the reason, whatever call failed first. Collective over the
/// world.
AgreedError TrainingLoop::reason_of(const AgreedError& error) const {
  try {
    together(parts_.session.world(), "save a checkpoint", [&] {
      if (parts_.session.world().rank() == 0) parts_.files.run().require_in_place();
    });
  } catch (const AgreedError& moved) {
    return moved;
  }
  return error;
}

void TrainingLoop::tell_failed_save(const AgreedError& error, std::int64_t step, AfterSave after) {
  const std::string message = failed_saves_.on_save_failure(error, step, saved_step_, after);
  journal_.warn({.step = step, .name = "save_failed", .message = message}, error.owner());
}

Profile* TrainingLoop::profile_of(std::int64_t step) {
  return profile_ && profile_->covers(step) ? &*profile_ : nullptr;
}

void TrainingLoop::end_profile() {
  profile_->gather(parts_.session.world());
  journal_.profiled(*profile_);
  profile_.reset();
}

bool TrainingLoop::due(const Cadence& every) const {
  const TrainState& now = parts_.train_state;
  return due_after(every, now.step, began_at_, now.position, parts_.plan.samples_per_epoch);
}

Request TrainingLoop::requests_of_clocks() const {
  if (parts_.session.world().rank() != 0) return Request::none;
  const double now_s = monotonic_seconds();
  return (save_clock_.due(now_s) ? Request::save : Request::none) |
         (log_clock_.due(now_s) ? Request::log : Request::none) |
         (statistics_.due(now_s) ? Request::statistics : Request::none) |
         (eval_clock_.due(now_s) && evaluation_delay_is_over() ? Request::evaluate : Request::none);
}

RunView TrainingLoop::view_of(const TrainState& state) const {
  return {parts_.session, parts_.engine, parts_.plan.text, parts_.tokenizer, state, parts_.files.records()};
}

}  // namespace lockstep
