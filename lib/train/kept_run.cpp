#include "train/kept_run.hpp"

#include "base/error.hpp"
#include "comm/together.hpp"
#include "data/packing.hpp"
#include "store/run_directory.hpp"
#include "train/run_files.hpp"
#include "train/run_samples.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

const std::string* find_document(const Manifest& manifest, const char* name) {
  const auto found = std::ranges::find(manifest.documents, name, &std::pair<std::string, std::string>::first);
  return found == manifest.documents.end() ? nullptr : &found->second;
}

std::optional<ResolvedRun> resolved_in_folder(const Path& checkpoint) {
  const Path file = checkpoint / manifest_file;
  return resolved_in(parse_manifest(read_file(file), file.string()), file.string());
}

/// Of the newest checkpoint in a folder that can be read. What is wrong with others is for a load to say.
std::optional<ResolvedRun> newest_resolved(const Path& run) {
  for (const CheckpointEntry& checkpoint : newest_first(list_checkpoints(run))) {
    try {
      return resolved_in_folder(checkpoint.path);
    } catch (const Error&) {
      continue;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ResolvedRun> resolved_in(const Manifest& manifest, const std::string& origin) {
  const std::string* const text = find_document(manifest, ResolvedRun::document);
  if (text == nullptr) return std::nullopt;
  ResolvedRun run = parse_resolved(*text, origin);
  // Earlier versions padded as a ring needed it, and kept that in the text about the packing alone.
  if (const std::string* const packing = find_document(manifest, "packing");
      packing != nullptr && !run.pad_to_multiple_of)
    run.pad_to_multiple_of = multiple_in(*packing);
  return run;
}

std::optional<ResolvedRun> kept_run(const TrainConfig& config) {
  const Resume& resume = config.checkpoint.resume;
  if (resume.from_scratch()) return std::nullopt;
  if (const auto own = newest_resolved(config.train.run_dir)) return own;
  if (const auto tier = known_local_tier(config))
    if (const auto own = newest_resolved(*tier)) return own;
  if (resume.from != Resume::From::path || takes_part(config.checkpoint)) return std::nullopt;
  if (const auto other = newest_resolved(resume.path)) return other;
  try {
    return resolved_in_folder(resume.path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<ResolvedRun> agree_on_kept(const TrainConfig& config, Communicator& world) {
  const std::string text = run_on_rank0(world, "list the checkpoints of the run", [&] {
    const std::optional<ResolvedRun> kept = kept_run(config);
    return kept ? to_text(*kept) : std::string();
  });
  return text.empty() ? std::nullopt : std::optional(parse_resolved(text, "message of rank 0"));
}

TrainConfig with_kept_multiple(const TrainConfig& config, Communicator& world) {
  TrainConfig padded = config;
  if (config.data.pad_to_multiple_of.is_set() || !packs(config)) return padded;
  if (const std::optional<ResolvedRun> kept = agree_on_kept(config, world))
    padded.data.pad_to_multiple_of = kept->pad_to_multiple_of;
  return padded;
}

}  // namespace lockstep
