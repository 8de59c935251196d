#include "train/resume_or_start.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/resume.hpp"
#include "comm/together.hpp"

#include <algorithm>

namespace lockstep {

namespace {

std::string meaning(const Resume& resume) {
  switch (resume.from) {
    case Resume::From::best: return "best";
    case Resume::From::step: return std::to_string(resume.step);
    case Resume::From::path: return resume.path;
    case Resume::From::automatic:
    case Resume::From::never:
    case Resume::From::latest: break;
  }
  return "latest";
}

/// A run never goes on behind checkpoints that it already has: they would be overwritten.
void refuse_to_overwrite(const TrainConfig& config, std::int64_t start_step) {
  const std::vector<CheckpointEntry> entries = list_checkpoints(config.train.run_dir);
  if (entries.empty() || entries.back().step <= start_step) return;
  throw Error(ExitCode::usage,
              fmt::format("checkpoint.resume = {} starts {} at step {}, but it has checkpoints up to step {}",
                          config.checkpoint.resume.text(), config.train.run_dir, start_step, entries.back().step),
              "give the new run a train.run_dir of its own");
}

/// Damaged checkpoints newer than the one that the run goes on from stand where it will save again: they become
/// .failed-….
void put_aside_damaged(const TrainConfig& config, std::int64_t start_step, Log& log) {
  for (const CheckpointEntry& entry : list_checkpoints(config.train.run_dir)) {
    if (entry.step <= start_step) continue;
    const Path aside = entry.path.parent_path() / fmt::format(".failed-{}", entry.path.filename().string());
    try_remove_tree(aside);  // an older one of this name only stands in the way
    publish_rename(entry.path, aside);
    log.warning("the damaged {} is now {}", entry.path.string(), aside.filename().string());
  }
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
  fail(ExitCode::input, "{} carries no {}: it is no checkpoint of a training run", reader.path().string(), name);
}

void check_same_trajectory(const TrainConfig& config, const TrainPlan& plan, const CheckpointReader& reader) {
  std::vector<std::string> problems;
  const std::string origin = reader.path().string() + " (config.yaml)";
  for (const Difference& difference : differing_fixed_options(document(reader, "config.yaml"), origin, config)) {
    compare(problems, difference.option, difference.saved, difference.now);
  }
  compare(problems, "content of data.path", document(reader, "dataset"), dataset_identity(plan.dataset));
  compare_models(problems, parse_json(document(reader, "config.json"), origin), *plan.architecture.config.original);
  if (problems.empty()) return;
  throw Error(ExitCode::usage,
              fmt::format("cannot resume from {}: what follows would alter the trajectory\n  {}",
                          reader.path().string(), join(problems, "\n  ")),
              "restore these values, or start a new run in another train.run_dir (model.path takes exported weights)");
}

}  // namespace

std::string dataset_identity(const Dataset& dataset) {
  StreamHash hash;
  hash.add(to_hex(dataset.manifest.tokenizer_hash));
  for (const ShardEntry& shard : dataset.manifest.train.shards) hash.add(to_hex(shard.hash));
  return to_hex(hash.digest());
}

std::optional<Path> resume_or_start(const TrainConfig& config, const TrainPlan& plan, Session& session, Log& log,
                                    const std::vector<Component>& components) {
  Communicator& world = session.world();
  session.enter(Phase::load);
  const Resume& wanted = config.checkpoint.resume;
  if (wanted.from == Resume::From::never) {
    together(world, "start from scratch", [&] { refuse_to_overwrite(config, 0); });
    return std::nullopt;
  }
  const bool newest = wanted.from == Resume::From::automatic || wanted.from == Resume::From::latest;
  const Resumed resumed = resume(world, {.mesh = plan.mesh}, config.train.run_dir, meaning(wanted), components,
                                 [&](const CheckpointReader& reader) {
                                   check_same_trajectory(config, plan, reader);
                                   if (!newest) refuse_to_overwrite(config, reader.manifest().step);
                                 });
  if (world.rank() == 0) {
    for (const std::string& reason : resumed.rejected) log.warning("passed over a damaged checkpoint: {}", reason);
  }
  if (!resumed.checkpoint) {
    if (wanted.from == Resume::From::automatic) return std::nullopt;
    throw Error(ExitCode::input,
                fmt::format("checkpoint.resume is {}, but {} has no checkpoint", wanted.text(), config.train.run_dir),
                "checkpoint.resume: auto starts from scratch where there is none");
  }
  together(world, "put damaged checkpoints aside", [&] {
    if (newest && world.rank() == 0) put_aside_damaged(config, resumed.checkpoint->step, log);
  });
  return resumed.checkpoint->path;
}

}  // namespace lockstep
