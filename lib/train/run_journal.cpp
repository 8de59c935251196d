#include "train/run_journal.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "config/log_check.hpp"
#include "train/nonfinite.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep {

namespace {

/// The samples before a start, by the position in the data.
std::int64_t samples_before(const TrainPlan& plan, const TrainState& start) {
  return start.position.epoch * plan.samples_per_epoch + start.position.sample;
}

/// A log without records has a line for each step record instead.
Progress::Style style_of(const TrainConfig& config, When progress) {
  const Progress::Style style = progress_style(progress, STDERR_FILENO);
  const bool each = style == Progress::Style::lines && config.log.records == RecordOutput::file;
  return each ? Progress::Style::each_update : style;
}

/// What records tell of a number: so many digits, that lists of them are short.
double rounded(double value) { return std::round(value * 1e4) / 1e4; }

/// How the choices of a step's tokens fall on experts, by layer.
struct ExpertShares {
  std::vector<double> entropy, largest;
};
ExpertShares shares_of(const std::vector<double>& loads, std::int64_t experts) {
  ExpertShares shares;
  for (auto layer = loads.begin(); layer != loads.end(); layer += experts) {
    const double all = std::accumulate(layer, layer + experts, 0.0);
    double entropy = 0;
    for (auto load = layer; load != layer + experts; ++load)
      if (*load > 0) entropy -= *load / all * std::log(*load / all);
    shares.entropy.push_back(experts == 1 ? 1 : rounded(entropy / std::log(static_cast<double>(experts))));
    shares.largest.push_back(all > 0 ? rounded(*std::max_element(layer, layer + experts) / all) : 0);
  }
  return shares;
}

}  // namespace

Meter::Settings meter_settings(const TrainConfig& config, const TrainPlan& plan) {
  Meter::Settings settings{.last_step = plan.length.steps,
                           .flops_per_token = plan.flops_per_token,
                           .peak_flops_per_s = {},
                           .speed_from_step = config.log.speed_from_step};
  if (const auto peak = peak_flops_per_s(config)) settings.peak_flops_per_s = *peak * plan.ranks;
  return settings;
}

RunJournal::RunJournal(const TrainConfig& config, const TrainPlan& plan, Output& output, RunFiles& files, int rank,
                       const TrainState& start, double began_s)
    : config_(config),
      plan_(plan),
      output_(output),
      files_(files),
      rank_(rank),
      before_(start.before.value_or(RunTotals{.samples = samples_before(plan, start)})),
      began_s_(began_s),
      meter_(meter_settings(config, plan), monotonic_seconds()) {
  if (rank != 0) return;
  const Progress::Settings settings{.what = "progress",
                                    .unit = "steps",
                                    .total = static_cast<double>(plan.length.steps),
                                    .style = style_of(config, output.common().progress)};
  progress_ = std::make_unique<Progress>(output.log(), settings);
}

RunJournal::~RunJournal() = default;

void RunJournal::count(const TrainState& now, const StepOutcome& outcome, std::int64_t samples,
                       std::int64_t valid_tokens, double data_wait_s) {
  if (first_step_ == 0) first_step_ = now.step;
  meter_.count(monotonic_seconds(), samples, outcome.updated ? valid_tokens : 0, data_wait_s);
  if (!outcome.updated) return;
  loss_sum_ += outcome.loss;
  ++losses_;
  look_for_spike(now, outcome.loss);
}

RunTotals RunJournal::totals_of_start() const {
  return {.wall_s = monotonic_seconds() - began_s_,
          .samples = meter_.samples(),
          .losses = losses_,
          .loss_sum = loss_sum_,
          .timed = meter_.timed()};
}

RunJournal::Summaries RunJournal::sum_up(const TrainState& now, SummaryRecord facts) const {
  facts.epoch = epoch_of(now);
  facts.positions = positions();
  facts.flops = plan_.flops_per_token * static_cast<double>(now.tokens);
  Summaries summaries{facts, std::move(facts)};
  const RunTotals of_start = totals_of_start();
  put(of_start, summaries.start);
  put(before_ + of_start, summaries.run);
  return summaries;
}

void RunJournal::put(const RunTotals& totals, SummaryRecord& record) const {
  record.wall_s = totals.wall_s;
  record.samples = totals.samples;
  if (totals.losses > 0) record.mean_loss = totals.loss_sum / static_cast<double>(totals.losses);
  const std::optional<Meter::Speed> speed = meter_.speed_of(totals.timed);
  if (!speed) return;
  record.speed_from_step = first_step_ + config_.log.speed_from_step - 1;
  record.steps_per_s = speed->steps_per_s;
  record.samples_per_s = speed->samples_per_s;
  record.tokens_per_s = speed->tokens_per_s;
  record.flops_per_s = speed->flops_per_s;
  record.mfu = speed->mfu;
}

double RunJournal::epoch_of(const TrainState& now) const {
  return static_cast<double>(now.position.epoch) +
         static_cast<double>(now.position.sample) / static_cast<double>(plan_.samples_per_epoch);
}

void RunJournal::look_for_spike(const TrainState& now, double loss) {
  const std::optional<double> limit = recent_losses_.limit();
  recent_losses_.add(loss);
  if (!limit || loss <= *limit) return;
  warn({.step = now.step,
        .name = "loss_spike",
        .message = fmt::format("loss {:.4f} is far above the last {} losses: mean + {} standard deviations is {:.4f}",
                               loss, LossWindow::capacity, LossWindow::deviations, *limit),
        .loss = loss,
        .limit = limit});
}

void RunJournal::step(const TrainState& now, const StepOutcome& outcome, const StepOrder& order, double fill) {
  if (rank_ != 0) return;
  const Meter::Reading reading = meter_.read(monotonic_seconds(), now.step);
  const bool has_experts = !outcome.expert_loads.empty();
  const ExpertShares shares = shares_of(outcome.expert_loads, plan_.architecture.config.experts.count);
  files_.records().write(StepRecord{.step = now.step,
                                    .loss = outcome.loss,
                                    .aux_loss = outcome.aux_loss,
                                    .lr = order.lr,
                                    .grad_norm = outcome.gradient_norm,
                                    .loss_scale = scales_loss(config_) ? std::optional(order.loss_scale) : std::nullopt,
                                    .tokens = now.tokens,
                                    .tokens_per_s = reading.tokens_per_s,
                                    .step_ms = reading.step_ms,
                                    .fill = fill,
                                    .data_wait_ms = reading.data_wait_ms,
                                    .mfu = reading.mfu,
                                    .eta_s = reading.eta_s,
                                    .epoch = epoch_of(now),
                                    .datasets = plan_.uses_by_name(config_, now),
                                    .expert_entropy = has_experts ? std::optional(shares.entropy) : std::nullopt,
                                    .expert_share = has_experts ? std::optional(shares.largest) : std::nullopt,
                                    .expert_dropped = has_experts ? std::optional(std::int64_t{0}) : std::nullopt});
  tell_step(now, outcome, order, reading);
}

void RunJournal::tell_step(const TrainState& now, const StepOutcome& outcome, const StepOrder& order,
                           const Meter::Reading& reading) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  if (config_.log.format == LogFormat::structured)
    return output_.log().info_with(fmt::format("step {} of {}", now.step, plan_.length.steps),
                                   {{"step", now.step},
                                    {"steps", plan_.length.steps},
                                    {"loss", number(outcome.loss)},
                                    {"grad_norm", number(outcome.gradient_norm)},
                                    {"lr", order.lr},
                                    {"tflops", reading.tokens_per_s * plan_.flops_per_token / 1e12},
                                    {"mfu", reading.mfu ? Json(*reading.mfu) : Json(nullptr)},
                                    {"tokens_per_s", reading.tokens_per_s},
                                    {"step_ms", reading.step_ms},
                                    {"eta_s", reading.eta_s ? Json(*reading.eta_s) : Json(nullptr)}});
  const double positions_per_s = reading.samples_per_s * static_cast<double>(config_.data.sequence_length);
  const std::string detail = fmt::format("loss {:.4f}, {} tokens/s, {:.0f} ms a step", outcome.loss,
                                         human_count(positions_per_s), reading.step_ms);
  progress_->update(static_cast<double>(now.step), detail);
}

void RunJournal::statistics(const StatisticsRecord& record) {
  if (rank_ == 0) files_.records().write(record);
}

void RunJournal::evaluation(const EvalRecord& record) {
  if (rank_ != 0) return;
  files_.records().write(record);
  output_.log().info("step {}: {} loss {:.4f}{}", record.step, record.name.value_or("validation"), record.loss,
                     record.best.value_or(false) ? ", the best so far" : "");
}

void RunJournal::saved(const SaveReport& report, double seconds, int waves) {
  if (rank_ != 0) return;
  CheckpointRecord record{.step = report.step,
                          .path = report.path.string(),
                          .bytes = static_cast<std::int64_t>(report.bytes),
                          .compared_bytes = static_cast<std::int64_t>(report.compared_bytes),
                          .state_digest = to_hex(report.state_digest),
                          .save_ms = seconds * 1e3,
                          .background_ms = waves > 0 ? std::optional(report.seconds * 1e3) : std::nullopt,
                          .removed = {}};
  for (const std::int64_t step : report.pruned)
    record.removed.push_back((report.path.parent_path() / checkpoint_folder({}, step).filename()).string());
  files_.records().write(record);
  std::string took = human_seconds(waves > 0 ? report.seconds : seconds);
  if (waves > 0) took += fmt::format(", training paused for {}", human_seconds(seconds));
  if (waves > 1) took += fmt::format(" for {} copies, one after the other", waves);
  output_.log().info("saved {} ({} in {})", report.path.string(), human_bytes(report.bytes), took);
  if (!report.problem.empty())
    output_.log().warning("the checkpoint is sound, but the cleanup is incomplete: {}", report.problem);
}

void RunJournal::promoted(const PromotionReport& report) {
  if (rank_ != 0) return;
  const std::string message = fmt::format("promoted {} ({} in {})", report.path.string(), human_bytes(report.bytes),
                                          human_seconds(report.seconds));
  files_.records().write(EventRecord{.step = report.step, .name = "promoted", .message = message});
  output_.log().info("{}", message);
  if (!report.problem.empty())
    output_.log().warning("the checkpoint is sound, but the cleanup is incomplete: {}", report.problem);
}

void RunJournal::profiled(const Profile& profile) {
  if (rank_ != 0) return;
  try {
    profile.report(files_.records(), output_.log());
  } catch (const Error& error) {
    warn({.step = {}, .name = "profile_failed", .message = fmt::format("the profile is incomplete: {}", error.what())});
  }
}

void RunJournal::event(const EventRecord& event) {
  if (rank_ == 0) files_.records().write(event);
}

void RunJournal::tell(const EventRecord& event) {
  this->event(event);
  if (rank_ == 0) output_.log().info("step {}: {}", *event.step, event.message);
}

void RunJournal::warn(const EventRecord& event, int owner) {
  this->event(event);
  say(event, owner);
}

void RunJournal::say(const EventRecord& event, int owner) {
  if (rank_ != owner) return;
  output_.log().warning("{}{}", event.step ? fmt::format("step {}: ", *event.step) : "", event.message);
}

}  // namespace lockstep
