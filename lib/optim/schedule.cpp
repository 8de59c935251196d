#include "optim/schedule.hpp"

#include "base/error.hpp"
#include "plugin/plugins.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep {

namespace {

/// How much of a way of so many steps lies behind; all of it at its end, or where there are none.
double part_of(std::int64_t done, std::int64_t steps) {
  if (done <= 0 && steps > 0) return 0;
  if (done >= steps) return 1;
  return static_cast<double>(done) / static_cast<double>(steps);
}

double half_cosine(double part) { return 0.5 * (1 + std::cos(std::numbers::pi * part)); }

double between(double low, double high, double part) { return low + part * (high - low); }

double cosine_left(double part, std::int64_t cycles) {
  if (part >= 1) return 0;
  const double turns = part * static_cast<double>(cycles);
  return half_cosine(turns - std::floor(turns));
}

double cooldown_left(CooldownShape shape, double part) {
  switch (shape) {
    case CooldownShape::linear: return 1 - part;
    case CooldownShape::cosine: return half_cosine(part);
    case CooldownShape::sqrt: return 1 - std::sqrt(part);
  }
  fail(ExitCode::bug, "unknown CooldownShape {}", static_cast<int>(shape));
}

std::int64_t warmup_counts_from(const ScheduleOptions& options) {
  switch (options.warmup_from) {
    case WarmupFrom::one: return 1;
    case WarmupFrom::zero: return 0;
  }
  fail(ExitCode::bug, "unknown WarmupFrom {}", static_cast<int>(options.warmup_from));
}

double inverse_root(const Schedule& schedule, std::int64_t step) {
  constexpr std::int64_t usual = 10000;
  const std::int64_t warmup = schedule.length.warmup_steps;
  const auto scale = static_cast<double>(schedule.options.timescale.value_or(warmup > 0 ? warmup : usual));
  return std::sqrt(scale / (static_cast<double>(step - warmup) + scale));
}

double infinite_rate(const Schedule& schedule, double decayed, double cooled) {
  const double constant = schedule.options.constant_lr.value_or(0);
  if (cooled > 0) return constant * std::pow(schedule.options.min_lr / constant, cooled);
  return between(constant, schedule.peak, half_cosine(decayed));
}

/// What a plug-in says, of which make_train_plan has seen that it is a rate.
double rate_of_plugin(const PluginEntry<lockstep_schedule>& entry, const Schedule& schedule, std::int64_t step) {
  const auto& [options, peak, length] = schedule;
  const lockstep_schedule_facts facts{.peak = peak,
                                      .start = options.start_lr,
                                      .min = options.min_lr,
                                      .warmup_steps = length.warmup_steps,
                                      .decay_steps = length.decay_steps,
                                      .steps = length.steps};
  return entry.table->rate(entry.plugin->values(), &facts, step);
}

}  // namespace

Schedule schedule_of(const TrainConfig& config, const RunLength& length) {
  return {.options = config.schedule, .peak = config.optimizer.lr, .length = length};
}

double learning_rate(const Schedule& schedule, std::int64_t step) {
  const auto& [options, peak, length] = schedule;
  const std::int64_t warmup = length.warmup_steps;
  if (step < warmup) return between(options.start_lr, peak, part_of(step + warmup_counts_from(options), warmup));
  if (const auto of_plugin = plugin_index(options.name))
    return rate_of_plugin(Plugins::opened().schedules().at(*of_plugin), schedule, step);
  const double decayed = part_of(step - warmup, length.decay_steps - warmup);
  const std::int64_t cooling = step - steps_before_cooldown(options.name, length);
  const double cooled = cooling < 0 ? 0 : part_of(cooling, length.cooldown_steps);
  switch (options.name) {
    case ScheduleName::constant: return peak;
    case ScheduleName::linear: return between(options.min_lr, peak, 1 - decayed);
    case ScheduleName::cosine: return between(options.min_lr, peak, cosine_left(decayed, options.cycles.value()));
    case ScheduleName::polynomial: return between(options.min_lr, peak, std::pow(1 - decayed, options.power.value()));
    case ScheduleName::inverse_sqrt: return std::max(options.min_lr, peak * inverse_root(schedule, step));
    case ScheduleName::wsd: return between(options.min_lr, peak, cooldown_left(options.cooldown_shape.value(), cooled));
    case ScheduleName::infinite: return infinite_rate(schedule, decayed, length.cooldown_steps > 0 ? cooled : 0);
  }
  fail(ExitCode::bug, "unknown ScheduleName {}", static_cast<int>(options.name));
}

void require_rates(const Schedule& schedule) {
  const auto of_plugin = plugin_index(schedule.options.name);
  if (!of_plugin) return;
  const PluginEntry<lockstep_schedule>& entry = Plugins::opened().schedules().at(*of_plugin);
  for (std::int64_t step = 0; step < schedule.length.steps; ++step) {
    const double rate = learning_rate(schedule, step);
    if (!std::isfinite(rate) || rate < 0)
      throw Error(
          ExitCode::usage,
          fmt::format("the schedule {} of {} returns {} for step {}: a learning rate must be finite and not negative",
                      entry.table->name, entry.plugin->file(), rate, step),
          "--plot-schedule shows the learning rates");
  }
}

}  // namespace lockstep
