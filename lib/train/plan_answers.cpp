#include "train/plan_answers.hpp"

#include "app/agreed_start.hpp"
#include "base/checked_cast.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "comm/device_operations.hpp"
#include "comm/together.hpp"
#include "config/log_check.hpp"
#include "config/start_up.hpp"
#include "optim/schedule.hpp"
#include "program/layout_text.hpp"
#include "program/plot.hpp"
#include "report/curve.hpp"
#include "report/terminal.hpp"
#include "train/component_table.hpp"
#include "train/groups_text.hpp"
#include "train/kept_run.hpp"
#include "train/memory_check.hpp"
#include "train/run_device.hpp"
#include "train/run_mesh.hpp"
#include "train/run_model.hpp"
#include "train/run_preparation.hpp"
#include "train/run_setup.hpp"

#include <algorithm>

namespace lockstep {

namespace {

int ranks_planned(const TrainConfig& config, int started) {
  if (!config.world_size) return ranks_of(config.parallel, started);
  return checked_cast<int>(*config.world_size, "--world-size", ExitCode::usage);
}

/// Where the ranks of the plan would run, as far as that is known.
Placement placement_planned(const TrainConfig& config, const Machines& machines, int ranks) {
  if (config.ranks_per_node)
    return {full_nodes(ranks, checked_cast<int>(*config.ranks_per_node, "--ranks-per-node", ExitCode::usage)), {}};
  return std::ssize(machines.hosts) == ranks ? machines.placement : Placement{};
}

/// The same before it is known how many ranks there are: one node stands for all.
Nodes nodes_planned(const TrainConfig& config, const Machines& machines) {
  if (config.ranks_per_node) {
    const int ranks = checked_cast<int>(*config.ranks_per_node, "--ranks-per-node", ExitCode::usage);
    return full_nodes(ranks, ranks);
  }
  return config.world_size ? Nodes{} : machines.placement.nodes;
}

Rank chosen_rank(const TrainConfig& config) { return checked_cast<Rank>(*config.rank, "--rank", ExitCode::usage); }

/// The step program that was asked for by name; null if none was.
const StepProgram* named_program(const TrainConfig& config, const TrainPlan& plan) {
  if (!config.program) return nullptr;
  std::vector<std::string> names;
  for (const StepProgram* program : plan.programs.all()) {
    if (program->name == *config.program) return program;
    names.push_back(program->name);
  }
  throw Error(ExitCode::usage,
              fmt::format("the run has no program '{}': its programs are {}", *config.program, join(names, ", ")),
              "eval needs a dataset with a validation split, sample the callback sample, local and average need "
              "post_local_sgd.start_step");
}

void print_programs(const TrainConfig& config, const TrainPlan& plan, Output& output) {
  const StepProgram* const named = named_program(config, plan);
  for (const StepProgram* program : plan.programs.all())
    if (named == nullptr || program == named)
      output.print(config.rank ? to_text(*program, chosen_rank(config)) : to_text(*program));
}

Hardware hardware_of(const TrainConfig& config) {
  Hardware hardware;
  if (const auto peak = peak_flops_per_s(config)) hardware.flops_per_s = *peak;
  return hardware;
}

/// The origin of the times of a drawing, in a line.
std::string assumptions_of(const TrainConfig& config, const TrainPlan& plan) {
  const Hardware hardware = hardware_of(config);
  return fmt::format(
      "assumes per rank {:g} TFLOP/s ({}), memory {:g} GB/s, links {:g} GB/s with {:g} us latency, host {:g} GB/s{}",
      hardware.flops_per_s / 1e12,
      config.log.peak_tflops   ? "log.peak_tflops"
      : config.log.peak_device ? "log.peak_device"
                               : "log.peak_tflops is not set",
      hardware.memory_bytes_per_s / 1e9, hardware.link_bytes_per_s / 1e9, hardware.latency_s * 1e6,
      hardware.host_bytes_per_s / 1e9,
      plan.device ? fmt::format("; rates of memory, links and host are not those of {}", plan.device->name) : "");
}

Timeline timeline_of(const TrainConfig& config, const TrainPlan& plan, const StepProgram& program) {
  const Hardware hardware = hardware_of(config);
  Timeline timeline = simulate(program, analytic_costs(plan.model_of(program), hardware));
  if (!config.rank) return timeline;
  const RankClass& of = program.class_of(chosen_rank(config));
  std::erase_if(timeline.ranks, [&](const RankTimeline& times) { return &program.class_of(times.rank) != &of; });
  timeline.ranks.resize(1);
  return timeline;
}

void plot_programs(const TrainConfig& config, const TrainPlan& plan, Output& output) {
  constexpr int columns = 72;
  const PlotTarget& target = *config.plot_program;
  // Of itself one picture is of the step that does most: where cells train apart, of one that averages their weights.
  const StepProgram* const named = named_program(config, plan);
  const StepProgram& step = plan.programs.averaging.classes.empty() ? plan.programs.train : plan.programs.averaging;
  const StepProgram& drawn = named ? *named : step;
  const Timeline timeline = timeline_of(config, plan, drawn);
  switch (target.kind) {
    case PlotTarget::Kind::text: return output.print(plot_text(drawn, timeline, columns, assumptions_of(config, plan)));
    case PlotTarget::Kind::svg:
      return publish_file(target.path, plot_svg(drawn, timeline, assumptions_of(config, plan)));
    case PlotTarget::Kind::json: return publish_file(target.path, to_text(plot_json(drawn, timeline)) + "\n");
  }
}

/// The learning rate of each step of the run, of a long one of some of them.
void plot_schedule(const TrainConfig& config, const TrainPlan& plan, Output& output) {
  constexpr std::int64_t most_points = 2000;
  constexpr int columns = 100, lines = 20;
  if (plan.length.steps == 0)
    throw Error(ExitCode::usage, "the number of steps is unknown: train.epochs needs a dataset, and none is there",
                "set --train.max_steps instead of train.epochs, or prepare the dataset");
  const Schedule schedule = schedule_of(config, plan.length);
  const std::int64_t points = std::min(plan.length.steps, most_points);
  Series rates{.name = "learning rate", .points = {}};
  for (std::int64_t i = 0; i < points; ++i) {
    const std::int64_t step = points == 1 ? 0 : i * (plan.length.steps - 1) / (points - 1);
    rates.points.push_back({static_cast<double>(step + 1), learning_rate(schedule, step)});
  }
  const CurveLabels labels{.title = "learning rate", .x = "step", .y = "learning rate"};
  const PlotTarget& target = *config.plot_schedule;
  switch (target.kind) {
    case PlotTarget::Kind::text:
      return output.print(
          curve_text(labels, {rates}, columns, lines, takes_unicode() ? Charset::unicode : Charset::ascii));
    case PlotTarget::Kind::svg: return publish_file(target.path, curve_svg(labels, {rates}));
    case PlotTarget::Kind::json: {
      Json list = Json::array();
      for (const Series::Point& point : rates.points)
        list.push_back({{"step", static_cast<std::int64_t>(point.x)}, {"lr", point.y}});
      return publish_file(target.path, to_text(list) + "\n");
    }
  }
}

void print_layout(const TrainConfig& config, const TrainPlan& plan, Output& output) {
  std::vector<ParameterPlan> parameters;
  for (const LogicalTensor& tensor : stored_tensors(plan.architecture))
    parameters.push_back({.name = tensor.name, .shape = view_of(tensor), .blocks = {}, .cut = tensor.cut});
  output.print(layout_text(tensor_layouts(plan.mesh, plan.model, parameters, plan.types, plan.programs.parts),
                           plan.types, config.rank ? std::optional(chosen_rank(config)) : std::nullopt));
}

}  // namespace

bool asks_for_plan(const TrainConfig& config, const CommonOptions& common) {
  const bool asks = common.dry_run || prints_plan(config);
  if (common.json && !config.calibrate && !config.check_device && !samples_alone(config) &&
      (!common.dry_run || prints_plan(config)))
    throw Error(ExitCode::usage, "--json is only for --dry-run, --calibrate, --check-device and --sample",
                "the records of a run are always JSON: see train --print-schema");
  if (!asks && (config.world_size || config.ranks_per_node || config.utilization.is_set()))
    throw Error(ExitCode::usage,
                config.world_size || config.ranks_per_node
                    ? fmt::format("{} is only for plans: a run uses the ranks that were started",
                                  config.world_size ? "--world-size" : "--ranks-per-node")
                    : "--utilization is only for plans: a run measures it",
                "add --dry-run, --print-program, --print-layout, --print-groups, --print-components, --plot-program or "
                "--plot-schedule");
  return asks;
}

int answer_from_plan(const TrainConfig& given, Session& session, Output& output) {
  session.configure(session_settings(given, {}));  // no folder: nothing is written
  agree_on_start(session.world(), output.settings());
  std::optional<DeviceOfPlan> device;
  together(session.world(), "plan the run", [&] { device = device_planned_for(given); });
  TrainConfig of_cpu = given;
  of_cpu.train.device = DeviceChoice::cpu;
  const Machines machines = set_up_machines(of_cpu, session.world());
  const TrainConfig placed = with_nodes_filled(given, nodes_planned(given, machines));
  const int ranks = ranks_planned(placed, session.world().size());
  const TrainConfig config = with_kept_multiple(
      with_prepared_data(with_local_model(placed, session), WithoutPrepared::tell, session, output), session.world());
  const WeightsReport weights = agree_on_weights(config, session.world());
  Processor processor = processor_of(session.world());
  if (device) processor.multiprocessors = device->multiprocessors;
  TrainPlan plan = make_train_plan(config, ranks, processor, agree_on_kept(config, session.world()), weights,
                                   WithoutDataset::planned,
                                   {.one_queue = device && config.parallel.transport != RankTransport::host,
                                    .vocabulary_multiple = device ? gpu_vocabulary_multiple : 1});
  plan.device = device;
  if (device) plan.device->uses_nccl = ranks > 1 && config.parallel.transport != RankTransport::host;
  if (device && plan.device->uses_nccl) plan.device->overhead.workspace_bytes += DeviceExchange::packing_bytes;
  const std::vector<std::string> notes = notes_on(config, plan);
  const bool for_these_machines = !config.world_size && !config.ranks_per_node;
  std::optional<Shortage> shortage;
  if (config.train.memory_check && for_these_machines) {
    choose_background(session.world(), config.checkpoint.background, plan, MemoryCompared::total);
    shortage = memory_warning(session.world(), plan);
  }
  if (config.train.memory_check && !shortage) shortage = device_shortage(plan);
  if (session.world().rank() != 0) return 0;
  const Placement placement = placement_planned(config, machines, ranks);
  for (const std::string& warning : placement_warnings(plan.mesh, placement.nodes)) output.log().warning("{}", warning);
  for (const std::string& warning : warnings_on(config, plan)) output.log().warning("{}", warning);
  if (device && !device->runs_plugin)
    output.log().warning(
        "the plug-in for GPUs does not run on {}, whose compute capability is below 8.0: a run would be refused",
        device->name);
  if (shortage) output.log().warning("{}: a run would end with exit code 5; {}", shortage->text, shortage->hint);
  for (const std::string& text : unprepared_text(config))
    output.log().info("{} is not prepared yet: a run prepares it in {}; the plan does not include it", text,
                      cache_of(config).string());
  for (const std::string& note : notes) output.log().info("{}", note);
  if (plan.device)
    output.log().info("the plan is for ranks on {} ({})", plan.device->name, plan.device->option);
  else if (!prints_plan(config))
    output.log().info("the plan is for ranks on the CPU{}", config.train.device == DeviceChoice::cpu
                                                                ? " (train.device)"
                                                                : "; log.peak_device names a GPU to plan for");
  if (config.print_program) print_programs(config, plan, output);
  if (config.print_layout) print_layout(config, plan, output);
  if (config.print_groups) output.print(groups_text(config, plan));
  if (config.print_components) output.print(component_table(config, plan, placement));
  if (config.plot_program) plot_programs(config, plan, output);
  if (config.plot_schedule) plot_schedule(config, plan, output);
  if (prints_plan(config)) return 0;
  const std::vector<Row> rows = rows_of(config, plan, placement);
  if (output.common().json)
    output.print_json(to_json(rows));
  else
    output.print(to_text(config.plan ? rows : brief(rows)));
  return 0;
}

}  // namespace lockstep
