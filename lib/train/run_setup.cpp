#include "train/run_setup.hpp"

#include "architecture/rope_frequencies.hpp"
#include "base/checked_cast.hpp"
#include "base/json.hpp"
#include "base/words.hpp"
#include "comm/device_operations.hpp"
#include "comm/together.hpp"
#include "device/device.hpp"
#include "exchange/file_tensors.hpp"
#include "exchange/hf_config.hpp"
#include "optim/groups.hpp"
#include "store/best_evaluations.hpp"
#include "tensor/arena.hpp"
#include "tensor/gemm.hpp"
#include "tensor/runtime.hpp"
#include "train/components.hpp"
#include "train/kept_run.hpp"
#include "train/memory_check.hpp"
#include "train/nonfinite.hpp"
#include "train/run_device.hpp"
#include "train/run_mesh.hpp"

#include <algorithm>
#include <iterator>

namespace lockstep {

namespace {

std::vector<Phase> phases_of(WatchedPhase watched) {
  switch (watched) {
    case WatchedPhase::start_up: return {Phase::start_up};
    case WatchedPhase::load: return {Phase::load};
    case WatchedPhase::step:
      return {Phase::data,      Phase::gather,    Phase::forward, Phase::backward, Phase::reduction, Phase::norm,
              Phase::heartbeat, Phase::optimizer, Phase::average, Phase::callback, Phase::statistics};
    case WatchedPhase::evaluation: return {Phase::evaluation};
    case WatchedPhase::sample: return {Phase::sample};
    case WatchedPhase::save:
      return {Phase::save_plan, Phase::save_stage,  Phase::save_write,
              Phase::save_seal, Phase::save_commit, Phase::save_promote};
    case WatchedPhase::shutdown: return {Phase::shutdown};
  }
  return {};
}

/// Weights of a run that does not resume. Local.
void fill_weights(const TrainConfig& config, Model& model) {
  if (config.model.path) {
    model.load(*open_stored_weights(*config.model.path, model.architecture()));
  } else {
    model.initialise(static_cast<std::uint64_t>(config.train.seed));
  }
}

}  // namespace

Session::Settings session_settings(const TrainConfig& config, const Path& folder) {
  Session::Settings settings{.watchdog_s = config.train.watchdog.value, .folder = folder};
  for (const PhaseLimit& own : config.train.watchdog_phases) {
    for (const Phase phase : phases_of(own.phase)) settings.phase_limits_s[phase] = own.limit.value;
  }
  if (config.train.inject) settings.injection = parse_injection(*config.train.inject);
  return settings;
}

Machines set_up_machines(const TrainConfig& config, Communicator& world) {
  Machines machines{.hosts = world.all_gather(host_name())};
  machines.placement = {nodes_of(machines.hosts), world.launcher_ranks()};
  const auto local_ranks = std::ranges::count(machines.hosts, machines.hosts[static_cast<std::size_t>(world.rank())]);
  machines.threads =
      threads_per_rank(checked_cast<int>(config.train.threads.value_or(0), "train.threads", ExitCode::usage),
                       checked_cast<int>(local_ranks, "the number of ranks of this machine"));
  set_up_runtime(machines.threads);
  limit_host_memory(offload_options(config.train).host_limit_bytes);
  want_matrix_unit(config.precision.matrix_unit);
  machines.devices = open_device(config, world, machines.hosts);
  return machines;
}

namespace {

GroupRemarks remarks_on_groups(const TrainConfig& config, const TrainPlan& plan) {
  std::vector<std::string> names;
  for (const LogicalTensor& tensor : stored_tensors(plan.architecture)) names.push_back(tensor.name);
  return check_groups(names, config.optimizer);
}

}  // namespace

std::vector<std::string> notes_on(const TrainConfig& config, const TrainPlan& plan) {
  std::vector<std::string> notes = remarks_on_groups(config, plan).notes;
  if (config.precision.matmul != MatmulPrecision::fp32 && !plan.device)
    notes.emplace_back("precision.matmul tf32 has no effect on the CPU");
  if (config.precision.product_search && !plan.device)
    notes.emplace_back("precision.product_search has no effect on the CPU");
  std::ranges::copy(plan.weights.notes, std::back_inserter(notes));
  if (config.optimizer.in_backward && plan.batch.accumulation > 1)
    notes.push_back(fmt::format(
        "optimizer.in_backward saves no memory with {} per step: gradients are kept from the first to the last",
        counted(plan.batch.accumulation, "micro-batch")));
  if (const auto said = configured_samples_per_rank(config);
      said && *said * plan.batch.ranks != plan.batch.global_batch)
    notes.push_back(fmt::format("this run keeps its {} per step on {} that read different data: {} per step",
                                counted(plan.batch.global_batch, "sample"), counted(plan.batch.ranks, "rank"),
                                counted(plan.batch.accumulation, "micro-batch")));
  if (const LocalOptions& local = plan.programs.local_options; !local.axes.empty())
    notes.push_back(
        fmt::format("from step {} on, {} train separately and average their weights every {}; evaluations, samples and "
                    "checkpoints use the average",
                    local.start_step, counted(find_axis(plan.mesh, local.axes.front())->size, "cell"),
                    counted(local.period, "step")));
  return notes;
}

TrainConfig with_nodes_filled(TrainConfig config, const Nodes& nodes) {
  config.parallel = with_nodes_filled(config.parallel, ranks_of_each(nodes));
  return config;
}

std::vector<std::string> warnings_on_model(const TrainConfig& config, const TrainPlan& plan) {
  std::vector<std::string> warnings = plan.weights.warnings;
  if (!plan.tokenizer_warning.empty()) warnings.push_back(plan.tokenizer_warning);
  const ModelConfig& model = plan.architecture.config;
  if (const std::int64_t longest = longest_length(model); config.data.sequence_length > longest)
    warnings.push_back(
        fmt::format("data.sequence_length is {}, but the model's config is for {} positions: rotary positions have no "
                    "limit, but loaded weights were not trained on the later ones",
                    config.data.sequence_length, longest));
  return warnings;
}

std::vector<std::string> warnings_on(const TrainConfig& config, const TrainPlan& plan) {
  std::vector<std::string> warnings = remarks_on_groups(config, plan).warnings;
  std::ranges::copy(warnings_on_model(config, plan), std::back_inserter(warnings));
  for (const std::string& problem : problems_in_transformers(plan.architecture.config))
    warnings.push_back(fmt::format("transformers will not load an export of this model: {}", problem));
  const LocalOptions& local = plan.programs.local_options;
  if (config.post_local_sgd.start_step && local.axes.empty())
    warnings.emplace_back("post_local_sgd has no effect: all ranks are in one cell");
  else if (config.post_local_sgd.start_step && local.period <= 1)
    warnings.emplace_back(
        "post_local_sgd.period 1 averages weights after each step: for sgd without momentum this equals data "
        "parallelism, at the same cost");
  const auto has_all_blocks = [&](const UnitPlan& unit) {
    return unit.is_cut() && unit.blocks.size() == plan.model.blocks.size();
  };
  if (std::ranges::any_of(plan.model.units, has_all_blocks))
    warnings.emplace_back(
        "parallel.bucket_size puts all blocks into one unit: each rank gathers all weights at once, and communication "
        "does not overlap with computation; without it each block is a unit");
  if (config.checkpoint.on_difference == OnDifference::repair && plan.ranks < 3)
    warnings.push_back(
        fmt::format("checkpoint.on_difference repair needs three ranks with the same state, but this run has {}: a "
                    "difference ends it, as with fail",
                    counted(plan.ranks, "rank")));
  if (saves(config.checkpoint) && !saves_all(config.checkpoint))
    warnings.emplace_back(
        "checkpoint.components omits state that resuming needs: if this run is stopped, it must start over");
  return warnings;
}

World world_of(const TrainPlan& plan, const Machines& machines) {
  World world{plan.mesh, machines.placement.nodes, {}};
  for (std::size_t rank = 0; rank < machines.hosts.size(); ++rank) {
    const auto node = static_cast<std::size_t>(machines.placement.nodes[rank]);
    if (node == world.node_names.size()) world.node_names.push_back(machines.hosts[rank]);
  }
  return world;
}

RunStorage storage_of(const TrainConfig& config, const World& ranks) {
  return config.checkpoint.storage == CheckpointStorage::per_node ? storage_of_nodes(ranks) : RunStorage();
}

Processor processor_of(Communicator& world) {
  const std::int64_t threads = world.all_reduce(std::int64_t{thread_count()}, Reduce::max);
  const std::int64_t most_scratch = world.all_reduce(static_cast<std::int64_t>(multiplier()), Reduce::max);
  const std::int64_t multiprocessors =
      world.all_reduce(std::int64_t{this_device().properties().multiprocessors}, Reduce::max);
  return {static_cast<int>(threads), static_cast<Multiplier>(most_scratch), static_cast<int>(multiprocessors)};
}

WeightsReport agree_on_weights(const TrainConfig& config, Communicator& world) {
  WeightsReport report;
  if (!config.model.path) return report;
  const std::string told = run_on_rank0(world, "read the weights of model.path", [&] {
    report = examine_weights(*config.model.path);
    return std::string(report.head == Head::own ? "own head" : "");
  });
  report.head = told.empty() ? Head::as_configured : Head::own;
  return report;
}

TrainPlan agree_on_plan(const TrainConfig& config, Communicator& world) {
  const Processor processor = processor_of(world);
  const std::optional<ResolvedRun> kept = agree_on_kept(config, world);
  const WeightsReport weights = agree_on_weights(config, world);
  TrainPlan plan;
  together(world, "plan the run", [&] {
    plan = make_train_plan(
        config, world.size(), processor, kept, weights, WithoutDataset::refused,
        {.one_queue = nccl_in_use() != nullptr, .vocabulary_multiple = this_device().properties().vocabulary_multiple});
    if (const DeviceProperties& device = this_device().properties(); !device.is_host) {
      plan.device = {.name = device.name,
                     .memory_bytes = device.memory_bytes,
                     .overhead = device.overhead,
                     .multiprocessors = device.multiprocessors,
                     .free_bytes = this_device().free_memory(),
                     .uses_nccl = nccl_in_use() != nullptr};
      if (plan.device->uses_nccl) plan.device->overhead.workspace_bytes += DeviceExchange::packing_bytes;
    }
    require_device_kernels(config, plan);
    notes_on(config, plan);
  });
  std::string hashes;
  for (const StepProgram* program : plan.programs.all()) hashes += to_hex(hash_of(*program));
  agree_equal(world, "the step program", hashes);
  if (config.train.memory_check) {
    choose_background(world, config.checkpoint.background, plan, MemoryCompared::available);
    require_memory(world, plan);
  }
  return plan;
}

std::unique_ptr<ShardVerifier> make_verifier(VerifyData verify, int rank, const std::vector<std::string>& hosts) {
  if (verify == VerifyData::off) return std::make_unique<ShardVerifier>();
  const auto mine = hosts.begin() + rank;
  return std::make_unique<ShardVerifier>(static_cast<int>(std::count(hosts.begin(), mine, *mine)),
                                         static_cast<int>(std::ranges::count(hosts, *mine)));
}

RunState::RunState(const TrainConfig& config, const TrainPlan& plan, Rank rank)
    : model(plan.architecture, config.precision.dtype, plan.types.states, plan.buckets,
            {plan.mesh, sharding_of(plan.mesh, config.parallel), rank}, plan.programs.parts,
            unit_memory_of(offload_options(config.train), config.optimizer.in_backward,
                           plan.types.only ? WeightMemory::compute : WeightMemory::master)),
      optimizer(make_optimizer(config.optimizer, model.parameters())),
      cells(model, plan.mesh, rank, plan.programs.local_options),
      callbacks(make_callbacks(config, rank, plan.ranks)),
      components(components_of(model, cells, train_state, *plan.architecture.config.original)) {
  for (const auto& callback : callbacks) std::ranges::move(callback->components(), std::back_inserter(components));
  train_state.uses.emplace(plan.training.size());
  for (Component& component : components) component = compared_as(config.checkpoint, std::move(component));
  model.set_output_type(scalar_type(plan.types.handed_out()));
  if (!scales_loss(config)) return;
  train_state.loss_scale.scale = config.precision.loss_scale.init_scale;
  components.push_back(loss_scale_component(train_state));
}

RunStart RunState::fill(const TrainConfig& config, const TrainPlan& plan, const World& ranks,
                        const std::optional<LocalTier>& local, Session& session, Log& log) {
  LoadedState loaded{components,
                     ranks,
                     storage_of(config, ranks),
                     local,
                     [this, fresh = train_state] {
                       train_state = fresh;
                       cells.drop();
                     },
                     [this](const CheckpointReader& reader) {
                       train_state.best_evaluations = best_evaluations_of(reader.manifest());
                       train_state.before = run_totals_of(reader.manifest());
                     }};
  const auto start_weights = [&] { fill_weights(config, model); };
  const bool in_part = takes_part(config.checkpoint);  // then what is not loaded is as a run starts
  if (in_part) together(session.world(), "fill the weights", start_weights);
  loaded.components.push_back(plan.trains ? cells.component() : CellState::left_out());
  RunStart start;
  if (!plan.trains)
    start.checkpoint = load_weights_alone(config, plan, session, log, loaded);
  else if (!config.calibrate)
    start = resume_or_start(config, plan, session, log, loaded);
  if (train_state.uses && train_state.uses->size() != plan.training.size()) train_state.uses.reset();
  cells.drop();
  together(session.world(), "fill the weights", [&] {
    if (!start.checkpoint && !in_part) start_weights();
    for (Unit* unit : model.units()) unit->update_compute_copy();
  });
  return start;
}

}  // namespace lockstep
