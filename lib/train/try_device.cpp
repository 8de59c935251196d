#include "train/try_device.hpp"

#include "app/agreed_start.hpp"
#include "architecture/function_costs.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/rounding.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "device/device.hpp"
#include "report/table.hpp"
#include "tensor/functions/kernel_names.hpp"
#include "tensor/libtorch_error.hpp"
#include "train/kernel_check.hpp"
#include "train/run_mesh.hpp"
#include "train/run_model.hpp"
#include "train/run_seed.hpp"
#include "train/run_setup.hpp"
#include "trial/errors.hpp"
#include "trial/speed.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

/// The run without its data, its folder and its length. A seed that is not set is drawn, so that each check has other
/// values.
TrainConfig without_run(TrainConfig config, const Settings& settings) {
  if (origin_of(settings, "train.seed") == "built-in") config.train.seed = TrainOptions::drawn_seed;
  config.train.run_dir.clear();
  config.data.path.clear();
  config.data.datasets.clear();
  config.data.prepared.reset();
  config.data.shuffle_where.reset();
  config.eval = {};
  config.eval.at_end = false;
  config.checkpoint.load_best_at_end = false;
  config.checkpoint.best_dataset.reset();
  config.train.callbacks.clear();
  config.train.epochs.reset();
  config.train.max_steps = 1;
  config.schedule = {};
  config.schedule.name = ScheduleName::constant;
  if (!config.train.global_batch) {
    if (!config.train.micro_batch) config.train.micro_batch = 1;
    if (!config.train.accumulation) config.train.accumulation = 1;
  }
  return config;
}

std::int64_t ranks_along(const Mesh& mesh, const AxisName& name) {
  const Axis* const axis = find_axis(mesh, name);
  return axis == nullptr ? 1 : axis->size;
}

KernelTables tables_in_use() {
  const DeviceProperties& properties = this_device().properties();
  const auto device = static_cast<at::DeviceType>(properties.tensor_type);
  return {kernels_on<float>(device), kernels_on<double>(device), kernels_on<Bf16>(device), kernels_on<Fp16>(device),
          properties.is_host ? cpu_exchange_kernels() : exchange_kernels_on(device)};
}

/// Calls work(kernels) with the table of that name.
template <class Work>
auto with_table(const KernelTables& tables, std::string_view name, const Work& work) {
  if (name == table_name<float>) return work(trial::TriedKernels{tables.f32, tables.exchange});
  if (name == table_name<double>) return work(trial::TriedKernels{tables.f64, tables.exchange});
  if (name == table_name<Bf16>) return work(trial::TriedKernels{tables.bf16, tables.exchange});
  return work(trial::TriedKernels{tables.f16, tables.exchange});
}

/// A trial of one case of a kernel of a table.
struct CaseOfKernel {
  const trial::Trial* trial = nullptr;
  std::string table;
  trial::TrialSizes small, whole;
};

trial::Number number_of_table(std::string_view name) {
  if (name == table_name<float>) return trial::Number::fp32;
  if (name == table_name<double>) return trial::Number::fp64;
  return name == table_name<Bf16> ? trial::Number::bf16 : trial::Number::fp16;
}

/// The kernels that a run needs, each once, by table: "bf16 gemm". A device exchanges data of each type that the run
/// computes with.
std::vector<std::string> kernels_in(const std::vector<KernelNeed>& needs) {
  std::vector<std::string> kernels;
  std::set<std::string> tables;
  for (const KernelNeed& need : needs)
    for (const std::string& kernel : need.kernels) {
      tables.insert(kernel.substr(0, kernel.find(' ')));
      if (std::ranges::find(kernels, kernel) == kernels.end()) kernels.push_back(kernel);
    }
  if (!this_device().properties().is_host)
    for_each_exchange_kernel({}, [&](std::string_view name, auto*) {
      for (const std::string& table : tables) kernels.push_back(fmt::format("{} {}", table, name));
    });
  return kernels;
}

/// The cases of the kernels that a run needs.
std::vector<CaseOfKernel> cases_of(const std::vector<KernelNeed>& needs, const trial::TrialSizes& whole) {
  const trial::TrialSizes small = small_sizes(whole);
  std::vector<CaseOfKernel> cases;
  for (const std::string& kernel : kernels_in(needs)) {
    const std::size_t blank = kernel.find(' ');
    const std::string table = kernel.substr(0, blank);
    const trial::Number tested = number_of_table(table);
    const trial::Trial& trial = trial::trial_of(std::string_view(kernel).substr(blank + 1));
    const auto of_small = trial.cases(small, tested), of_whole = trial.cases(whole, tested);
    // Windows that differ may be equal in small sizes.
    for (std::size_t i = 0; i < of_whole.size(); ++i)
      cases.push_back({&trial, table, of_small[std::min(i, of_small.size() - 1)], of_whole[i]});
  }
  return cases;
}

/// Checks the device of this rank, one case at a time.
class DeviceCheck {
 public:
  explicit DeviceCheck(std::int64_t seed)
      : seed_(static_cast<std::uint64_t>(seed)), tables_(tables_in_use()), limits_(limits_of_device()) {
    report_["device"] = this_device().properties().name;
    report_["seed"] = seed;
    report_["copy_bytes_per_s"] = trial::copy_ceiling(limits_);
    report_["product_flops_per_s"] = Json::object();
    report_["kernels"] = Json::array();
    report_["within_bounds"] = true;
    report_["worst"] = 0.0;
  }

  void check(const CaseOfKernel& one) {
    with_table(tables_, one.table, [&]<class T>(const trial::TriedKernels<T>& kernels) {
      const trial::TrialErrors errors = trial::compare_with_reference(*one.trial, kernels, one.small, seed_);
      const trial::TrialSpeed speed = trial::time_trial(*one.trial, kernels, one.whole, seed_, limits_);
      add(one, errors, speed);
      if (speed.is_timed()) add_rate(speed, speed.flops > 0 ? product_ceiling(kernels) : copy_ceiling());
    });
  }
  const Json& report() const { return report_; }

 private:
  static trial::SpeedLimits limits_of_device() {
    constexpr std::int64_t on_host = std::int64_t{1} << 30;
    const bool is_host = this_device().properties().is_host;
    return {.most_bytes = is_host ? on_host : this_device().free_memory() / 4};
  }
  double copy_ceiling() const { return report_["copy_bytes_per_s"].get<double>(); }
  template <class T>
  double product_ceiling(const trial::TriedKernels<T>& kernels) {
    Json& ceilings = report_["product_flops_per_s"];
    const std::string name(table_name<T>);
    if (!ceilings.contains(name)) ceilings[name] = trial::product_ceiling(kernels, limits_);
    return ceilings[name].get<double>();
  }
  void add(const CaseOfKernel& one, const trial::TrialErrors& errors, const trial::TrialSpeed& speed) {
    const auto share = [](double error, double bound) { return bound > 0 ? error / bound : 0; };
    const double of_bound = std::max(share(errors.l2, errors.l2_bound), share(errors.largest, errors.largest_bound));
    if (!errors.fault.empty()) report_["within_bounds"] = false;
    report_["worst"] = std::max(report_["worst"].get<double>(), of_bound);
    Json row{{"kernel", one.trial->kernel}, {"table", one.table},         {"types", errors.types},
             {"sizes", errors.shape},       {"output", errors.output},    {"l2", errors.l2},
             {"l2_bound", errors.l2_bound}, {"largest", errors.largest},  {"largest_bound", errors.largest_bound},
             {"fault", errors.fault},       {"timed_sizes", speed.shape}, {"seconds", nullptr}};
    if (!speed.is_timed()) row["untimed_bytes"] = speed.missing_bytes;
    report_["kernels"].push_back(std::move(row));
  }
  /// For the last row.
  void add_rate(const trial::TrialSpeed& speed, double ceiling) {
    Json& row = report_["kernels"].back();
    row["seconds"] = speed.seconds;
    row[speed.flops > 0 ? "flops_per_s" : "bytes_per_s"] = speed.rate();
    row["ceiling_share"] = ceiling > 0 ? Json(speed.rate() / ceiling) : Json();
  }

  std::uint64_t seed_;
  KernelTables tables_;
  trial::SpeedLimits limits_;
  Json report_;
};

/// Whether a report is worse than another: it has a fault, or an error that is nearer to its bound.
bool is_worse(const Json& report, const Json& than) {
  const bool is_within = report["within_bounds"].get<bool>();
  if (is_within != than["within_bounds"].get<bool>()) return !is_within;
  return report["worst"].get<double>() > than["worst"].get<double>();
}

/// The worst report of each kind of device, in the order of their first ranks.
std::vector<Json> worst_of_each_device(const std::vector<Json>& reports) {
  std::vector<Json> worst;
  for (const Json& report : reports) {
    const auto found =
        std::ranges::find_if(worst, [&](const Json& other) { return other["device"] == report["device"]; });
    if (found == worst.end())
      worst.push_back(report);
    else if (is_worse(report, *found))
      *found = report;
  }
  return worst;
}

/// The kernel of a report whose fault is named: the one that is farthest beyond its bounds; nothing if all are within.
std::optional<Json> worst_kernel(const Json& report) {
  std::optional<Json> worst;
  const auto excess = [](const Json& kernel) {
    const double bound = kernel["l2_bound"].get<double>();
    return kernel["l2"].is_number() && bound > 0 ? kernel["l2"].get<double>() / bound : 0;
  };
  for (const Json& kernel : report["kernels"])
    if (!kernel["fault"].get<std::string>().empty() && (!worst || excess(kernel) > excess(*worst))) worst = kernel;
  return worst;
}

std::int64_t faulty_trials(const Json& report) {
  return std::ranges::count_if(report["kernels"],
                               [](const Json& one) { return !one["fault"].get<std::string>().empty(); });
}

/// Fails on all ranks if a kernel of a rank is beyond its bounds.
void require_bounds(const std::vector<Json>& reports) {
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const Json& report = reports[rank];
    const std::optional<Json> kernel = worst_kernel(report);
    if (!kernel) continue;
    const auto text = [&](const char* key) { return (*kernel)[key].get<std::string>(); };
    throw AgreedError(
        Error(ExitCode::verdict,
              fmt::format("the kernel {} for {} is wrong on {}{}: {} ({})", text("kernel"), text("table"),
                          report["device"].get<std::string>(),
                          reports.size() > 1 ? fmt::format(" of rank {}", rank) : std::string(), text("fault"),
                          text("sizes")),
              fmt::format("{} of {} trials found a fault; train.seed {} repeats them; train.device cpu runs without "
                          "this device",
                          faulty_trials(report), report["kernels"].size(), report["seed"].get<std::int64_t>())),
        0);
  }
}

std::string number_text(const Json& number) {
  return number.is_number() ? fmt::format("{:.1e}", number.get<double>()) : "not finite";
}

std::string rate_text(const Json& kernel) {
  return kernel.contains("flops_per_s") ? fmt::format("{:.3g} GFLOP/s", kernel["flops_per_s"].get<double>() / 1e9)
                                        : fmt::format("{:.3g} GB/s", kernel["bytes_per_s"].get<double>() / 1e9);
}

std::string ceiling_text(const Json& per_second, std::string_view unit) {
  const auto rate = per_second.get<double>();
  return rate > 0 ? fmt::format("{:.3g} {}", rate / 1e9, unit) : "not measured for lack of memory";
}

/// The cells of the timed sizes, the rate, and its share of the ceiling.
std::vector<std::string> speed_cells(const Json& kernel) {
  if (kernel.contains("untimed_bytes"))
    return {fmt::format("not timed: {} do not fit", human_bytes(kernel["untimed_bytes"].get<std::uint64_t>())), "", ""};
  const Json& share = kernel["ceiling_share"];
  return {kernel["timed_sizes"].get<std::string>(), rate_text(kernel),
          share.is_number() ? fmt::format("{:.0f} %", 100 * share.get<double>()) : ""};
}

/// Calls `work`. A lack of memory becomes an error that says what helps: the sizes of a comparison are small for each
/// model.
template <class Work>
void in_device_memory(const Work& work) {
  const auto refuse = [](const std::string& reason, std::string_view place) {
    throw Error(ExitCode::resources, fmt::format("no memory for the check: {}", reason),
                fmt::format("it needs little memory, whatever the model is: end other processes on {}", place));
  };
  try {
    work();
  } catch (const c10::OutOfMemoryError& error) {
    refuse(message_of(error), "the device, or use another one");
  } catch (const std::bad_alloc&) {
    refuse("the process gets no more", "the machine, or raise the limits of its memory");
  }
}

}  // namespace

trial::TrialSizes trial_sizes(const TrainConfig& config, const TrainPlan& plan) {
  const std::int64_t tp = ranks_along(plan.mesh, "tp");
  trial::TrialSizes sizes{.model = plan.architecture.config,
                          .trains = plan.trains,
                          .document = config.data.sequence_length,
                          .smoothing = config.train.label_smoothing,
                          .tf32 = config.precision.matmul == MatmulPrecision::tf32};
  ModelConfig& model = sizes.model;
  const AttentionShape heads = share_of({model.heads, model.kv_heads, model.head_size}, tp);
  model.heads = heads.heads;
  model.kv_heads = heads.kv_heads;
  model.feed_forward = ceil_div(model.feed_forward, tp);
  model.experts.feed_forward = ceil_div(model.experts.feed_forward, tp);
  model.experts.shared_feed_forward = ceil_div(model.experts.shared_feed_forward, tp);
  model.vocabulary = ceil_div(model.vocabulary, tp);
  const std::int64_t sharers = ranks_along(plan.mesh, "ring") * ranks_along(plan.mesh, "ulysses");
  sizes.rows = ceil_div(plan.batch.micro_batch * config.data.sequence_length, sharers);
  sizes.loss_rows = loss_slice_rows(sizes.rows, model.vocabulary);
  sizes.columns = rows_in_memory(model.vocabulary, plan.architecture.blocks.back().tensors.back().row_multiple);
  const Precision precision = config.precision.dtype;
  sizes.brief_products = precision == Precision::bf16 || precision == Precision::fp16;
  if (config.precision.weights == WeightsKept::bf16)
    sizes.weights = config.optimizer.kahan ? trial::WeightForm::compensated : trial::WeightForm::only_bf16;
  else if (precision == Precision::bf16)
    sizes.weights = trial::WeightForm::master_and_copy;
  for (const BlockDescription& block : plan.architecture.blocks) {
    std::int64_t elements = 0;
    for (const LogicalTensor& tensor : block.tensors) elements += lockstep::elements(tensor.shape);
    sizes.elements = std::max(sizes.elements, elements);
  }
  return sizes;
}

std::string report_text(const Json& report) {
  using Align = Table::Align;
  Table table({{"kernel"},
               {"types"},
               {"sizes"},
               {"L2 error", Align::right},
               {"bound", Align::right},
               {"largest", Align::right},
               {"bound", Align::right},
               {"timed sizes"},
               {"rate", Align::right},
               {"ceiling", Align::right},
               {""}});
  for (const Json& kernel : report["kernels"]) {
    const auto text = [&](const char* key) { return kernel[key].get<std::string>(); };
    const std::vector<std::string> speed = speed_cells(kernel);
    table.add({text("kernel"), text("types"), text("sizes"), number_text(kernel["l2"]), number_text(kernel["l2_bound"]),
               number_text(kernel["largest"]), number_text(kernel["largest_bound"]), speed[0], speed[1], speed[2],
               text("fault").empty() ? "" : "wrong: " + text("fault")});
  }
  std::vector<std::string> ceilings{"copy in memory " + ceiling_text(report["copy_bytes_per_s"], "GB/s")};
  for (const auto& [type, flops_per_s] : report["product_flops_per_s"].items())
    ceilings.push_back(fmt::format("product of {} {}", type, ceiling_text(flops_per_s, "GFLOP/s")));
  const std::size_t trials = report["kernels"].size();
  const std::int64_t faulty = faulty_trials(report);
  const std::string verdict = faulty == 0 ? fmt::format("all kernels are within their bounds ({} trials)", trials)
                                          : fmt::format("{} of {} trials found a fault", faulty, trials);
  return fmt::format("kernels of {}, seed {}\n{}ceilings: {}\n{}\n", report["device"].get<std::string>(),
                     report["seed"].get<std::int64_t>(), table.text(), join(ceilings, ", "), verdict);
}

int check_device(const TrainConfig& given, Session& session, Output& output) {
  Communicator& world = session.world();
  session.configure(session_settings(given, {}));  // no folder: nothing is written
  agree_on_start(world, output.settings());
  const Machines machines = set_up_machines(given, world);
  TrainConfig placed;
  together(world, "lay out the ranks",
           [&] { placed = with_nodes_filled(without_run(given, output.settings()), machines.placement.nodes); });
  const TrainConfig config = with_local_model(with_seed(placed, world), session);
  const Processor processor = processor_of(world);
  const WeightsReport weights = agree_on_weights(config, world);
  TrainPlan plan;
  std::vector<CaseOfKernel> cases;
  std::optional<DeviceCheck> check;
  together(world, "plan the check of the device", [&] {
    session.enter(Phase::start_up);
    plan = make_train_plan(config, world.size(), processor, std::nullopt, weights, WithoutDataset::planned,
                           {.vocabulary_multiple = this_device().properties().vocabulary_multiple});
    require_device_kernels(config, plan);
    cases = cases_of(kernel_needs(config, plan.architecture.config, plan.mesh), trial_sizes(config, plan));
  });
  if (world.rank() == 0)
    output.log().info("checks {} of {} with seed {}", counted(std::ssize(cases), "case"), machines.devices.chosen,
                      config.train.seed);
  together(world, "measure a copy", [&] { in_device_memory([&] { check.emplace(config.train.seed); }); });
  for (const CaseOfKernel& one : cases)
    together(world, fmt::format("check the kernel {}", one.trial->kernel), [&] {
      session.enter(Phase::start_up);  // each kernel has the limit of a phase
      in_device_memory([&] { check->check(one); });
    });
  std::vector<Json> reports;
  for (const std::string& text : world.all_gather(to_text(check->report())))
    reports.push_back(parse_json(text, "the report of a rank"));
  together(world, "print the report", [&] {
    session.enter(Phase::shutdown, 0);
    if (world.rank() != 0) return;
    for (const Json& report : worst_of_each_device(reports)) {
      if (output.common().json)
        output.print_json(report);
      else
        output.print(report_text(report));
    }
  });
  require_bounds(reports);
  return 0;
}

}  // namespace lockstep
