#include "train/calibrate.hpp"

#include "app/agreed_start.hpp"
#include "base/clock.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/together.hpp"
#include "data/data_loader.hpp"
#include "data/prefetcher.hpp"
#include "device/device.hpp"
#include "engine/engine.hpp"
#include "optim/loss_scale.hpp"
#include "optim/schedule.hpp"
#include "train/kept_run.hpp"
#include "train/nonfinite.hpp"
#include "train/plugin_parts.hpp"
#include "train/product_search.hpp"
#include "train/run_cost.hpp"
#include "train/run_journal.hpp"
#include "train/run_model.hpp"
#include "train/run_preparation.hpp"
#include "train/run_seed.hpp"
#include "train/run_setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

namespace lockstep {

namespace {

constexpr std::int64_t warmup_steps = 1;  // allocates memory and starts threads

/// The run whose steps are measured.
struct MeasuredRun {
  TrainConfig config;
  std::string data;
  bool knows_length = true;
};

/// Random tokens in place of a dataset that cannot be opened. Collective.
MeasuredRun run_to_measure(const TrainConfig& given, Communicator& world) {
  MeasuredRun run{.config = given, .data = "the training data"};
  TrainConfig& config = run.config;
  const std::string missing = run_on_rank0(world, "find the dataset", [&] {
    std::vector<std::string> reasons;
    for (const MissingData& one : missing_data(given)) reasons.push_back(to_text(one));
    return join(reasons, ", ");
  });
  if (!missing.empty()) {
    constexpr std::int64_t plenty = std::int64_t{1} << 32;
    run.data = fmt::format("random tokens: {}", missing);
    TrainingDataset random;
    random.path = DatasetChoice::dummy;
    random.samples = plenty;
    config.data.path.clear();
    config.data.prepared.reset();
    config.data.datasets = {random};
    config.data.shuffle_where.reset();
    config.eval = {};
    config.eval.at_end = false;
    config.checkpoint.load_best_at_end = false;
    config.checkpoint.best_dataset.reset();
  }
  run.knows_length = config.train.max_steps || (missing.empty() && config.train.epochs);
  if (run.knows_length) return run;
  config.train.epochs.reset();
  config.train.max_steps = warmup_steps + *config.calibrate;
  config.schedule = {};
  config.schedule.name = ScheduleName::constant;
  return run;
}

/// Steps of training without anything that a run does between them.
class StepTimer {
 public:
  StepTimer(const MeasuredRun& run, const TrainPlan& plan, RunState& state, Engine& engine, Session& session, Log& log)
      : config_(run.config),
        plan_(plan),
        state_(state),
        engine_(engine),
        session_(session),
        loader_(*plan.training_samples, plan.loader(config_, SampleUse::training, session.world().rank())),
        schedule_(schedule_of(config_, plan.length)),
        loss_of_user_(plugin_loss(config_.train.loss)),
        products_(config_, {}, session, log) {}

  Calibration measure(std::string data) {
    const std::int64_t steps = warmup_steps + *config_.calibrate;
    begin(steps);
    products_.begin(0);
    Meter::Settings settings = meter_settings(config_, plan_);
    settings.speed_from_step = warmup_steps + 1;
    Meter meter(settings, monotonic_seconds());
    std::vector<double> ends{monotonic_seconds()};
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t samples = samples_, tokens = valid_tokens_;
      run_step(step, step + 1 == steps);
      products_.after_step(step + 1);
      ends.push_back(monotonic_seconds());
      meter.count(ends.back(), samples, tokens, 0);
    }
    return agree(std::move(data), ends, meter.speed().value());
  }

 private:
  /// Makes the first batch, and counts it over all ranks. Collective.
  void begin(std::int64_t steps) {
    Communicator& world = session_.world();
    session_.enter(Phase::data, 0);
    together(world, "read the samples of the first step", [&] {
      prefetcher_.emplace(loader_, Prefetcher::Settings{.step = 0, .end_step = steps, .ahead = config_.data.prefetch},
                          [this](std::int64_t step) { session_.inject_error(Phase::data, step); });
      batch_ = prefetcher_->take();
    });
    const bool counts = engine_.counts_batch();
    valid_tokens_ = world.all_reduce(counts ? batch_.valid_tokens : 0, Reduce::sum);
    samples_ = world.all_reduce(counts ? batch_.samples : 0, Reduce::sum);
  }

  /// Collective.
  void run_step(std::int64_t step, bool is_last) {
    session_.enter(Phase::data, step);
    LossScale& scale = state_.train_state.loss_scale;
    StepBatch next;
    std::exception_ptr failure;  // of this rank: the heartbeat makes it that of all
    try {
      if (!is_last) next = prefetcher_->take();
    } catch (...) {
      failure = std::current_exception();
    }
    next.uses.resize(plan_.training.size());
    StepOrder order{.step = step,
                    .valid_tokens = valid_tokens_,
                    .samples = samples_,
                    .lr = learning_rate(schedule_, std::min(step, plan_.length.steps - 1)),
                    .seed = static_cast<std::uint64_t>(config_.train.seed),
                    .loss = {config_.train.label_smoothing, loss_of_user_ ? &*loss_of_user_ : nullptr},
                    .loss_scale = scale.scale,
                    .skipped = skipped_,
                    .next_valid_tokens = next.valid_tokens,
                    .next_samples = next.samples,
                    .next_uses = next.uses,
                    .failure = failure};
    const StepOutcome outcome = engine_.run_step(batch_, order);
    this_device().wait(this_device().record(DeviceQueue::compute));  // the update belongs to the step
    if (!outcome.updated) ++skipped_;
    if (scales_loss(config_)) scale = after_step(scale, config_.precision.loss_scale, outcome.updated);
    batch_ = std::move(next);
    valid_tokens_ = outcome.next_valid_tokens;
    samples_ = outcome.next_samples;
  }

  /// Collective.
  Calibration agree(std::string data, const std::vector<double>& ends, const Meter::Speed& speed) {
    Communicator& world = session_.world();
    Calibration calibration{.data = std::move(data),
                            .step_s = {},
                            .warmup_steps = warmup_steps,
                            .tokens_per_s = speed.tokens_per_s,
                            .mfu = speed.mfu,
                            .peak_bytes = {}};
    for (std::size_t i = 1 + warmup_steps; i < ends.size(); ++i) calibration.step_s.push_back(ends[i] - ends[i - 1]);
    const double mean = (ends.back() - ends[warmup_steps]) / static_cast<double>(calibration.step_s.size());
    world.all_reduce(calibration.step_s, Reduce::max);
    const double of_mean = mean / median_of(calibration.step_s);  // the speeds are those of the median step
    calibration.tokens_per_s *= of_mean;
    if (calibration.mfu) *calibration.mfu *= of_mean;
    for (const std::string& kib : world.all_gather(std::to_string(holdings_of_process().peak_kib)))
      calibration.peak_bytes.push_back(std::stoll(kib) * 1024);
    return calibration;
  }

  const TrainConfig& config_;
  const TrainPlan& plan_;
  RunState& state_;
  Engine& engine_;
  Session& session_;
  TrainingDataLoader loader_;
  Schedule schedule_;
  std::optional<RowLoss> loss_of_user_;
  ProductSearch products_;
  std::optional<Prefetcher> prefetcher_;
  StepBatch batch_;
  std::int64_t valid_tokens_ = 0, samples_ = 0;  // of batch_, over all ranks
  std::int64_t skipped_ = 0;
};

/// Other ranks may wait in the middle of a step that fails: their watchdogs must not explain it.
Calibration measure_steps(const MeasuredRun& run, const TrainPlan& plan, RunState& state, Engine& engine,
                          Session& session, Log& log) {
  try {
    return StepTimer(run, plan, state, engine, session, log).measure(run.data);
  } catch (...) {
    session.claim_report();
    throw;
  }
}

}  // namespace

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<Row> calibration_rows(const Calibration& calibration) {
  std::vector<Row> rows;
  const auto add = [&](std::string key, std::string label, decltype(Row::value) value, std::string text) {
    rows.push_back({"measured", std::move(key), std::move(label), std::move(value), std::move(text)});
  };
  const auto [least, most] = std::ranges::minmax(calibration.step_s);
  const double median = median_of(calibration.step_s);
  add("data", "data", calibration.data, calibration.data);
  add("step_s", "time of a step", median,
      fmt::format("{}, median of {} after {} of warm-up", human_seconds(median),
                  counted(std::ssize(calibration.step_s), "step"), counted(calibration.warmup_steps, "step")));
  add("step_s_min", "fastest step", least, human_seconds(least));
  add("step_s_max", "slowest step", most,
      fmt::format("{}, spread {:.1f} % of the median", human_seconds(most), 100 * (most - least) / median));
  add("tokens_per_s", "tokens per second", calibration.tokens_per_s, human_count(calibration.tokens_per_s));
  if (calibration.mfu)
    add("mfu", "utilisation (MFU)", *calibration.mfu, fmt::format("{:.3g} %", 100 * *calibration.mfu));
  const auto bytes_text_of = [](std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); };
  const auto peak = std::ranges::max_element(calibration.peak_bytes);
  const std::ptrdiff_t owner = peak - calibration.peak_bytes.begin();
  add("peak_memory_bytes", "peak memory", *peak,
      calibration.peak_bytes.size() == 1 ? bytes_text_of(*peak)
                                         : fmt::format("{}, on rank {}", bytes_text_of(*peak), owner));
  for (std::size_t rank = 0; calibration.peak_bytes.size() > 1 && rank < calibration.peak_bytes.size(); ++rank)
    add(fmt::format("peak_memory_bytes_rank_{}", rank), fmt::format("peak memory, rank {}", rank),
        calibration.peak_bytes[rank], bytes_text_of(calibration.peak_bytes[rank]));
  return rows;
}

int calibrate(const TrainConfig& given, Session& session, Output& output) {
  Communicator& world = session.world();
  session.configure(session_settings(given, {}));  // no folder: nothing is written
  agree_on_start(world, output.settings());
  const Machines machines = set_up_machines(given, world);
  TrainConfig placed;
  together(world, "lay out the ranks", [&] { placed = with_nodes_filled(given, machines.placement.nodes); });
  const MeasuredRun run =
      run_to_measure(with_kept_multiple(with_prepared_data(with_local_model(with_seed(placed, world), session),
                                                           WithoutPrepared::tell, session, output),
                                        world),
                     world);
  TrainPlan plan = agree_on_plan(run.config, world);
  std::optional<RunState> state;
  together(world, "make the model", [&] {
    session.enter(Phase::start_up);
    TrainConfig without_callbacks = run.config;
    without_callbacks.train.callbacks.clear();
    state.emplace(without_callbacks, plan, world.rank());
  });
  state->fill(run.config, plan, world_of(plan, machines), {}, session, output.log());
  Transport transport = make_transport(session, plan.programs);
  Engine engine(state->model, *state->optimizer, plan.programs, session, transport, run.config.optimizer.clip_norm,
                plan.types.reduce);
  if (world.rank() == 0)
    for (const std::string& warning : warnings_on(run.config, plan)) output.log().warning("{}", warning);
  const Calibration measured = measure_steps(run, plan, *state, engine, session, output.log());
  together(world, "print the cost",
           [&] { session.enter(Phase::shutdown, static_cast<std::int64_t>(measured.step_s.size())); });
  together(world, "print the cost", [&] {
    if (world.rank() != 0) return;
    if (!run.knows_length) plan.length = {};
    std::vector<Row> rows = calibration_rows(measured);
    std::ranges::move(cost_rows(run.config, plan, machines.placement, median_of(measured.step_s)),
                      std::back_inserter(rows));
    if (output.common().json)
      output.print_json(to_json(rows));
    else
      output.print(to_text(rows));
  });
  return 0;
}

}  // namespace lockstep
