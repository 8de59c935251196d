#include "train/run_batch.hpp"

#include "base/error.hpp"
#include "base/words.hpp"
#include "config/fixed_options.hpp"
#include "config/ranges.hpp"
#include "store/manifest.hpp"
#include "store/run_directory.hpp"
#include "train/run_files.hpp"

#include <algorithm>

namespace lockstep {

namespace {

std::optional<ResolvedRun> resolved_in(const Path& checkpoint) {
  const Path file = checkpoint / manifest_file;
  const Manifest manifest = parse_manifest(read_file(file), file.string());
  const auto& documents = manifest.documents;
  const auto found = std::ranges::find(documents, ResolvedRun::document, &std::pair<std::string, std::string>::first);
  if (found == documents.end()) return std::nullopt;
  return parse_resolved(found->second, file.string());
}

/// Of the newest checkpoint in a folder that can be read. What is wrong with others is for a load to say.
std::optional<ResolvedRun> newest_resolved(const Path& run) {
  for (const CheckpointEntry& checkpoint : newest_first(list_checkpoints(run))) {
    try {
      return resolved_in(checkpoint.path);
    } catch (const Error&) {
      continue;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ResolvedRun> kept_run(const TrainConfig& config) {
  const Resume& resume = config.checkpoint.resume;
  if (resume.from_scratch()) return std::nullopt;
  if (const auto own = newest_resolved(config.train.run_dir)) return own;
  if (const auto tier = known_local_tier(config))
    if (const auto own = newest_resolved(*tier)) return own;
  if (resume.from != Resume::From::path || takes_part(config.checkpoint)) return std::nullopt;
  if (const auto other = newest_resolved(resume.path)) return other;
  try {
    return resolved_in(resume.path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::pair<BatchPlan, PassPlan> plan_run_batch(const TrainConfig& config, std::int64_t data_ranks,
                                              const std::optional<ResolvedRun>& kept) {
  BatchWishes wishes{config.train.micro_batch, config.parallel.micro_batches, config.train.accumulation};
  if (config.train.global_batch) return plan_passes(*config.train.global_batch, data_ranks, wishes);
  const std::optional<std::int64_t> said = samples_said(config);
  invariant(said.has_value(), "a run says what its steps are made of");
  std::int64_t batch = *said * data_ranks;
  if (static_cast<double>(batch) > most_count)
    fail(ExitCode::usage, "a step of {} samples on each of {} is too large", *said, counted(data_ranks, "rank"));
  if (kept && kept->global_batch != batch) {
    if (kept->samples_said != said && may_change(config, "train.global_batch"))
      return plan_passes(batch, data_ranks, wishes);
    if (kept->samples_said != said)
      throw Error(ExitCode::usage,
                  fmt::format("train.micro_batch and train.accumulation say {} a step on each of {} that share the "
                              "data, {} together, but a step of this run has {}",
                              counted(*said, "sample"), counted(data_ranks, "rank"), batch, kept->global_batch),
                  fmt::format("--train.global_batch {} --train.accumulation null goes on with the batch of the run",
                              kept->global_batch));
    batch = kept->global_batch;
    wishes.passes.reset();
  }
  return plan_passes(batch, data_ranks, wishes);
}

}  // namespace lockstep
