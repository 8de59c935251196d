#include "checkpoint/resume.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/agreed_view.hpp"
#include "checkpoint/node_view.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "store/checkpoint_reader.hpp"

#include <algorithm>
#include <map>
#include <memory>

namespace lockstep {

namespace {

// One search from the list of candidates to the loaded state. Its members are called in order, by all ranks.
class Search {
 public:
  Search(Communicator& ranks, const ResumeRequest& request)
      : ranks_(ranks), request_(request), patience_(request.patience_s, request.tell) {}

  Resumed run(const World& world, const std::vector<Component>& components);

 private:
  std::vector<CheckpointEntry> list(const Path& run);
  std::vector<CheckpointEntry> list_own();
  bool is_local(const Path& checkpoint) const {
    return request_.local && checkpoint.parent_path() == checkpoints_folder(request_.local->folder);
  }
  Judgement judge(const Path& checkpoint);
  std::string tell(Rank teller, const std::string& what, const std::function<std::string()>& work);
  std::vector<CheckpointEntry> candidates();
  std::vector<CheckpointEntry> best();
  std::vector<CheckpointEntry> entries_of(std::int64_t step) const;
  std::vector<CheckpointEntry> of_wanted_step() const;
  Found find(const std::vector<CheckpointEntry>& candidates);
  Error with_advice(const Error& error, const std::vector<CheckpointEntry>& candidates) const;
  CheckpointHead head_of(const Path& checkpoint, const std::string& what);

  Communicator& ranks_;
  const ResumeRequest& request_;
  Patience patience_;
  std::vector<CheckpointEntry> entries_;        // of the run, as all ranks see them, by step
  std::map<Path, std::string> proved_damaged_;  // while they were loaded, each with what was found
  std::map<Path, FileAccess> access_;           // of those that were found sound
  Path looked_at_;                              // last
  bool newest_ = false;                         // any checkpoint of the run will do, the newest first
};

std::vector<CheckpointEntry> Search::list(const Path& run) {
  return request_.storage.is_shared() ? agreed_list(ranks_, run, patience_)
                                      : list_on_nodes(ranks_, request_.storage, run, patience_);
}

// Nodes that are not there, or cannot read their disks, will not mend that within the patience: another checkpoint is
// taken than that of the local tier, and it is told which.
Judgement Search::judge(const Path& checkpoint) {
  const bool local = is_local(checkpoint);
  if (!local && request_.storage.is_shared()) return agreed_judgement(ranks_, checkpoint, patience_);
  Patience none(0, {});
  NodesJudgement judged =
      judge_on_nodes(ranks_, local ? request_.local->storage : request_.storage, checkpoint, local ? none : patience_);
  access_[checkpoint] = std::move(judged.access);
  if (local && judged.judgement.verdict == Verdict::unreadable) judged.judgement.verdict = Verdict::damaged;
  return judged.judgement;
}

// Those of the run and of its local tier, in the order of their steps. A local one whose step the run has from another
// save is of a job that this one does not go on from.
std::vector<CheckpointEntry> Search::list_own() {
  std::vector<CheckpointEntry> entries = list(request_.run);
  if (!request_.local) return entries;
  const LocalTier& local = *request_.local;
  for (const CheckpointEntry& entry : list_on_nodes(ranks_, local.storage, local.folder, patience_)) {
    const auto same = std::ranges::find(entries, entry.step, &CheckpointEntry::step);
    std::int64_t counts = 1;
    if (same != entries.end()) {
      try {
        if (is_there(entry.path / manifest_file))
          counts = read_manifest(entry.path).uuid == read_manifest(same->path).uuid ? 1 : 0;
      } catch (const Error&) {
        counts = 0;
      }
    }
    if (ranks_.all_reduce(counts, Reduce::min) == 1) entries.push_back(entry);
  }
  std::ranges::stable_sort(entries, {}, &CheckpointEntry::step);
  return entries;
}

// One rank that sees what is asked for works for all.
std::string Search::tell(Rank teller, const std::string& what, const std::function<std::string()>& work) {
  std::string told;
  together(ranks_, what, [&] {
    if (ranks_.rank() == teller) told = work();
  });
  return ranks_.broadcast(told, teller);
}

// One rank alone reads the metrics: of nodes with storage of their own the one that has the most checkpoints. All ranks
// judge what it chose.
std::vector<CheckpointEntry> Search::best() {
  const std::string what = fmt::format("looking for the best checkpoint of {}", request_.run.string());
  std::string told;
  while (told.empty()) {
    try {
      std::vector<CheckpointEntry> seen = entries_;
      Rank teller = 0;
      const bool shared = request_.storage.is_shared();
      together(ranks_, what, [&] {
        std::erase_if(seen, [&](const CheckpointEntry& entry) {
          return (!shared || is_local(entry.path)) && !is_there(entry.path / manifest_file);
        });
      });
      if (!shared) {
        const auto most = ranks_.all_reduce(static_cast<std::int64_t>(seen.size()), Reduce::max);
        const std::int64_t able = std::ssize(seen) == most ? ranks_.rank() : ranks_.size();
        teller = static_cast<Rank>(ranks_.all_reduce(able, Reduce::min));
      }
      told = tell(teller, what, [&] {
        Json steps = Json::array();
        for (const CheckpointEntry& entry : best_first(seen, request_.best_by)) steps.push_back(entry.step);
        return to_text(steps);
      });
    } catch (const AgreedError& error) {
      if (verdict_of(error.code()) != Verdict::unreadable || !patience_.wait(ranks_, what, error.what())) throw;
    }
  }
  std::vector<CheckpointEntry> result;
  for (const Json& step : parse_json(told, "the answer of rank 0")) {
    const std::vector<CheckpointEntry> entries = entries_of(step.get<std::int64_t>());
    if (result.empty() || result.back().step != entries.front().step)  // one for both that the step may have
      result.insert(result.end(), entries.begin(), entries.end());
  }
  if (result.empty())
    throw Error(ExitCode::input,
                fmt::format("checkpoint.resume best: {} has no checkpoint with the metric {}", request_.run.string(),
                            request_.best_by.metric),
                "a checkpoint has it if the run evaluates at its step; latest takes the newest one");
  return result;
}

std::vector<CheckpointEntry> Search::entries_of(std::int64_t step) const {
  std::vector<CheckpointEntry> found = newest_first(entries_);
  std::erase_if(found, [&](const CheckpointEntry& entry) { return entry.step != step; });
  return found;
}

std::vector<CheckpointEntry> Search::of_wanted_step() const {
  std::vector<CheckpointEntry> found = entries_of(request_.wanted.step);
  if (!found.empty()) return found;
  std::vector<std::string> steps;
  for (const CheckpointEntry& entry : entries_) steps.push_back(fmt::format("{}", entry.step));
  throw Error(ExitCode::input,
              fmt::format("{} has no checkpoint of step {}", request_.run.string(), request_.wanted.step),
              steps.empty() ? "it has no checkpoints" : fmt::format("it has {}", join(steps, ", ")));
}

// In the order in which they would be taken.
std::vector<CheckpointEntry> Search::candidates() {
  const Path& folder = request_.wanted.start;
  switch (request_.wanted.by) {
    case ResumeTarget::Kind::best: return best();
    case ResumeTarget::Kind::step: return of_wanted_step();
    case ResumeTarget::Kind::newest: newest_ = true; break;
    case ResumeTarget::Kind::start: newest_ = !entries_.empty(); break;
  }
  if (newest_) return newest_first(entries_);
  std::int64_t is_one = 0;
  together(ranks_, "", [&] {  // a path that was mistyped is not waited for
    is_one = is_there(folder / manifest_file) || is_there(checkpoints_folder(folder)) ? 1 : 0;
  });
  const Reduce by = request_.storage.is_shared() ? Reduce::min : Reduce::max;  // one node may have it alone
  if (ranks_.all_reduce(is_one, by) == 0)
    fail(ExitCode::input, "{} is neither a checkpoint (no {}) nor a run (no {})", folder.string(), manifest_file,
         checkpoints_folder(folder).string());
  const std::vector<CheckpointEntry> held = newest_first(list(folder));
  return held.empty() ? std::vector<CheckpointEntry>{{folder, step_of(folder).value_or(0)}} : held;
}

Found Search::find(const std::vector<CheckpointEntry>& candidates) {
  Found found = first_sound(candidates, [&](const Path& path) -> Judgement {
    const auto known = proved_damaged_.find(path);
    if (known != proved_damaged_.end()) return {Verdict::damaged, known->second};
    looked_at_ = path;
    return judge(path);
  });
  if (found.checkpoint || candidates.empty()) return found;
  std::vector<std::string> reasons;
  for (const SkippedCheckpoint& passed : found.damaged) reasons.push_back(to_text(passed));
  if (!newest_) fail(ExitCode::input, "the checkpoint cannot be used: {}", join(reasons, "; "));
  throw Error(ExitCode::input,
              fmt::format("{} has checkpoints, but none is sound: {}", request_.run.string(), join(reasons, "; ")),
              "move them away to start from scratch, or look at one with checkpoint-inspect");
}

// The error with what a user can do: the run has not been touched.
Error Search::with_advice(const Error& error, const std::vector<CheckpointEntry>& candidates) const {
  std::string hint =
      error.hint().empty() ? std::string("repair the storage and start the same command again") : error.hint();
  for (std::size_t i = 0; i + 1 < candidates.size(); ++i) {
    if (candidates[i].path != looked_at_) continue;
    hint += fmt::format(", or start a new run from an older checkpoint: --train.run_dir NEW --checkpoint.resume {}",
                        candidates[i + 1].path.string());
  }
  return {error.code(), error.what(), hint};
}

// One rank reads for all: they have just seen the same manifest, which has the hash of the index.
CheckpointHead Search::head_of(const Path& checkpoint, const std::string& what) {
  const std::string told = tell(access_[checkpoint].head, what, [&] {
    CheckpointHead head = read_head(checkpoint);
    return fmt::format("{}\n", head.manifest.size()) + head.manifest + head.index;
  });
  const std::size_t begin = told.find('\n') + 1, length = std::stoull(told);
  return {told.substr(begin, length), told.substr(begin + length)};
}

Resumed Search::run(const World& world, const std::vector<Component>& components) {
  entries_ = list_own();
  const std::vector<CheckpointEntry> all = candidates();
  while (true) {
    Found found;
    try {
      found = find(all);
    } catch (const Error& error) {
      if (error.code() != code_of(Verdict::unreadable)) throw;
      throw with_advice(error, all);
    }
    if (!found.checkpoint) return {{}, std::move(found.damaged), {}, false};
    const Path path = found.checkpoint->path;
    std::unique_ptr<CheckpointReader> reader;
    bool loading = false;
    try {
      const std::string what = "opening " + path.string();
      const CheckpointHead head = head_of(path, what);
      std::optional<CheckpointPart> part;
      together(ranks_, what, [&] {
        reader = std::make_unique<CheckpointReader>(path, head);
        if (request_.part && (!newest_ || request_.part_of_newest)) part = request_.part(*reader);
        if (!part && request_.accept) request_.accept(*reader);
      });
      loading = true;
      LoadReport loaded = load(ranks_, world, *reader, components, request_.threads, part, access_[path]);
      return {CheckpointEntry{path, reader->manifest().step}, std::move(found.damaged), std::move(loaded),
              part.has_value()};
    } catch (const AgreedError& error) {  // the same on all ranks, so all take the same next step
      const auto verdict = verdict_of(error.code());
      if (verdict != Verdict::damaged && verdict != Verdict::unreadable) throw;
      if (loading && request_.refresh) together(ranks_, "starting afresh", request_.refresh);
      const bool passed_over = verdict == Verdict::damaged || is_local(path);
      if (passed_over) proved_damaged_[path] = error.what();
      if (passed_over || patience_.wait(ranks_, path.string(), error.what())) continue;
      const std::string what = fmt::format("{} (retried for {:g} s)", error.what(), patience_.limit_s());
      throw AgreedError(with_advice(Error(error.code(), what), all), error.owner());
    }
  }
}

}  // namespace

Resumed resume(Communicator& ranks, const World& world, const std::vector<Component>& components,
               const ResumeRequest& request) {
  return Search(ranks, request).run(world, components);
}

}  // namespace lockstep
