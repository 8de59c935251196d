#include "train/train_job.hpp"

#include "app/agreed_start.hpp"
#include "app/status_file.hpp"
#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "config/fixed_options.hpp"
#include "exchange/model_folder.hpp"
#include "report/build_info.hpp"
#include "store/run_directory.hpp"
#include "store/tokenizer_record.hpp"
#include "tensor/runtime.hpp"
#include "tokenizer/tokenizers.hpp"
#include "train/eval_only.hpp"
#include "train/export_at_end.hpp"
#include "train/kept_run.hpp"
#include "train/loop.hpp"
#include "train/plan_answers.hpp"
#include "train/resume_or_start.hpp"
#include "train/run_mesh.hpp"
#include "train/run_model.hpp"
#include "train/run_preparation.hpp"
#include "train/run_seed.hpp"
#include "train/run_setup.hpp"
#include "train/stopped_run.hpp"

#include <algorithm>
#include <set>

namespace lockstep {

namespace {

std::string record_of(const Tokenizer& tokenizer) {
  std::vector<std::pair<std::string, std::string>> files;
  for (TokenizerFile& file : saved_files(tokenizer)) files.emplace_back(std::move(file.name), std::move(file.content));
  return tokenizer_record(files);
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

/// Verifies all data before anything rests on them. Collective over the session's world.
void verify_now(ShardVerifier& verifier, const TrainPlan& plan, Session& session) {
  for (const RunDataset& dataset : plan.training)
    if (dataset.stream) verifier.use(*dataset.stream, 0, dataset.stream->tokens());
  for (const EvaluationPlan& evaluation : plan.evaluations)
    if (const auto& stream = evaluation.set.stream) verifier.use(*stream, 0, stream->tokens());
  verifier.settle(session);
}

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
  const std::vector<Row> rows = rows_of(config, plan, machines.placement);
  std::string text = to_text(config.plan ? rows : brief(rows));
  text.pop_back();  // a log line brings its own end
  log.info("{} per rank, {}; this run:\n{}", counted(machines.threads, "thread"), describe_arithmetic(), text);
}

int exit_code_of(LoopEnd end) {
  switch (end) {
    case LoopEnd::finished: return static_cast<int>(ExitCode::done);
    case LoopEnd::stopped_saved: return static_cast<int>(ExitCode::stopped);
    case LoopEnd::stopped_now: return static_cast<int>(ExitCode::verdict);
  }
  return static_cast<int>(ExitCode::bug);
}

SummaryRecord summary(LoopEnd end, const TrainingLoop& loop, const TrainPlan& plan, const TrainState& now,
                      const std::shared_ptr<const Json>& datasets, double wall_s,
                      const std::vector<std::int64_t>& peak_memory) {
  SummaryRecord record{.reason = end == LoopEnd::finished ? "finished" : "stopped",
                       .exit_code = exit_code_of(end),
                       .step = now.step,
                       .tokens = now.tokens,
                       .datasets = datasets,
                       .skipped = now.skipped,
                       .wall_s = wall_s,
                       .global_batch = plan.batch.global_batch,
                       .peak_memory_bytes = peak_memory,
                       .loss = now.loss,
                       .eval_loss = now.eval_loss,
                       .checkpoint = loop.last_checkpoint(),
                       .records_lost = 0};
  loop.sum_up(record);
  return record;
}

/// The most memory that each rank has had at once, by rank; on rank 0. Collective over `world`.
std::vector<std::int64_t> peak_memory_of_ranks(Communicator& world) {
  std::vector<std::int64_t> bytes;
  for (const std::string& kib : world.gather(std::to_string(holdings_of_process().peak_kib), 0))
    bytes.push_back(std::stoll(kib) * 1024);
  return bytes;
}

/// Speeds and memory, in one line.
std::string performance_text(const SummaryRecord& record) {
  std::string text;
  if (record.speed_from_step)
    text = fmt::format("from step {} on {:.3g} steps/s, {} samples/s, {} tokens/s, {}FLOP/s{}; ",
                       *record.speed_from_step, *record.steps_per_s, human_count(*record.samples_per_s),
                       human_count(*record.tokens_per_s), human_count(*record.flops_per_s),
                       record.mfu ? fmt::format(", MFU {:.3g} %", 100 * *record.mfu) : "");
  const auto most = std::ranges::max_element(record.peak_memory_bytes);
  text += fmt::format("at most {} of memory", human_bytes(static_cast<std::uint64_t>(*most)));
  if (record.peak_memory_bytes.size() > 1)
    text += fmt::format(" per rank, on rank {}", most - record.peak_memory_bytes.begin());
  return text;
}

/// What the same command would do after exit code 75.
std::string next_start_text(const TrainConfig& config, const SummaryRecord& record) {
  if (!saves_all(config.checkpoint))
    return "the same command cannot resume from here: checkpoint.components omits state that resuming needs";
  const bool seen_by_all = !record.checkpoint || step_within(*record.checkpoint, config.train.run_dir);
  return seen_by_all ? "the same command resumes from here" : "the same command resumes from here on the same nodes";
}

void log_end(Log& log, const TrainConfig& config, const SummaryRecord& record) {
  log.info("{} at step {}: loss {}{}, {} tokens in {}{}", record.reason, record.step,
           record.loss ? fmt::format("{:.4f}", *record.loss) : "unknown",
           record.eval_loss ? fmt::format(", validation loss {:.4f}", *record.eval_loss) : "",
           human_count(static_cast<double>(record.tokens)), human_seconds(record.wall_s),
           record.checkpoint ? ", last checkpoint " + *record.checkpoint : "");
  log.info("{}", performance_text(record));
  if (record.exit_code == static_cast<int>(ExitCode::stopped)) log.info("{}", next_start_text(config, record));
  if (record.exit_code == static_cast<int>(ExitCode::verdict))
    log.warning("asked to stop a second time: steps after the last checkpoint are not saved");
}

/// Rank 0 records it, and the rank whose node has none says it.
void warn_of_no_tier(const AgreedError& failure, std::int64_t step, int rank, RunFiles& files, Log& log) {
  const std::string message =
      fmt::format("{}\n  the run has no local tier: saves go directly to {}", failure.what(), files.folder().string());
  if (rank == failure.owner()) log.warning("{}", message);
  if (rank == 0) files.records().write(EventRecord{.step = step, .name = "local_tier_unusable", .message = message});
}

/// What the run trains on, prepared; nothing where the job was asked to stop meanwhile. Collective.
std::optional<TrainConfig> prepare_or_stop(const TrainConfig& config, Session& session, Output& output) {
  try {
    return with_prepared_data(with_local_model(config, session), WithoutPrepared::prepare, session, output);
  } catch (const AgreedError& error) {
    if (error.code() != ExitCode::verdict) throw;
    if (session.world().rank() == 0)
      output.log().info("asked to stop during data preparation: the same command continues it");
    return std::nullopt;
  }
}

}  // namespace

int train(const TrainConfig& given, Session& session, Output& output) {
  hand_to_plugins(given.plugin_values);
  Communicator& world = session.world();
  const JobIdentity job = job_of_process(digest_of_run(given));
  const FormerProgress former = former_progress(given, job, world);
  const TrainConfig begun_as = former.goes_on && !given.eval_only ? resumed_config(given, world) : given;
  if (asks_for_plan(given, output.common())) return answer_from_plan(begun_as, session, output);
  if (given.eval_only) return evaluate_only(given, session, output);

  output.log().set_format(given.log.format == LogFormat::structured ? Log::Format::json : Log::Format::text);
  const double start_s = monotonic_seconds();
  session.configure(session_settings(given, given.train.run_dir));
  session.accept_stop_signals();
  const Machines machines = set_up_machines(given, world);
  agree_on_start(world, output.settings());
  TrainConfig placed;
  together(world, "lay out the ranks", [&] { placed = with_nodes_filled(begun_as, machines.placement.nodes); });
  together(world, "start from scratch", [&] { refuse_to_start_over(placed); });
  const std::optional<TrainConfig> prepared = prepare_or_stop(with_seed(placed, world), session, output);
  if (!prepared) return static_cast<int>(ExitCode::stopped);
  TrainConfig config = with_kept_multiple(*prepared, world);
  prepare_packings(config, world, output.log());
  const TrainPlan plan = agree_on_plan(config, world);
  const World ranks = world_of(plan, machines);
  RunFiles files(world, config, storage_of(config, ranks), storage_of_nodes(ranks), output.log());
  const std::string unexplained =
      run_on_rank0(world, "read status.json", [&] { return unexplained_end(config.train.run_dir).value_or(""); });
  const FormerProgress found = former_progress(config, job, world);  // now that no other job is at work
  if (found.goes_on != former.goes_on)
    throw Error(ExitCode::usage, fmt::format("another job used {} while this one was starting", config.train.run_dir),
                "start the same command again");
  std::optional<RunStatus> status;
  together(world, "write status.json", [&] { status = keep_status(session, config.train.run_dir, found.progress); });
  together(world, "start", [&] { session.enter(Phase::start_up); });

  std::optional<RunState> state;
  std::unique_ptr<Tokenizer> tokenizer;
  together(world, "make the model", [&] {
    state.emplace(config, plan, world.rank());
    if (const Dataset* dataset = plan.dataset_with_tokenizer()) tokenizer = dataset->tokenizer();
  });
  const RunStart begun = state->fill(config, plan, ranks, files.local_tier(), session, output.log());
  together(world, "write status.json", [&] { status->own_progress(job); });
  const std::optional<Path>& resumed = begun.checkpoint;
  TrainState& train_state = state->train_state;
  const TrainState start = train_state;

  const Settings settings = with_seed(output.settings(), config);
  const std::string config_yaml = to_yaml(settings, tool_of(config), PrintExtent::full);
  std::vector<std::pair<std::string, std::string>> documents{
      {"config.yaml", config_yaml},
      {"config.json", to_text(*plan.architecture.config.original)},
      {"dataset", dataset_identity(plan.training)},
      {"packing", packing_identity(config, plan.training)},
      {ResolvedRun::document, to_text(plan.resolved(config))}};
  if (std::string generation = generation_config_of(config, begun.checkpoint, world); !generation.empty())
    documents.emplace_back(generation_config_file, std::move(generation));
  if (!config.checkpoint.metadata.empty()) {
    Json metadata = Json::object();
    for (const MetadataEntry& entry : config.checkpoint.metadata) metadata[entry.key] = entry.value;
    documents.emplace_back("metadata", to_text(metadata));
  }
  if (tokenizer) documents.emplace_back(tokenizer_document, record_of(*tokenizer));
  files.open(world, config, config_yaml, tokenizer.get());
  if (world.rank() == 0) {
    if (given.checkpoint.resume != config.checkpoint.resume)
      output.log().info("checkpoint.resume is {}, but the last job of this run was {}: the run resumes",
                        given.checkpoint.resume.text(),
                        found.progress->stopped ? "stopped with progress saved" : "requeued by Slurm");
    log_start(config, plan, machines, start, resumed, output.log());
    files.records().write(run_record(config, plan, settings, machines, start, resumed));
    if (given.train.seed != config.train.seed) output.log().info("the seed of this run is {}", config.train.seed);
    for (const Difference& change : begun.changed) {
      const std::string message = fmt::format("{}: changed from {} to {}", change.option, change.saved, change.now);
      output.log().info("{}", message);
      files.records().write(EventRecord{.step = start.step, .name = "option_changed", .message = message});
    }
    if (!unexplained.empty()) {
      output.log().warning("{}", unexplained);
      files.records().write(EventRecord{.step = start.step, .name = "unexplained_end", .message = unexplained});
    }
  }

  if (const auto& failure = files.tier_failure())
    warn_of_no_tier(*failure, start.step, world.rank(), files, output.log());

  const std::unique_ptr<ShardVerifier> verifier = make_verifier(config.data.verify, world.rank(), machines.hosts);
  if (config.data.verify == VerifyData::start) verify_now(*verifier, plan, session);
  Transport transport = make_transport(session, plan.programs);
  Engine engine(state->model, *state->optimizer, plan.programs, session, transport, config.optimizer.clip_norm,
                plan.types.reduce);
  if (config.train.detect_anomaly) engine.search_anomalies();
  TrainingLoop loop({config, plan, ranks, session, output, files, engine, state->model, tokenizer.get(),
                     state->components, state->cells, documents, train_state, *verifier, state->callbacks});
  LoopEnd end = run_loop(loop, session);

  session.enter(Phase::shutdown, train_state.step);
  if (end == LoopEnd::finished && config.checkpoint.export_at_end &&
      !export_at_end(config, files, session, output.log()))
    end = LoopEnd::stopped_saved;
  output.log().debug("left the loop after step {}", train_state.step);
  const std::vector<std::int64_t> peak_memory = peak_memory_of_ranks(world);
  SummaryRecord record = summary(end, loop, plan, train_state, plan.uses_by_name(config, train_state),
                                 monotonic_seconds() - start_s, peak_memory);
  if (world.rank() == 0) {
    files.records().flush();
    record.records_lost = files.records().lost();
    files.report_end(record);
    if (!is_finished(config, plan, start)) log_end(output.log(), config, record);
    if (record.records_lost > 0) output.log().warning("{} records could not be written", record.records_lost);
  }
  files.close();
  return exit_code_of(end);
}

}  // namespace lockstep
