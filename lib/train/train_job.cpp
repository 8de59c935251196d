#include "train/train_job.hpp"

#include "app/status_file.hpp"
#include "base/checked_cast.hpp"
#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/lane.hpp"
#include "comm/together.hpp"
#include "exchange/model_folder.hpp"
#include "optim/groups.hpp"
#include "report/build_info.hpp"
#include "tensor/gemm.hpp"
#include "tensor/runtime.hpp"
#include "train/components.hpp"
#include "train/loop.hpp"
#include "train/memory_check.hpp"
#include "train/resume_or_start.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

namespace lockstep {

namespace {

/// Host of every rank, by rank. Collective over `world`.
std::vector<std::string> hosts_of(Communicator& world) {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return world.all_gather(std::string(name.data()));
}

std::vector<Phase> phases_of(WatchedPhase watched) {
  switch (watched) {
    case WatchedPhase::start_up: return {Phase::start_up};
    case WatchedPhase::load: return {Phase::load};
    case WatchedPhase::step:
      return {Phase::data, Phase::forward,   Phase::backward, Phase::reduction,
              Phase::norm, Phase::heartbeat, Phase::optimizer};
    case WatchedPhase::evaluation: return {Phase::evaluation};
    case WatchedPhase::sample: return {Phase::sample};
    case WatchedPhase::save:
      return {Phase::save_plan, Phase::save_stage, Phase::save_write, Phase::save_seal, Phase::save_commit};
    case WatchedPhase::shutdown: return {Phase::shutdown};
  }
  return {};
}

Session::Settings session_settings(const TrainConfig& config) {
  Session::Settings settings{.watchdog_s = config.train.watchdog.value, .folder = config.train.run_dir};
  for (const PhaseLimit& own : config.train.watchdog_phases) {
    for (const Phase phase : phases_of(own.phase)) settings.phase_limits_s[phase] = own.limit.value;
  }
  if (config.train.inject) settings.injection = parse_injection(*config.train.inject);
  return settings;
}

/// A failure that passes here may leave other ranks waiting in the middle of a step, and unwinding takes a while: their
/// watchdogs must not explain it.
LoopEnd run_loop(TrainingLoop& loop, Session& session) {
  try {
    return loop.run();
  } catch (...) {
    session.claim_report();
    throw;
  }
}

/// What is to be said about optimizer.groups. Local. Throws Error(usage) for a pattern that matches nothing.
std::vector<std::string> group_notes(const TrainConfig& config, const TrainPlan& plan) {
  std::vector<std::string> names;
  for (const LogicalTensor& tensor : stored_tensors(plan.architecture)) names.push_back(tensor.name);
  return check_groups(names, config.optimizer);
}

/// What --dry-run and --print-program answer: for as many ranks as parallel.dp_replicate says, or as were started.
int answer_without_training(const TrainConfig& config, Session& session, Output& output) {
  const int ranks = checked_cast<int>(config.parallel.dp_replicate.value_or(session.world().size()),
                                      "parallel.dp_replicate", ExitCode::usage);
  const TrainPlan plan = make_train_plan(config, ranks);
  const std::vector<std::string> notes = group_notes(config, plan);
  const auto shortage = config.train.memory_check ? memory_warning(session.world(), plan) : std::nullopt;
  if (session.world().rank() != 0) return 0;
  if (shortage) output.log().warning("{}: such a start ends with code 5", *shortage);
  for (const std::string& note : notes) output.log().info("{}", note);
  if (!config.print_program) {
    output.print(describe_plan(config, plan));
  } else if (config.print_program->rank < 0) {
    output.print(to_text(plan.programs.train));
    if (plan.evaluation_rounds > 0) output.print(to_text(plan.programs.eval));
  } else {
    output.print(to_text(plan.programs.train, checked_cast<Rank>(config.print_program->rank,
                                                                 "the rank of --print-program", ExitCode::usage)));
    if (plan.evaluation_rounds > 0)
      output.print(to_text(plan.programs.eval, checked_cast<Rank>(config.print_program->rank,
                                                                  "the rank of --print-program", ExitCode::usage)));
  }
  return 0;
}

std::vector<TensorDescription> expected_tensors(const Architecture& architecture) {
  std::vector<TensorDescription> tensors;
  for (const LogicalTensor& tensor : stored_tensors(architecture))
    tensors.push_back({tensor.name, tensor.shape, DType::f32});
  return tensors;
}

/// Weights of a run that does not resume. Local.
void fill_weights(const TrainConfig& config, Model& model) {
  if (config.model.path) {
    model.load(*open_model_weights(*config.model.path, expected_tensors(model.architecture())));
  } else {
    model.initialise(static_cast<std::uint64_t>(config.train.seed));
  }
}

/// Of the part of the shards that this rank verifies: the ranks of a machine share them. Local.
std::unique_ptr<ShardVerifier> make_verifier(VerifyData verify, int rank, const std::vector<std::string>& hosts) {
  if (verify == VerifyData::off) return std::make_unique<ShardVerifier>();
  const auto mine = hosts.begin() + rank;
  return std::make_unique<ShardVerifier>(static_cast<int>(std::count(hosts.begin(), mine, *mine)),
                                         static_cast<int>(std::ranges::count(hosts, *mine)));
}

/// Verifies all data before anything rests on them. Collective over the session's world.
void verify_now(ShardVerifier& verifier, const TrainPlan& plan, Session& session) {
  verifier.use(*plan.training, 0, plan.training->tokens());
  if (plan.validation) verifier.use(*plan.validation, 0, plan.validation->tokens());
  verifier.settle(session);
}

AdamW make_optimizer(const OptimizerOptions& options, const Model& model) { return {options, model.parameters()}; }

RunRecord run_record(const TrainConfig& config, const TrainPlan& plan, const Output& output,
                     const std::vector<std::string>& hosts, int threads, const TrainState& start,
                     const std::optional<Path>& resumed) {
  Json build = Json::object();
  for (const auto& [key, value] : build_info()) build[key] = value;
  Json mesh = Json::object();
  for (const Axis& axis : plan.mesh.axes) mesh[axis.name] = axis.size;
  const std::set<std::string> distinct(hosts.begin(), hosts.end());
  const std::int64_t tokens_per_step = config.train.global_batch * config.data.sequence_length;
  return {.tool = "train",
          .version = std::string(version()),
          .build = std::make_shared<Json>(std::move(build)),
          .config = std::make_shared<Json>(to_json(output.settings())),
          .mesh = std::make_shared<Json>(std::move(mesh)),
          .run_dir = config.train.run_dir,
          .ranks = plan.ranks,
          .hosts = {distinct.begin(), distinct.end()},
          .threads_per_rank = threads,
          .arithmetic = describe_arithmetic(),
          .parameters = parameter_count(plan.architecture),
          .global_batch = config.train.global_batch,
          .tokens_per_step = tokens_per_step,
          .flops_per_step = plan.flops_per_token * static_cast<double>(tokens_per_step),
          .start_step = start.step,
          .resumed_from = resumed ? std::optional(resumed->string()) : std::nullopt};
}

int exit_code_of(LoopEnd end) {
  switch (end) {
    case LoopEnd::finished: return static_cast<int>(ExitCode::done);
    case LoopEnd::stopped_saved: return static_cast<int>(ExitCode::stopped);
    case LoopEnd::stopped_now: return static_cast<int>(ExitCode::verdict);
  }
  return static_cast<int>(ExitCode::bug);
}

SummaryRecord summary(LoopEnd end, const TrainState& start, const TrainState& now, double wall_s,
                      const std::optional<std::string>& checkpoint) {
  SummaryRecord record{.reason = end == LoopEnd::finished ? "finished" : "stopped",
                       .exit_code = exit_code_of(end),
                       .step = now.step,
                       .tokens = now.tokens,
                       .skipped = now.skipped,
                       .wall_s = wall_s,
                       .tokens_per_s = {},
                       .loss = now.loss,
                       .eval_loss = now.eval_loss,
                       .checkpoint = checkpoint,
                       .records_lost = 0};
  if (now.tokens > start.tokens) record.tokens_per_s = static_cast<double>(now.tokens - start.tokens) / wall_s;
  return record;
}

void log_end(Log& log, const SummaryRecord& record) {
  log.info("{} at step {}: loss {}{}, {} tokens in {}{}", record.reason, record.step,
           record.loss ? fmt::format("{:.4f}", *record.loss) : "unknown",
           record.eval_loss ? fmt::format(", validation loss {:.4f}", *record.eval_loss) : "",
           human_count(static_cast<double>(record.tokens)), human_seconds(record.wall_s),
           record.checkpoint ? ", last checkpoint " + *record.checkpoint : "");
  if (record.records_lost > 0) log.warning("{} records could not be written", record.records_lost);
  if (record.exit_code == static_cast<int>(ExitCode::stopped)) log.info("the same command goes on from here");
  if (record.exit_code == static_cast<int>(ExitCode::verdict))
    log.warning("asked to stop a second time: what came after the last checkpoint is not saved");
}

}  // namespace

int train(const TrainConfig& config, Session& session, Output& output) {
  if (config.print_program || output.common().dry_run) return answer_without_training(config, session, output);

  Communicator& world = session.world();
  const double start_s = monotonic_seconds();
  session.configure(session_settings(config));
  session.accept_stop_signals();
  const std::vector<std::string> hosts = hosts_of(world);
  const auto local_ranks = std::ranges::count(hosts, hosts[static_cast<std::size_t>(world.rank())]);
  const int threads =
      threads_per_rank(checked_cast<int>(config.train.threads.value_or(0), "train.threads", ExitCode::usage),
                       checked_cast<int>(local_ranks, "the number of ranks of this machine"));
  set_up_runtime(threads);
  want_matrix_unit(config.precision.matrix_unit);

  TrainPlan plan;
  together(world, "plan the run", [&] {
    plan = make_train_plan(config, world.size());
    const std::vector<std::string> notes = group_notes(config, plan);
    if (world.rank() != 0) return;
    for (const std::string& note : notes) output.log().info("{}", note);
  });
  agree_equal(world, "the step program", to_hex(hash_of(plan.programs.train)) + to_hex(hash_of(plan.programs.eval)));
  if (config.train.memory_check) require_memory(world, plan);
  RunFiles files(world, config.train.run_dir, output.log());
  const std::string unexplained =
      rank0_tells(world, "read status.json", [&] { return unexplained_end(config.train.run_dir).value_or(""); });
  together(world, "write status.json", [&] { keep_status(session, config.train.run_dir); });
  together(world, "start", [&] { session.enter(Phase::start_up); });

  std::optional<Model> model;
  std::optional<AdamW> optimizer;
  std::unique_ptr<Tokenizer> tokenizer;
  together(world, "make the model", [&] {
    model.emplace(plan.architecture, config.precision.dtype);
    optimizer.emplace(make_optimizer(config.optimizer, *model));
    tokenizer = plan.dataset.tokenizer();
  });
  TrainState train_state;
  const std::vector<Component> components =
      components_of(*model, train_state, plan.mesh, *plan.architecture.config.original);
  const std::optional<Path> resumed = resume_or_start(config, plan, session, output.log(), components);
  together(world, "fill the weights", [&] {
    if (!resumed) fill_weights(config, *model);
    for (const auto& unit : model->units()) unit->update_compute_copy();
  });
  const TrainState start = train_state;

  const std::string config_yaml = to_yaml(output.settings(), tool_of(config), PrintExtent::full);
  const std::vector<std::pair<std::string, std::string>> documents{
      {"config.yaml", config_yaml},
      {"config.json", to_text(*plan.architecture.config.original)},
      {"dataset", dataset_identity(plan.dataset)}};
  files.open(world, config, config_yaml, *tokenizer);
  if (world.rank() == 0) {
    if (resumed) output.log().info("goes on from {}", resumed->string());
    output.log().info("{} a rank, {}; this run:\n{}", counted(threads, "thread"), describe_arithmetic(),
                      describe_plan(config, plan));
    files.records().write(run_record(config, plan, output, hosts, threads, start, resumed));
    if (!unexplained.empty()) {
      output.log().warning("{}", unexplained);
      files.records().write(EventRecord{.step = start.step, .name = "unexplained_end", .message = unexplained});
    }
  }

  const std::unique_ptr<ShardVerifier> verifier = make_verifier(config.data.verify, world.rank(), hosts);
  if (config.data.verify == VerifyData::start) verify_now(*verifier, plan, session);
  CommunicationLane lane(session, "reduction");
  Engine engine(*model, *optimizer, plan.programs, session, lane, config.optimizer.clip_norm);
  TrainingLoop loop({config, plan, session, output, files, engine, *model, *tokenizer, components, documents,
                     train_state, *verifier});
  const LoopEnd end = run_loop(loop, session);

  session.enter(Phase::shutdown, train_state.step);
  output.log().debug("left the loop after step {}", train_state.step);
  SummaryRecord record = summary(end, start, train_state, monotonic_seconds() - start_s, loop.last_checkpoint());
  if (world.rank() == 0) {
    files.records().flush();
    record.records_lost = files.records().lost();
    files.records().write(record);
    log_end(output.log(), record);
  }
  files.close();
  return exit_code_of(end);
}

}  // namespace lockstep
