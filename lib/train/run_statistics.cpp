#include "train/run_statistics.hpp"

#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/run_clock.hpp"
#include "comm/together.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

/// Of what cells have apart the norm is the root mean square of theirs.
double norm_of(const Statistics& statistics, int cells) { return statistics.norm() / std::sqrt(cells); }

std::int64_t nonfinite(const Statistics& statistics) { return statistics.nan + statistics.infinite; }

std::int64_t elements(const Statistics& statistics) { return statistics.finite + nonfinite(statistics); }

StatisticsRecord record_of(std::int64_t step, const char* of, const TensorStatistics& taken, int cells) {
  Json tensors = Json::object();
  for (const auto& [name, one] : taken.tensors())
    tensors[name] = {{"elements", elements(one)},
                     {"norm", norm_of(one, cells)},
                     {"mean", one.mean},
                     {"std", one.deviation()},
                     {"min", one.min},
                     {"max", one.max},
                     {"zeros", one.zeros},
                     {"nonfinite", nonfinite(one)}};
  const Statistics all = taken.whole();
  return {.step = step,
          .of = of,
          .elements = elements(all),
          .norm = norm_of(all, cells),
          .mean = all.mean,
          .std = all.deviation(),
          .min = all.min,
          .max = all.max,
          .zeros = all.zeros,
          .nonfinite = nonfinite(all),
          .tensors = std::make_shared<Json>(std::move(tensors))};
}

}  // namespace

RunStatistics::RunStatistics(const Parts& parts, double now_s) : parts_(parts), clock_(cadence(), now_s) {}

const Cadence& RunStatistics::cadence() const {
  const LogOptions& log = parts_.config.log;
  return log.statistics_every ? *log.statistics_every : log.every;
}

bool RunStatistics::asks_for(MeasuredTensors tensors) const {
  return std::ranges::find(parts_.config.log.statistics, tensors) != parts_.config.log.statistics.end();
}

bool RunStatistics::due(double now_s) const { return !parts_.config.log.statistics.empty() && clock_.due(now_s); }

void RunStatistics::asked(double now_s) {
  asked_ = true;
  clock_.done(now_s);
}

std::shared_ptr<TensorStatistics> RunStatistics::begin_step(const TrainState& now, DataPosition next) {
  const bool due = due_after(cadence(), now.step + 1, now.position, next, parts_.plan.samples_per_epoch);
  const bool asked = std::exchange(asked_, false);
  taken_ = !parts_.config.log.statistics.empty() && (due || asked);
  if (!taken_ || !asks_for(MeasuredTensors::gradients)) return nullptr;
  std::vector<LogicalTensor> trained = stored_tensors(parts_.plan.architecture);
  std::erase_if(trained, [](const LogicalTensor& tensor) { return !tensor.trained; });
  return std::make_shared<TensorStatistics>(trained);
}

void RunStatistics::end_step(const TrainState& now, TensorStatistics* gradients, double loss_scale) {
  if (!taken_) return;
  const double start_s = monotonic_seconds();
  Communicator& world = parts_.session.world();
  const bool of_weights = asks_for(MeasuredTensors::weights);
  std::optional<AveragedWeights> average;
  if (of_weights) average.emplace(parts_.cells, parts_.engine, parts_.session, now.step);
  TensorStatistics weights(of_weights ? stored_tensors(parts_.plan.architecture) : std::vector<LogicalTensor>{});
  together(world, "take statistics", [&] {
    parts_.session.enter(Phase::statistics, now.step);
    if (of_weights) add_weights(weights, parts_.model, world.rank());
  });
  average.reset();
  if (gradients != nullptr) {
    gradients->scale(1 / loss_scale);
    gradients->sum_over(world);
    const int cells = cell_count(parts_.plan.programs.pick(now.step - 1, ProgramPhase::training));
    parts_.journal.statistics(record_of(now.step, "gradients", *gradients, cells));
  }
  if (of_weights) {
    weights.sum_over(world);
    parts_.journal.statistics(record_of(now.step, "weights", weights, 1));
  }
  clock_.done(run_seconds());
  parts_.journal.exclude(monotonic_seconds() - start_s);
}

}  // namespace lockstep
