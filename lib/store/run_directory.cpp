#include "store/run_directory.hpp"

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "store/trash.hpp"

#include <algorithm>
#include <charconv>

namespace lockstep {

namespace {

constexpr std::string_view step_prefix = "step-";
constexpr std::string_view staged_prefix = ".stage-";
constexpr std::string_view displaced_prefix = ".displaced-";

std::string step_name(std::int64_t step) { return fmt::format("{}{:010}", step_prefix, step); }

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::vector<Path> names_in(const Path& folder) { return is_there(folder) ? list_folder(folder) : std::vector<Path>(); }

[[noreturn]] void refuse(const Path& checkpoint, const Judgement& judgement) {
  throw Error(
      code_of(judgement.verdict),
      fmt::format("the checkpoint {} is {}: {}", checkpoint.string(), name_of(judgement.verdict), judgement.reason),
      judgement.hint);
}

}  // namespace

Path checkpoints_folder(const Path& run) { return run / "checkpoints"; }
Path checkpoint_folder(const Path& run, std::int64_t step) { return checkpoints_folder(run) / step_name(step); }
Path staging_folder(const Path& run, std::int64_t step, const std::string& uuid) {
  return checkpoints_folder(run) / fmt::format("{}{:010}-{}", staged_prefix, step, uuid);
}
Path displaced_name(const Path& checkpoint) {
  return checkpoint.parent_path() /
         fmt::format("{}{}-{}", displaced_prefix, checkpoint.filename().string(), make_uuid());
}

std::optional<std::int64_t> step_of(const Path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  return name.starts_with(step_prefix) ? parse_number(std::string_view(name).substr(step_prefix.size())) : std::nullopt;
}

std::vector<CheckpointEntry> list_checkpoints(const Path& run) {
  std::vector<CheckpointEntry> entries;
  if (run.empty()) return entries;
  for (const Path& path : names_in(checkpoints_folder(run))) {
    if (const auto step = step_of(path)) entries.push_back({path, *step});
  }
  std::sort(entries.begin(), entries.end(),
            [](const CheckpointEntry& a, const CheckpointEntry& b) { return a.step < b.step; });
  return entries;
}

std::vector<CheckpointEntry> newest_first(std::vector<CheckpointEntry> entries) {
  std::reverse(entries.begin(), entries.end());
  return entries;
}

std::string to_text(const SkippedCheckpoint& passed) {
  return fmt::format("{}: {}", passed.checkpoint.path.string(), passed.reason);
}

Found first_sound(const std::vector<CheckpointEntry>& candidates, const Judge& judge) {
  Found found;
  for (const CheckpointEntry& entry : candidates) {
    const Judgement judgement = judge(entry.path);
    switch (judgement.verdict) {
      case Verdict::sound: found.checkpoint = entry; return found;
      case Verdict::damaged: found.damaged.push_back({entry, judgement.reason}); break;
      case Verdict::unreadable:
      case Verdict::foreign: refuse(entry.path, judgement);
    }
  }
  return found;
}

Found find_at(const Path& path, const Judge& judge) {
  if (is_there(path / manifest_file)) {
    const Judgement judgement = judge(path);
    if (judgement.verdict != Verdict::sound) refuse(path, judgement);
    return {CheckpointEntry{path, read_manifest(path).step}, {}};
  }
  Found found = first_sound(newest_first(list_checkpoints(path)), judge);
  if (!found.checkpoint) {
    std::vector<std::string> reasons{fmt::format("{} is neither a checkpoint (no {}) nor a run with a sound checkpoint",
                                                 path.string(), manifest_file)};
    for (const SkippedCheckpoint& passed : found.damaged) reasons.push_back(to_text(passed));
    fail(ExitCode::input, "{}", join(reasons, "; "));
  }
  return found;
}

std::optional<std::int64_t> step_within(const Path& checkpoint, const Path& run) {
  if (run.empty()) return std::nullopt;
  std::error_code ignored;  // what cannot be looked at is of no run
  const Path real = std::filesystem::canonical(checkpoint, ignored);
  const bool within =
      !real.empty() && std::filesystem::equivalent(real.parent_path(), checkpoints_folder(run), ignored);
  return within ? step_of(real) : std::nullopt;
}

namespace {

std::string_view prefix_of(SetAsideReason why) {
  switch (why) {
    case SetAsideReason::damaged: return ".failed-";
    case SetAsideReason::former: return ".former-";
  }
  fail(ExitCode::bug, "unknown SetAsideReason {}", static_cast<int>(why));
}

}  // namespace

Path put_aside(const Path& checkpoint, SetAsideReason why) {
  const std::string name = fmt::format("{}{}", prefix_of(why), checkpoint.filename().string());
  for (int number = 1;; ++number) {
    const Path aside = checkpoint.parent_path() / (number == 1 ? name : fmt::format("{}-{}", name, number));
    if (kind_of_name(aside) != FileKind::nothing) continue;  // an older one of this name stays too
    publish_rename(checkpoint, aside);
    return aside;
  }
}

std::vector<Path> list_put_aside(const Path& run, SetAsideReason why) {
  std::vector<Path> found = names_in(checkpoints_folder(run));
  std::erase_if(found, [why](const Path& path) { return !path.filename().string().starts_with(prefix_of(why)); });
  return found;
}

void collect_leftovers(const Path& run) {
  for (const Path& path : names_in(checkpoints_folder(run))) {
    const std::string name = path.filename().string();
    if (name.starts_with(".LATEST.")) {
      remove_tree(path);
    } else if (name.starts_with(staged_prefix)) {
      publish_rename(path, trash_name(path));
    } else if (name.starts_with(displaced_prefix)) {
      const Path checkpoint = path.parent_path() / name.substr(displaced_prefix.size(), step_name(0).size());
      const bool lost = step_of(checkpoint) && kind_of_name(checkpoint) == FileKind::nothing;
      publish_rename(path, lost ? checkpoint : trash_name(path));
    }
  }
}

void write_latest(const Path& run, std::int64_t step) {
  publish_file(checkpoints_folder(run) / "LATEST", checkpoint_folder(run, step).filename().string() + "\n");
}

FileLock lock_run(const Path& run) {
  make_folder(run);
  return {run / "lock", fmt::format("the run folder {} is in use", run.string()),
          "wait for that job, stop it, or choose another run folder"};
}

}  // namespace lockstep
