#include "train/resume_or_start.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "checkpoint/resume.hpp"
#include "comm/together.hpp"
#include "config/fixed_options.hpp"
#include "reshard/named_part.hpp"
#include "store/verdict.hpp"
#include "tensor/runtime.hpp"
#include "train/evaluated_metrics.hpp"
#include "train/kept_run.hpp"
#include "train/run_files.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace lockstep {

namespace {

/// What a user can type to begin a new run with a checkpoint of this one.
std::string new_run_from(const TrainConfig& config, const Path& checkpoint, std::int64_t step) {
  return fmt::format("--train.run_dir {}-from-{} --checkpoint.resume {}", config.train.run_dir, step,
                     checkpoint.string());
}

/// The step of the newest checkpoint that is seen here, of the run or of its local tier; nothing if there is none.
std::optional<std::int64_t> newest_step(const TrainConfig& config, const std::optional<Path>& local_tier) {
  std::vector<CheckpointEntry> entries = list_checkpoints(config.train.run_dir);
  if (local_tier) {
    const std::vector<CheckpointEntry> others = list_checkpoints(*local_tier);
    entries.insert(entries.end(), others.begin(), others.end());
  }
  const auto newest = std::ranges::max_element(entries, {}, &CheckpointEntry::step);
  return newest == entries.end() ? std::nullopt : std::optional(newest->step);
}

/// A run never goes on behind checkpoints that it already has: they would be overwritten.
void refuse_to_overwrite(const TrainConfig& config, const CheckpointReader& reader) {
  const std::optional<std::int64_t> newest = newest_step(config, known_local_tier(config));
  const std::int64_t step = reader.manifest().step;
  if (!newest || *newest <= step) return;
  throw Error(
      ExitCode::usage,
      fmt::format("checkpoint.resume = {} is step {}, but {} has checkpoints up to step {}",
                  config.checkpoint.resume.text(), step, config.train.run_dir, *newest),
      fmt::format("leave checkpoint.resume out to resume from step {}, or start a new run from step {}: the same "
                  "command with {}",
                  *newest, step, new_run_from(config, reader.path(), step)));
}

std::string part_option(const TrainConfig& config) {
  return config.checkpoint.only.empty() ? "checkpoint.skip" : "checkpoint.only";
}

/// Collective over `world`: one rank looks which run a path is of.
ResumeTarget wanted_by(const TrainConfig& config, Communicator& world) {
  const Resume& resume = config.checkpoint.resume;
  switch (resume.from) {
    case Resume::From::best: return {ResumeTarget::Kind::best};
    case Resume::From::step: return {ResumeTarget::Kind::step, resume.step};
    case Resume::From::automatic:
    case Resume::From::never:
    case Resume::From::afresh:
    case Resume::From::latest: return {};
    case Resume::From::path: break;
  }
  const std::string own = run_on_rank0(world, "read checkpoint.resume", [&] {
    const auto step = step_within(resume.path, config.train.run_dir);
    return step ? std::to_string(*step) : std::string();
  });
  if (!own.empty() && takes_part(config.checkpoint))
    throw Error(ExitCode::usage,
                fmt::format("{} loads only a part of {}, which is a checkpoint of {} itself: a run resumes only from "
                            "its whole checkpoint",
                            part_option(config), resume.path, config.train.run_dir),
                "set another train.run_dir for the new run");
  if (!own.empty()) return {ResumeTarget::Kind::step, std::stoll(own)};
  return {ResumeTarget::Kind::start, 0, resume.path};
}

/// Damaged checkpoints of the run that are newer than the one it goes on from stand where it will save again.
void put_aside_damaged(const Path& run, const Resumed& resumed, Log& log) {
  for (const SkippedCheckpoint& passed : resumed.damaged) {
    const auto step = step_within(passed.checkpoint.path, run);
    if (!step || *step <= resumed.checkpoint->step || !is_there(passed.checkpoint.path)) continue;
    log.warning("the damaged {} is now {}, where it stays until you remove it", passed.checkpoint.path.string(),
                put_aside(passed.checkpoint.path, SetAsideReason::damaged).filename().string());
  }
}

/// A run that starts afresh has other checkpoints at the steps of the former one.
void put_aside_all(const Path& run, Log& log) {
  for (const CheckpointEntry& former : list_checkpoints(run))
    log.warning("{} of a former run is now {}, where it stays until you remove it", former.path.string(),
                put_aside(former.path, SetAsideReason::former).filename().string());
}

void compare(std::vector<std::string>& problems, const std::string& what, const std::string& saved,
             const std::string& now) {
  if (saved != now) problems.push_back(fmt::format("{}: saved {}, now {}", what, saved, now));
}

/// Keys of two Hugging Face configs that differ.
void compare_models(std::vector<std::string>& problems, const Json& saved, const Json& now) {
  for (const auto& [key, value] : now.items()) {
    if (key == "torch_dtype" || key == "dtype" || key == "transformers_version") continue;
    if (!saved.contains(key) || saved.at(key) != value) {
      problems.push_back(fmt::format("{} of the model's config: saved {}, now {}", key,
                                     saved.contains(key) ? to_text(saved.at(key)) : "nothing", to_text(value)));
    }
  }
}

const std::string& document(const CheckpointReader& reader, const std::string& name) {
  for (const auto& [key, text] : reader.manifest().documents) {
    if (key == name) return text;
  }
  fail(ExitCode::usage, "{} has no {}: it is not a checkpoint of a training run", reader.path().string(), name);
}

/// A saved configuration that this program cannot read is of another version: the manifest's hash covers it.
std::vector<Difference> differing_options(const CheckpointReader& reader, const TrainConfig& config,
                                          const TrainPlan& plan) {
  SavedRun saved{
      document(reader, "config.yaml"), reader.path().string() + " (config.yaml)", {}, reader.manifest().step};
  try {
    saved.resolved = resolved_in(reader.manifest(), reader.path().string());
    return differing_fixed_options(saved, config, plan.resolved(config));
  } catch (const Error& error) {
    fail_foreign(error.what(), reader.manifest().software);
  }
}

void check_steps_left(const TrainConfig& config, const TrainPlan& plan, const CheckpointReader& reader) {
  const std::int64_t done = reader.manifest().step;
  if (done <= plan.length.steps) return;
  if (!config.train.max_steps)
    throw Error(ExitCode::usage,
                fmt::format("train.epochs {} are {}, but {} has done {} steps", *config.train.epochs,
                            counted(plan.length.steps, "step"), reader.path().string(), done),
                "set more epochs to continue this run, or another train.run_dir for a shorter one");
  throw Error(
      ExitCode::usage,
      fmt::format("train.max_steps is {}, but {} has done {} steps", plan.length.steps, reader.path().string(), done),
      fmt::format("set --train.max_steps {} or more to continue this run, or another train.run_dir for a shorter one",
                  done));
}

/// The samples that a position in the data counts: those of one split, or of several as they are mixed, packed in one
/// way.
void compare_samples(std::vector<std::string>& problems, const TrainConfig& config, const TrainPlan& plan,
                     const CheckpointReader& reader) {
  std::ranges::copy(dataset_differences(document(reader, "dataset"), plan.training), std::back_inserter(problems));
  if (!problems.empty()) return;  // of which packings are others
  const auto& documents = reader.manifest().documents;
  const auto packed = std::ranges::find(documents, "packing", &std::pair<std::string, std::string>::first);
  compare(problems, "packing", packed == documents.end() ? "windows" : packed->second,
          packing_identity(config, plan.training));
}

/// Returns what differs and may.
std::vector<Difference> check_same_trajectory(const TrainConfig& config, const TrainPlan& plan,
                                              const CheckpointReader& reader) {
  std::vector<Difference> changed;
  std::vector<std::string> problems;
  std::string end_of_decay;  // as saved, if it differs
  for (const Difference& difference : differing_options(reader, config, plan)) {
    if (may_change(config, difference.option)) {
      changed.push_back(difference);
      continue;
    }
    compare(problems, difference.option, difference.saved, difference.now);
    if (difference.option == "schedule.decay_steps") end_of_decay = difference.saved;
  }
  compare_samples(problems, config, plan, reader);
  compare_models(problems, parse_json(document(reader, "config.json"), reader.path().string()),
                 *plan.architecture.config.original);
  if (problems.empty()) return changed;
  const bool decay_only = problems.size() == 1 && !end_of_decay.empty();
  throw Error(ExitCode::usage,
              fmt::format("cannot resume from {}: these changes would affect training\n  {}", reader.path().string(),
                          join(problems, "\n  ")),
              decay_only
                  ? fmt::format("--schedule.decay_steps {} keeps the former learning rates, --checkpoint.allow_change "
                                "schedule takes those of the new length",
                                end_of_decay)
                  : "restore these values, list the options that may change in checkpoint.allow_change, or start a new "
                    "run in another train.run_dir (--checkpoint.only model loads only the weights of another run)");
}

/// What an evaluation asks of a checkpoint: it makes no step that could leave the trajectory. Its data may be other.
void check_same_model(const TrainPlan& plan, const CheckpointReader& reader) {
  std::vector<std::string> problems;
  const Json saved = parse_json(document(reader, "config.json"), reader.path().string());
  compare_models(problems, saved, *plan.architecture.config.original);
  if (problems.empty()) return;
  throw Error(ExitCode::usage,
              fmt::format("{} holds another model\n  {}", reader.path().string(), join(problems, "\n  ")),
              "set --model.config to the config.json that it was trained with");
}

/// The position in the data counts samples in their order.
void check_same_samples(const TrainConfig& config, const TrainPlan& plan, const CheckpointReader& reader) {
  std::vector<std::string> problems;
  for (const Difference& difference : differing_options(reader, config, plan)) {
    if (difference.option.starts_with("data.") || difference.option == "train.seed")
      compare(problems, difference.option, difference.saved, difference.now);
  }
  compare_samples(problems, config, plan, reader);
  if (problems.empty()) return;
  throw Error(ExitCode::usage,
              fmt::format("cannot continue the data of {}: its position counts other samples\n  {}",
                          reader.path().string(), join(problems, "\n  ")),
              "use --checkpoint.skip data to read the data from the beginning");
}

/// What of another run's checkpoint a new run begins with: its trajectory is a new one, so options may be others, but
/// what is loaded must fit together and to this run.
CheckpointPart choose_part(const TrainConfig& config, const TrainPlan& plan, const CheckpointReader& reader) {
  const Manifest& manifest = reader.manifest();
  CheckpointPart part = named_part(manifest.components, manifest.tensors,
                                   {config.checkpoint.only, config.checkpoint.skip, "checkpoint."});
  const auto has = [&](const char* component) { return part.components.contains(component); };
  const auto has_whole = [&](const char* component) {
    for (std::size_t i = 0; i < manifest.tensors.size(); ++i)
      if (manifest.tensors[i].component == component && !part.tensors[i]) return false;
    return has(component);
  };
  if (!has("model"))
    throw Error(ExitCode::usage,
                fmt::format("{} loads no part of the model of {}", part_option(config), reader.path().string()),
                "use --checkpoint.only model to load only the weights, or leave checkpoint.resume out to load nothing");
  if (has("optimizer") != has_whole("trainer"))
    throw Error(
        ExitCode::usage,
        fmt::format("{} loads the {} of {} without its {}: the moments and their number of steps belong together",
                    part_option(config), has("optimizer") ? "optimizer" : "trainer", reader.path().string(),
                    has("optimizer") ? "trainer" : "optimizer"),
        "load both or neither: --checkpoint.only [model, optimizer, trainer] or --checkpoint.skip [optimizer, "
        "trainer]");
  if (!has_whole("model") || !has_whole("optimizer")) {  // cells have weights and moments of their own
    part.components.erase("local");
    for (std::size_t i = 0; i < manifest.tensors.size(); ++i)
      if (manifest.tensors[i].component == "local") part.tensors[i] = false;
  }
  if (has_whole("model")) check_same_model(plan, reader);
  if (has("trainer")) check_steps_left(config, plan, reader);
  if (has("data")) check_same_samples(config, plan, reader);
  return part;
}

/// Whether it has weights and nothing else of a run: an import of a Hugging Face folder, an average.
bool holds_weights_alone(const Manifest& manifest) {
  return manifest.components.size() == 1 && manifest.components.front().key == "model";
}

/// Whether it lacks what a run goes on from, as checkpoint.components may say.
bool lacks_state(const Manifest& manifest) {
  return std::ranges::any_of(std::array{"optimizer", "trainer", "data"},
                             [&](const char* key) { return find_component(manifest, key) == nullptr; });
}

/// Files of others mostly have weights of 16 bits, and a load converts nothing.
void check_types(const TrainPlan& plan, const CheckpointReader& reader) {
  for (const StoredTensor& tensor : reader.manifest().tensors) {
    const DType saved = tensor.layout.dtype, kept = plan.types.kept();
    if (is_values(tensor) || saved == kept || !is_floating(saved)) continue;
    throw Error(ExitCode::usage,
                fmt::format("{} has weights in {}, but this run keeps them in {}", reader.path().string(),
                            name_of(saved), name_of(kept)),
                fmt::format("checkpoint-reshard {} --consolidate --cast {} --output NEW converts them",
                            reader.path().string(), name_of(kept)));
  }
}

/// What of the checkpoint of another run that checkpoint.resume names a new run begins with, if it is not all of it.
ChoosePart part_of_start(const ResumeTarget& wanted, const TrainConfig& config, const TrainPlan& plan) {
  if (wanted.by != ResumeTarget::Kind::start) return {};
  return [&](const CheckpointReader& reader) -> std::optional<CheckpointPart> {
    const bool weights_alone = holds_weights_alone(reader.manifest());
    if (weights_alone) check_types(plan, reader);
    if (!lacks_state(reader.manifest()) && !takes_part(config.checkpoint)) return std::nullopt;
    return choose_part(config, plan, reader);
  };
}

/// An evaluation uses the weights and the step of a checkpoint. With state of cells it loads their average, and says
/// so.
CheckpointPart part_to_evaluate(const TrainPlan& plan, const CheckpointReader& reader) {
  const Manifest& manifest = reader.manifest();
  check_same_model(plan, reader);
  if (holds_weights_alone(manifest)) check_types(plan, reader);
  CheckpointPart part;
  for (const char* const key : {"model", "trainer", "local"})
    if (find_component(manifest, key) != nullptr) part.components.insert(key);
  for (const StoredTensor& tensor : manifest.tensors)
    part.tensors.push_back(part.components.contains(tensor.component));
  return part;
}

/// Loads what `request` wants and logs what it passed over. Collective over the world.
Resumed load_as_asked(const TrainConfig& config, const TrainPlan& plan, Session& session, Log& log,
                      const LoadedState& state, ResumeRequest request) {
  Communicator& world = session.world();
  request.threads = thread_count();
  request.best_by = best_by(config.checkpoint, plan.deciding_metrics(config));
  request.patience_s = config.checkpoint.patience.value;
  request.refresh = state.refresh;
  request.storage = state.storage;
  request.local = state.local;
  request.tell = [&](const std::string& reason) {
    if (world.rank() == 0) log.warning("{}", reason);
  };
  Resumed resumed = resume(world, state.ranks, state.components, request);
  if (world.rank() == 0) {
    for (const SkippedCheckpoint& passed : resumed.damaged)
      log.warning("skipped a damaged checkpoint: {}", to_text(passed));
    const bool says_all = resumed.in_part && plan.trains;
    for (const std::string& what : says_all ? resumed.loaded.notes : resumed.loaded.left_out) log.info("{}", what);
  }
  return resumed;
}

}  // namespace

void refuse_to_start_over(const TrainConfig& config) {
  if (config.checkpoint.resume.from != Resume::From::never) return;
  const std::optional<std::int64_t> newest = newest_step(config, known_local_tier(config));
  if (!newest) return;
  throw Error(ExitCode::usage,
              fmt::format("checkpoint.resume = never starts {} from scratch, but it has checkpoints up to step {}",
                          config.train.run_dir, *newest),
              "set another train.run_dir for the new run");
}

RunStart resume_or_start(const TrainConfig& config, const TrainPlan& plan, Session& session, Log& log,
                         const LoadedState& state) {
  Communicator& world = session.world();
  session.enter(Phase::load);
  if (config.checkpoint.resume.from == Resume::From::never) {
    together(world, "start from scratch", [&] { refuse_to_start_over(config); });
    return {};
  }
  if (config.checkpoint.resume.from == Resume::From::afresh) {
    together(world, "rename the former checkpoints", [&] {
      if (state.storage.keeps(world.rank())) put_aside_all(config.train.run_dir, log);
      if (state.local && state.local->storage.keeps(world.rank())) put_aside_all(state.local->folder, log);
    });
    return {};
  }
  const ResumeTarget wanted = wanted_by(config, world);
  const bool named = wanted.by == ResumeTarget::Kind::best || wanted.by == ResumeTarget::Kind::step;
  std::vector<Difference> changed;
  const Accept accept = [&](const CheckpointReader& reader) {
    check_steps_left(config, plan, reader);
    changed = check_same_trajectory(config, plan, reader);
    if (named) refuse_to_overwrite(config, reader);
    if (state.accepted) state.accepted(reader);
  };
  const Resumed resumed = load_as_asked(
      config, plan, session, log, state,
      {.run = config.train.run_dir, .wanted = wanted, .accept = accept, .part = part_of_start(wanted, config, plan)});
  if (!resumed.checkpoint) {
    if (config.checkpoint.resume.from == Resume::From::automatic) return {};
    throw Error(ExitCode::input,
                fmt::format("checkpoint.resume is {}, but {} has no checkpoint", config.checkpoint.resume.text(),
                            config.train.run_dir),
                "checkpoint.resume auto starts from scratch if there is no checkpoint");
  }
  together(world, "rename damaged checkpoints", [&] {
    if (state.storage.keeps(world.rank())) put_aside_damaged(config.train.run_dir, resumed, log);
    if (state.local && state.local->storage.keeps(world.rank())) put_aside_damaged(state.local->folder, resumed, log);
  });
  return {resumed.checkpoint->path, std::move(changed)};
}

namespace {

[[noreturn]] void fail_without_weights(const TrainConfig& config) {
  throw Error(ExitCode::input,
              fmt::format("{} has no checkpoint to {}", config.train.run_dir, config.eval_only ? "evaluate" : "sample"),
              "set train.run_dir to the folder of a run, or name weights with --model.path");
}

}  // namespace

void require_weights(const TrainConfig& config, Communicator& world) {
  const Resume& resume = config.checkpoint.resume;
  const bool names_path = resume.from == Resume::From::path;
  together(world, {}, [&] {
    if (names_path && !is_there(resume.path))
      throw Error(ExitCode::input, fmt::format("checkpoint.resume: there is no {}", resume.path),
                  "name the folder of a run or of a checkpoint");
    if (config.model.path || names_path) return;
    const auto local = known_local_tier(config);  // of which another node may know more
    if (resume.from_scratch() || (!local && !newest_step(config, local))) fail_without_weights(config);
  });
}

std::optional<Path> load_weights_alone(const TrainConfig& config, const TrainPlan& plan, Session& session, Log& log,
                                       const LoadedState& state) {
  session.enter(Phase::load);
  const Resume& resume = config.checkpoint.resume;
  const bool names_none = config.train.run_dir.empty() && resume.from != Resume::From::path;
  if (!resume.from_scratch() && !names_none) {
    const ResumeTarget wanted = wanted_by(config, session.world());
    const Resumed resumed =
        load_as_asked(config, plan, session, log, state,
                      {.run = wanted.by == ResumeTarget::Kind::start ? wanted.start : Path(config.train.run_dir),
                       .wanted = wanted,
                       .part = [&](const CheckpointReader& reader) { return part_to_evaluate(plan, reader); },
                       .part_of_newest = true});
    if (resumed.checkpoint) return resumed.checkpoint->path;
  }
  if (config.model.path) return std::nullopt;
  fail_without_weights(config);
}

}  // namespace lockstep
