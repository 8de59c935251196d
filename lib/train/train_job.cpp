#include "train/train_job.hpp"

#include "app/agreed_start.hpp"
#include "app/status_file.hpp"
#include "base/clock.hpp"
#include "base/json.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "config/fixed_options.hpp"
#include "config/without_training.hpp"
#include "exchange/model_folder.hpp"
#include "store/run_directory.hpp"
#include "store/tokenizer_record.hpp"
#include "tokenizer/tokenizers.hpp"
#include "train/calibrate.hpp"
#include "train/early_stop.hpp"
#include "train/end_report.hpp"
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
#include "train/sample_only.hpp"
#include "train/start_report.hpp"
#include "train/stopped_run.hpp"
#include "train/try_device.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

/// Files of RUN/tokenizer that changed since the checkpoint are named before they are written anew. Collective.
void tell_changed_tokenizer(const Path& checkpoint, Communicator& world, Log& log) {
  together(world, "check the tokenizer of the checkpoint", [&] {
    if (world.rank() != 0) return;
    for (const Defect& defect : tokenizer_defects(checkpoint))
      log.warning("{}: {}; this run has the tokenizer of its data", checkpoint.string(), defect.message);
  });
}

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

/// What the run trains on, prepared; nothing where the job was asked to stop meanwhile. Collective.
std::optional<TrainConfig> prepare_or_stop(const TrainConfig& config, Session& session, Output& output) {
  try {
    return with_prepared_data(with_local_model(config, session), WithoutPrepared::prepare, session, output);
  } catch (const AgreedError& error) {
    if (error.code() != ExitCode::verdict) throw;
    const std::string reason = agreed_stop_reason(session.stop_reason(), session.world());
    if (session.world().rank() == 0)
      output.log().info("{}", stopped_text(fmt::format("stopped by {} during data preparation", reason),
                                           "the same command continues it"));
    return std::nullopt;
  }
}

/// Completes the configuration of a run: sizes of axes that fill nodes, the seed, prepared data, and the padding that
/// an earlier job of the run had. Nothing if the job was asked to stop meanwhile. Collective.
std::optional<TrainConfig> completed(const TrainConfig& begun_as, const Machines& machines, Session& session,
                                     Output& output) {
  Communicator& world = session.world();
  TrainConfig placed;
  together(world, "lay out the ranks", [&] { placed = with_nodes_filled(begun_as, machines.placement.nodes); });
  together(world, "start from scratch", [&] { refuse_to_start_over(placed); });
  const std::optional<TrainConfig> prepared = prepare_or_stop(with_seed(placed, world), session, output);
  return prepared ? std::optional(with_kept_multiple(*prepared, world)) : std::nullopt;
}

/// The documents that each checkpoint of the run holds, by name. Collective.
std::vector<std::pair<std::string, std::string>> documents_of(const TrainConfig& config, const TrainPlan& plan,
                                                              const std::string& config_yaml,
                                                              const std::optional<Path>& resumed,
                                                              const Tokenizer* tokenizer, Communicator& world) {
  std::vector<std::pair<std::string, std::string>> documents{
      {"config.yaml", config_yaml},
      {"config.json", to_text(*plan.architecture.config.original)},
      {"dataset", dataset_identity(plan.training)},
      {"packing", packing_identity(config, plan.training)},
      {ResolvedRun::document, to_text(plan.resolved(config))}};
  if (std::string generation = generation_config_of(config, resumed, world); !generation.empty())
    documents.emplace_back(generation_config_file, std::move(generation));
  if (!config.checkpoint.metadata.empty()) {
    Json metadata = Json::object();
    for (const MetadataEntry& entry : config.checkpoint.metadata) metadata[entry.key] = entry.value;
    documents.emplace_back("metadata", to_text(metadata));
  }
  if (tokenizer) documents.emplace_back(tokenizer_document, record_of(*tokenizer));
  return documents;
}

/// Why a run resumes that checkpoint.resume would begin anew; empty: it does not.
std::string resumes_all_the_same(const TrainConfig& given, const TrainConfig& config, const FormerProgress& found) {
  if (given.checkpoint.resume == config.checkpoint.resume) return {};
  return fmt::format("checkpoint.resume is {}, but the last job of this run was {}: the run resumes",
                     given.checkpoint.resume.text(),
                     found.progress->stopped ? "stopped with progress saved" : "requeued by Slurm");
}

}  // namespace

int train(const TrainConfig& given, Session& session, Output& output) {
  hand_to_plugins(given.plugin_values);
  const bool plans = asks_for_plan(given, output.common());
  if (given.calibrate) return calibrate(given, session, output);
  if (given.check_device) return check_device(given, session, output);
  if (given.eval_only) return evaluate_only(evaluation_alone(given), session, output);
  if (samples_alone(given)) return sample_only(sampling_alone(given), session, output);
  Communicator& world = session.world();
  const JobIdentity job = job_of_process(digest_of_run(given));
  const FormerProgress former = former_progress(given, job, world);
  const TrainConfig begun_as = former.goes_on ? resumed_config(given, world) : given;
  if (plans) return answer_from_plan(begun_as, session, output);

  // Prepare
  output.log().set_format(given.log.format == LogFormat::structured ? Log::Format::json : Log::Format::text);
  const double start_s = monotonic_seconds();
  session.configure(session_settings(given, given.train.run_dir));
  session.accept_stop_signals();
  const Machines machines = set_up_machines(given, world);
  agree_on_start(world, output.settings());
  std::optional<TrainConfig> whole = completed(begun_as, machines, session, output);
  if (!whole) return static_cast<int>(ExitCode::stopped);
  TrainConfig& config = *whole;
  prepare_packings(config, world, output.log());

  // Plan
  const TrainPlan plan = agree_on_plan(config, world);
  const World ranks = world_of(plan, machines);

  // Start
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
  TrainState& train_state = state->train_state;
  const bool had_finished = is_finished(config, plan, train_state);
  const Settings settings = with_seed(output.settings(), config);
  const std::string config_yaml = to_yaml(settings, tool_of(config), PrintExtent::full);
  const auto documents = documents_of(config, plan, config_yaml, begun.checkpoint, tokenizer.get(), world);
  if (begun.checkpoint) tell_changed_tokenizer(*begun.checkpoint, world, output.log());
  files.open(world, config, config_yaml, tokenizer.get());
  report_start({given, config, plan, settings, machines, train_state, begun, resumes_all_the_same(given, config, found),
                unexplained},
               world.rank(), files, output.log());

  // Run
  const std::unique_ptr<ShardVerifier> verifier = make_verifier(config.data.verify, world.rank(), machines.hosts);
  if (config.data.verify == VerifyData::start) verify_now(*verifier, plan, session);
  Transport transport = make_transport(session, plan.programs);
  Engine engine(state->model, *state->optimizer, plan.programs, session, transport, config.optimizer.clip_norm,
                plan.types.reduce);
  if (config.train.detect_anomaly) engine.search_anomalies();
  TrainingLoop loop({config, plan, ranks, session, output, files, engine, state->model, tokenizer.get(),
                     state->components, state->cells, documents, train_state, *verifier, state->callbacks, start_s});
  LoopEnd end = run_loop(loop, session);

  // Finish
  session.enter(Phase::shutdown, train_state.step);
  if (end == LoopEnd::finished && config.checkpoint.export_at_end &&
      !export_at_end(config, files, session, output.log()))
    end = LoopEnd::stopped_saved;
  const std::string last_line = report_end(
      {.end = end, .config = config, .plan = plan, .loop = loop, .state = train_state, .had_finished = had_finished},
      world, files, output.log());
  files.close();
  if (!last_line.empty()) output.log().info("{}", last_line);
  return exit_code_of(end);
}

}  // namespace lockstep
