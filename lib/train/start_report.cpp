#include "train/start_report.hpp"

#include "base/json.hpp"
#include "base/words.hpp"
#include "comm/failure.hpp"
#include "report/build_info.hpp"
#include "tensor/runtime.hpp"
#include "train/early_stop.hpp"
#include "train/run_mesh.hpp"

#include <set>

namespace lockstep {

namespace {

/// Of documents into rows, by use; null where samples are windows. Of several datasets by name.
std::shared_ptr<const Json> packing_of_run(const TrainConfig& config, const TrainPlan& plan) {
  const auto facts = [](bool by_name, const std::vector<const RunDataset*>& datasets) {
    Json all;
    for (const RunDataset* dataset : datasets) {
      const Json one = packing_facts(*dataset->samples);
      if (one.is_null()) continue;
      if (by_name)
        all[dataset->name] = one;
      else
        all = one;
    }
    return all;
  };
  std::vector<const RunDataset*> training, evaluated;
  for (const RunDataset& dataset : plan.training) training.push_back(&dataset);
  for (const EvaluationPlan& evaluation : plan.evaluations) evaluated.push_back(&evaluation.set);
  const Json of_training = facts(!config.data.datasets.empty(), training);
  const Json of_evaluation = facts(names_evaluations(config), evaluated);
  if (of_training.is_null() && of_evaluation.is_null()) return nullptr;
  return std::make_shared<Json>(Json{{"training", of_training}, {"evaluation", of_evaluation}});
}

/// Of the training datasets that have masks; null: none has. Of several datasets by name.
std::shared_ptr<const Json> labels_of_run(const TrainConfig& config, const TrainPlan& plan) {
  Json all;
  for (const RunDataset& dataset : plan.training) {
    if (!dataset.labels) continue;
    if (config.data.datasets.empty())
      all = label_facts(*dataset.labels);
    else
      all[dataset.name] = label_facts(*dataset.labels);
  }
  return all.is_null() ? nullptr : std::make_shared<Json>(std::move(all));
}

RunRecord run_record(const TrainConfig& config, const TrainPlan& plan, const Settings& settings,
                     const Machines& machines, const TrainState& start, const std::optional<Path>& resumed) {
  Json build = Json::object();
  for (const auto& [key, value] : build_info()) build[key] = value;
  Json mesh = Json::object();
  for (const Axis& axis : plan.mesh.axes) mesh[axis.name] = axis.size;
  for (const Axis& axis : plan.mesh.expert_axes)
    if (axis.size > 1) mesh[axis.name] = axis.size;
  const std::set<std::string> distinct(machines.hosts.begin(), machines.hosts.end());
  const std::int64_t tokens_per_step = plan.batch.global_batch * config.data.sequence_length;
  return {.tool = "train",
          .version = std::string(version()),
          .build = std::make_shared<Json>(std::move(build)),
          .config = std::make_shared<Json>(to_json(settings)),
          .mesh = std::make_shared<Json>(std::move(mesh)),
          .run_dir = config.train.run_dir,
          .ranks = plan.ranks,
          .hosts = {distinct.begin(), distinct.end()},
          .threads_per_rank = machines.threads,
          .arithmetic = describe_arithmetic(),
          .parameters = parameter_count(plan.architecture),
          .steps = plan.length.steps,
          .global_batch = plan.batch.global_batch,
          .tokens_per_step = tokens_per_step,
          .flops_per_step = plan.flops_per_token * static_cast<double>(tokens_per_step),
          .packing = packing_of_run(config, plan),
          .labels = labels_of_run(config, plan),
          .start_step = start.step,
          .resumed_from = resumed ? std::optional(resumed->string()) : std::nullopt};
}

/// What a start says before its first step; of a run that has finished, only that.
void log_start(const TrainConfig& config, const TrainPlan& plan, const Machines& machines, const TrainState& start,
               const std::optional<Path>& resumed, Log& log) {
  if (is_finished(config, plan, start)) {
    log.info("nothing to do: step {} of {} is done{}, in {}", start.step, plan.length.steps,
             start.step < plan.length.steps ? " and eval.patience has ended the run" : "", resumed->string());
    return;
  }
  for (const std::string& note : notes_on(config, plan)) log.info("{}", note);
  for (const std::string& warning : placement_warnings(plan.mesh, machines.placement.nodes)) log.warning("{}", warning);
  for (const std::string& warning : warnings_on(config, plan)) log.warning("{}", warning);
  if (!plan.no_snapshot.empty())
    log.info("training waits for saves, because memory has no room for snapshots: {}", plan.no_snapshot);
  if (resumed) log.info("{} {}", start.step > 0 ? "resuming from" : "starting with the weights of", resumed->string());
  std::vector<Row> rows = rows_of(config, plan, machines.placement);
  std::erase_if(rows, [](const Row& row) { return row.section == "cost"; });  // of a job that has its machines
  if (!config.plan) rows = brief(rows);
  for (const std::string& device : machines.devices.of_ranks) {
    const auto rank = &device - machines.devices.of_ranks.data();
    rows.push_back({.section = "devices",
                    .key = fmt::format("rank_{}", rank),
                    .label = fmt::format("rank {}", rank),
                    .value = device,
                    .text = device});
  }
  if (const std::string& transport = machines.devices.transport; !transport.empty())
    rows.push_back(
        {.section = "devices", .key = "transport", .label = "exchange", .value = transport, .text = transport});
  std::string text = to_text(rows);
  text.pop_back();  // a log line brings its own end
  log.info("{} per rank, {}, on {}; this run:\n{}", counted(machines.threads, "thread"), describe_arithmetic(),
           machines.devices.chosen, text);
}

/// Rank 0 records it, and the rank whose node has none says it.
void warn_of_no_tier(const AgreedError& failure, std::int64_t step, int rank, RunFiles& files, Log& log) {
  const std::string message =
      fmt::format("{}\n  the run has no local tier: saves go directly to {}", failure.what(), files.folder().string());
  if (rank == failure.owner()) log.warning("{}", message);
  if (rank == 0) files.records().write(EventRecord{.step = step, .name = "local_tier_unusable", .message = message});
}

}  // namespace

void report_start(const StartFacts& facts, int rank, RunFiles& files, Log& log) {
  const auto& [given, config, plan, settings, machines, state, begun, resumes, unexplained_end] = facts;
  if (rank == 0) {
    if (!resumes.empty()) log.info("{}", resumes);
    log_start(config, plan, machines, state, begun.checkpoint, log);
    files.records().write(run_record(config, plan, settings, machines, state, begun.checkpoint));
    if (given.train.seed != config.train.seed) log.info("the seed of this run is {}", config.train.seed);
    for (const Difference& change : begun.changed) {
      const std::string message = fmt::format("{}: changed from {} to {}", change.option, change.saved, change.now);
      log.info("{}", message);
      files.records().write(EventRecord{.step = state.step, .name = "option_changed", .message = message});
    }
    if (!unexplained_end.empty()) {
      log.warning("{}", unexplained_end);
      files.records().write(EventRecord{.step = state.step, .name = "unexplained_end", .message = unexplained_end});
    }
  }
  if (const auto& failure = files.tier_failure()) warn_of_no_tier(*failure, state.step, rank, files, log);
}

}  // namespace lockstep
