#include "train/loop.hpp"

#include "base/clock.hpp"
#include "base/process.hpp"
#include "base/run_clock.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "train/best_weights.hpp"
#include "train/cadence_change.hpp"
#include "train/divergence.hpp"
#include "train/nonfinite.hpp"
#include "train/plugin_parts.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

namespace lockstep {

namespace {

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
      log_clock_(parts.config.log.every, run_seconds()),
      eval_clock_(parts.config.eval.every, run_seconds()),
      schedule_(schedule_of(parts.config, parts.plan.length)),
      loss_of_user_(plugin_loss(parts.config.train.loss)),
      journal_(parts.config, parts.plan, parts.output, parts.files, parts.session.world().rank(), parts.train_state,
               parts.began_s),
      callbacks_(parts.callbacks, parts.session, journal_),
      evaluations_(parts, journal_,
                   [this](lockstep_event event, const char* evaluated) {
                     facts_.evaluated = evaluated;
                     tell(event);
                     facts_.evaluated = nullptr;
                   }),
      saves_(parts, journal_, stop_, evaluations_,
             [this](const std::string& checkpoint) {
               facts_.checkpoint = checkpoint.c_str();
               tell(LOCKSTEP_SAVED);
               facts_.checkpoint = nullptr;
             }),
      statistics_({parts.config, parts.plan, parts.session, parts.engine, parts.cells, parts.model, journal_},
                  run_seconds()),
      products_(parts.config, parts.files.folder(), parts.session, parts.output.log()),
      began_step_(parts.train_state.step),
      began_s_(monotonic_seconds()) {
  if (const auto steps = profiled_steps(parts.config, parts.train_state.step))
    profile_.emplace(parts.plan.programs, parts.model, parts.session.world().rank(),
                     profile_settings(parts.config, *steps, parts.files.folder()));
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
    saves_.finish_of_failed_run();
    throw;
  }
}

LoopEnd TrainingLoop::run_steps() {
  TrainState& now = parts_.train_state;
  if (finished()) return saves_.end(Promotions::AtEnd::all) ? LoopEnd::finished : LoopEnd::stopped_saved;
  saves_.make_ready();
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
  products_.begin(now.step);
  tell(LOCKSTEP_RUN_BEGIN);
  if (parts_.config.eval.at_start && now.step == 0) evaluate();
  bool all_promoted = true;
  while (!finished()) {
    tell_epoch();
    const StepOutcome outcome = step();
    products_.after_step(now.step);
    AfterStep facts = facts_after(outcome);
    StepDecision decision = decide(facts);
    saves_.carry_on(decision.ends ? AfterSave::end_of_run : AfterSave::more_steps);
    if (decision.evaluate) evaluate();
    if (diverged_) end_diverged();
    if (!decision.stopping && finished()) {  // perhaps by that evaluation
      facts.last = true;
      decision = decide(facts);
    }
    if (outcome.stop == StopLevel::now || (outcome.stop != StopLevel::none && asked_again())) {
      saves_.finish(AfterSave::end_of_run);
      return LoopEnd::stopped_now;
    }
    const bool last = facts.last, stopping = decision.stopping;
    if (decision.save || saves_.is_lost()) save(stopping || last ? AfterSave::nothing : AfterSave::more_steps);
    if (last || stopping) all_promoted = saves_.end(stopping ? Promotions::AtEnd::newest : Promotions::AtEnd::all);
    if (profile_ && (profile_->ends_with(now.step) || last || stopping)) end_profile();
    if (stopping) return LoopEnd::stopped_saved;
    if (logged_step_ == now.step) tell_holdings();
  }
  parts_.verifier.settle(parts_.session);  // no checkpoint, and no end, rests on data that is not verified
  if (!all_promoted) return LoopEnd::stopped_saved;
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

AfterStep TrainingLoop::facts_after(const StepOutcome& outcome) const {
  const EvalOptions& evaluation = parts_.config.eval;
  const CheckpointOptions& checkpoint = parts_.config.checkpoint;
  return {.stop = outcome.stop,
          .last = finished(),
          .save_due = due(checkpoint.every) || asks(outcome.requests, Request::save),
          .evaluation_due =
              (due(evaluation.every) && evaluation_delay_is_over()) || asks(outcome.requests, Request::evaluate),
          .save_at_end = checkpoint.at_end,
          .evaluate_at_end = evaluation.at_end || checkpoint.load_best_at_end,
          .evaluate_on_save = evaluation.on_save};
}

bool TrainingLoop::evaluation_delay_is_over() const {
  const TrainState& now = parts_.train_state;
  return is_over(parts_.config.eval.delay, now.step, now.position, parts_.plan.samples_per_epoch);
}

std::string TrainingLoop::stop_reason() const {
  return stop_reason_.empty() ? parts_.session.stop_reason() : stop_reason_;
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
  const CallbackRequests told = callbacks_.take_asks();
  if (stop_reason_.empty()) stop_reason_ = asked.stop == StopLevel::none && told.stop ? "a callback" : asked.reason;
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
  const std::int64_t positions = samples_ * batch_.length;
  const double fill = static_cast<double>(valid_tokens_) / static_cast<double>(positions);
  const StepOutcome outcome = run_or_save(order);
  began_at_ = std::exchange(now.position, next_position);
  count(outcome);
  if (outcome.updated) watch(DivergenceLoss::loss, outcome.loss);
  journal_.count(now, outcome, samples_, valid_tokens_, prefetcher_->waited_s() - waited_s);
  const ProfiledScope scope(profile, "records");
  if (asks(outcome.requests, Request::statistics)) statistics_.asked(run_seconds());
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
    log_clock_.done(run_seconds());
  }
  if (asked.status) tell_status();
  return outcome;
}

/// All ranks hear at the heartbeat that one of them cannot read its data. No weight has changed since the last step
/// then, except by updates within backward. Ranks that share the work inside a block do not get there: the job ends.
StepOutcome TrainingLoop::run_or_save(const StepOrder& order) {
  try {
    return parts_.engine.run_step(batch_, order);
  } catch (const AgreedError& error) {
    const bool is_whole = error.code() == ExitCode::storage && !parts_.config.optimizer.in_backward;
    if (is_whole && parts_.train_state.step > began_step_) saves_.save_of_failed_run();
    throw;
  }
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
                   .message = fmt::format("{} is not changed: {}", change->option, error.what())},
                  parts_.session.world().rank());
    return Request::none;
  }
}

void TrainingLoop::make_change() {
  const std::string told = run_on_rank0(parts_.session.world(), "change an interval",
                                        [&] { return change_->option + " " + change_->value; });
  change_.reset();
  const std::size_t space = told.find(' ');
  const std::string said =
      change_cadence(parts_.config, parts_.plan, {.option = told.substr(0, space), .value = told.substr(space + 1)});
  log_clock_.follow(parts_.config.log.every);
  eval_clock_.follow(parts_.config.eval.every);
  saves_.follow_cadence();
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
           "step {} of {}, loss {}, {} tokens; {} per step, about {} left; {}", now.step, parts_.plan.length.steps,
           now.loss ? fmt::format("{:.4f}", *now.loss) : "unknown",
           human_count(static_cast<double>(journal_.positions())), human_seconds(step_s), human_seconds(step_s * left),
           last_checkpoint() ? "last checkpoint " + *last_checkpoint() : std::string("no checkpoint since this start")),
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
  if (!parts_.plan.evaluations.empty()) {
    evaluations_.measure();
    if (now.eval_loss) watch(DivergenceLoss::eval_loss, *now.eval_loss);
  }
  const bool best_follows = finished() && parts_.config.checkpoint.load_best_at_end;
  if (!best_follows) callbacks_.after_evaluation(view());
  eval_clock_.done(run_seconds());
  journal_.exclude(monotonic_seconds() - start_s);
}

void TrainingLoop::watch(DivergenceLoss of, double loss) {
  const DivergenceOptions& options = parts_.config.divergence;
  if (of != options.of) return;
  count_loss(options, of == DivergenceLoss::loss ? "steps" : parts_.plan.evaluation(), loss, parts_.train_state.losses);
  diverged_ = has_diverged(options, parts_.train_state.losses);
}

void TrainingLoop::end_diverged() {
  const TrainState& now = parts_.train_state;
  const DivergenceOptions& options = parts_.config.divergence;
  const std::string text = divergence_text(options, now.losses);
  journal_.event({.step = now.step, .name = "diverged", .message = text});
  if (options.action == DivergenceAction::stop) {
    save(AfterSave::nothing);
    saves_.end(Promotions::AtEnd::all);
  }
  throw AgreedError(Error(ExitCode::numerics, fmt::format("step {}: {}", now.step, text),
                          "resume from an earlier checkpoint with a lower optimizer.lr (allow it in "
                          "checkpoint.allow_change), or disable the check by removing divergence.detector"),
                    0);
}

void TrainingLoop::end_with_best() {
  TrainState& now = parts_.train_state;
  const auto& ranked = now.best_evaluations.ranked;
  const bool is_last = saves_.saved_step() == now.step && !ranked.empty() && ranked.front().step == now.step;
  const std::int64_t step = is_last ? now.step : load_best_weights(parts_);
  if (step != now.step) {
    journal_.tell({.step = now.step,
                   .name = "best_loaded",
                   .message = fmt::format(
                       "loaded the best weights, those of step {}, for the final evaluation and samples", step)});
    evaluations_.measure_best(step);
  }
  TrainState shown = now;
  shown.step = step;  // records of texts name the step of the weights
  callbacks_.after_evaluation(view_of(shown));
}

void TrainingLoop::save(AfterSave after) {
  const ProfiledScope scope(profile_of(parts_.train_state.step), "save");
  saves_.save(after);
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
  const double now_s = run_seconds();
  return (saves_.due(now_s) ? Request::save : Request::none) | (log_clock_.due(now_s) ? Request::log : Request::none) |
         (statistics_.due(now_s) ? Request::statistics : Request::none) |
         (eval_clock_.due(now_s) && evaluation_delay_is_over() ? Request::evaluate : Request::none);
}

RunView TrainingLoop::view_of(const TrainState& state) const {
  const auto& documents = parts_.documents;
  const auto generation =
      std::ranges::find(documents, generation_config_file, &std::pair<std::string, std::string>::first);
  return {.session = parts_.session,
          .engine = parts_.engine,
          .model = parts_.model,
          .texts = parts_.plan.texts,
          .generation_config = generation == documents.end() ? std::string() : generation->second,
          .tokenizer = parts_.tokenizer,
          .train_state = state,
          .records = parts_.files.records(),
          .log = parts_.output.log()};
}

}  // namespace lockstep
