#include "checkpoint/promote.hpp"

#include "base/error.hpp"
#include "base/free_memory.hpp"
#include "base/json.hpp"
#include "base/run_clock.hpp"
#include "base/text.hpp"
#include "checkpoint/background_work.hpp"
#include "checkpoint/commit.hpp"
#include "checkpoint/node_view.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "store/checkpoint_index.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/part_file.hpp"
#include "store/staging.hpp"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <utility>

namespace lockstep {

namespace {

constexpr std::uint64_t stretch_bytes = 8 << 20;

/// What a copy is left with before it is done.
struct BrokenOff {};

/// Memory that may go around the page cache.
class CopyBuffer {
 public:
  CopyBuffer() : memory_(static_cast<std::byte*>(std::aligned_alloc(page_bytes, stretch_bytes))) {
    if (!memory_) fail(ExitCode::resources, "cannot allocate {} for copying", human_bytes(stretch_bytes));
  }
  std::span<std::byte> first(std::uint64_t bytes) { return {memory_.get(), static_cast<std::size_t>(bytes)}; }

 private:
  std::unique_ptr<std::byte, FreeMemory> memory_;
};

using OnCopied = std::function<void(std::uint64_t)>;

template <class Work>
void in_stretches(std::uint64_t bytes, const OnCopied& on_copied, const Work& work) {
  for (std::uint64_t at = 0; at < bytes; at += stretch_bytes) {
    const std::uint64_t count = std::min(stretch_bytes, bytes - at);
    work(at, count);
    on_copied(count);
  }
}

/// A new file with the bytes of another, durable and as long as it should be. Throws Error(storage).
void copy_part(const Path& from, const Path& to, std::uint64_t bytes, const OnCopied& on_copied) {
  const FileDescriptor source = open_file(from, O_RDONLY);
  CopyBuffer buffer;
  PartFile target(to);
  try {
    in_stretches(bytes, on_copied, [&](std::uint64_t at, std::uint64_t count) {
      const std::span<std::byte> stretch = buffer.first(count);
      read_at(source, stretch, at, from);
      const std::uint64_t done = target.write_around(stretch, at);
      target.write_through(stretch.subspan(static_cast<std::size_t>(done)), at + done);
    });
    target.finish();
  } catch (const NoRoom& error) {
    throw with_room(error, to.parent_path(), bytes);
  }
  const auto length = length_of(to);
  if (length != bytes)
    fail(ExitCode::storage, "{} has {} bytes after {} were copied from {}", to.string(), length.value_or(0), bytes,
         from.string());
}

/// Throws Error(storage) unless both have the same bytes, from the storage as far as the system lets go of what it
/// keeps in memory.
void compare_parts(const Path& from, const Path& to, std::uint64_t bytes, const OnCopied& on_copied) {
  const FileDescriptor source = open_file(from, O_RDONLY), target = open_file(to, O_RDONLY);
  ::posix_fadvise(target.get(), 0, 0, POSIX_FADV_DONTNEED);  // advice: where it is not taken, memory is read
  CopyBuffer first, second;
  in_stretches(bytes, on_copied, [&](std::uint64_t at, std::uint64_t count) {
    read_at(source, first.first(count), at, from);
    read_at(target, second.first(count), at, to);
    if (std::memcmp(first.first(count).data(), second.first(count).data(), count) != 0)
      throw Error(
          ExitCode::storage,
          fmt::format("{} reads back differently than {}, from which it was copied", to.string(), from.string()),
          "the storage reported no write error: check its disk, controller and driver");
  });
}

}  // namespace

/// One of them, in stages: what a rank does by itself on a thread of its own, then what all of them agree on.
class Promoter::Promotion {
 public:
  Promotion(Communicator& ranks, PromotionRequest request) : ranks_(ranks), request_(std::move(request)) {}
  ~Promotion() {
    stops_ = true;
    try {
      work_.finish();
    } catch (...) {  // nobody waits for it any more
    }
  }

  std::int64_t step() const { return request_.step; }
  std::uint64_t copied() const { return copied_; }
  void look();
  void start() {
    work_.start([this] { work(); });
  }
  bool stage_is_done();
  void go_on();
  bool is_over() const { return stage_ == Stage::over; }
  bool is_copied() const { return stage_ > Stage::copying; }
  void stop();
  void abandon() noexcept;
  PromotionReport report() const;

 private:
  enum class Stage { staging, copying, committing, tidying, over };
  std::string text() const { return fmt::format("promoting the checkpoint of step {}", request_.step); }
  Path source() const { return checkpoint_folder(request_.local.folder, request_.step); }
  bool commits() const { return ranks_.rank() == 0; }
  void work();
  void stage();
  void copy();
  void commit();
  void tidy();
  void tell();

  Communicator& ranks_;
  const PromotionRequest request_;
  const double start_s_ = run_seconds();
  Stage stage_ = Stage::staging;
  Manifest manifest_;              // on ranks that copy and on rank 0
  std::vector<std::size_t> mine_;  // numbers of the files that this rank copies
  Path staging_;                   // in the folder of the run
  std::vector<std::int64_t> retired_;
  std::vector<std::string> problems_;  // behind the commit
  std::string told_;                   // rank 0's report
  std::atomic<bool> stops_{false};
  std::atomic<std::uint64_t> copied_{0};
  BackgroundWork work_;  // ends before what its thread works on goes
};

// Who has which file now is looked at: nodes may have changed their names, or disks, since it was written.
void Promoter::Promotion::look() {
  together(ranks_, text(), [&] {
    if (request_.enter) request_.enter();
  });
  Patience none(0, {});
  const NodesJudgement seen = judge_on_nodes(ranks_, request_.local.storage, source(), none);
  if (seen.judgement.verdict != Verdict::sound)
    throw AgreedError(Error(ExitCode::storage, fmt::format("{}: the nodes do not have all of {}: {}", text(),
                                                           source().string(), seen.judgement.reason)),
                      0);
  const Rank teller = seen.access.head;
  CheckpointHead head;
  together(ranks_, text(), [&] {
    if (ranks_.rank() == teller) head = read_head(source());
  });
  head.manifest = ranks_.broadcast(head.manifest, teller);
  head.index = ranks_.broadcast(head.index, teller);
  together(ranks_, text(), [&] {
    if (!commits() && !request_.local.storage.keeps(ranks_.rank())) return;
    manifest_ = parse_manifest(head.manifest, (source() / manifest_file).string());
    add_index(manifest_, head.index, source() / index_file);
    staging_ = staging_folder(request_.run, request_.step, manifest_.uuid);
    for (std::size_t file = 0; file < manifest_.files.size(); ++file) {
      const Rank copier = seen.access.readers.empty() ? 0 : seen.access.readers[file].front();
      if (copier == ranks_.rank() && manifest_.files[file].path != index_file) mine_.push_back(file);
    }
  });
}

void Promoter::Promotion::work() {
  switch (stage_) {
    case Stage::staging: return stage();
    case Stage::copying: return copy();
    case Stage::committing: return commit();
    case Stage::tidying: return tidy();
    case Stage::over: return;
  }
}

void Promoter::Promotion::stage() {
  if (!commits()) return;
  std::uint64_t bytes = 0;
  std::set<std::string> folders;
  for (const StoredFile& file : manifest_.files) {
    bytes += file.bytes;
    if (const std::string folder = Path(file.path).parent_path().string(); !folder.empty()) folders.insert(folder);
  }
  retired_ = make_room(request_.run, bytes, false, request_.retention, request_.trash);
  make_staging(staging_, {folders.begin(), folders.end()}, bytes);
}

void Promoter::Promotion::copy() {
  const OnCopied on_copied = [this](std::uint64_t bytes) {
    copied_ += bytes;
    if (stops_) throw BrokenOff();
  };
  for (const std::size_t number : mine_) {
    const StoredFile& file = manifest_.files[number];
    const Path target = staging_ / file.path;
    await_folder(target.parent_path(), request_.patience_s);
    copy_part(source() / file.path, target, file.bytes, on_copied);
    if (request_.read_back) compare_parts(source() / file.path, target, file.bytes, on_copied);
  }
}

void Promoter::Promotion::commit() {
  if (!commits()) return;
  seal_copy(staging_, manifest_, request_.patience_s);
  const Committed done = commit_staged(staging_, request_.run, request_.step, request_.retention, request_.trash);
  retired_.insert(retired_.end(), done.pruned.begin(), done.pruned.end());
  problems_ = done.problems;
}

// What all see needs no other copy; the newest stays for a start that reads it from here.
void Promoter::Promotion::tidy() {
  if (!request_.local.storage.keeps(ranks_.rank())) return;
  attempt(problems_, [&] {
    std::vector<CheckpointEntry> entries = list_checkpoints(request_.local.folder);
    if (!entries.empty()) entries.pop_back();
    std::vector<std::int64_t> steps;
    for (const CheckpointEntry& entry : entries)
      if (entry.step <= request_.step && std::ranges::find(request_.waiting, entry.step) == request_.waiting.end())
        steps.push_back(entry.step);
    remove_steps(request_.local.folder, steps, problems_);
  });
  if (request_.local_trash != nullptr)
    request_.local_trash->wake();
  else
    attempt(problems_, [&] { empty_trash(request_.local.folder); });
}

void Promoter::Promotion::tell() {
  std::vector<std::string> problems = ranks_.gather(join(problems_, "; "), 0);
  std::erase(problems, "");
  if (commits()) {
    std::uint64_t bytes = 0;
    for (const StoredFile& file : manifest_.files) bytes += file.bytes;
    told_ = to_text(Json{{"bytes", bytes}, {"pruned", retired_}, {"problem", join(problems, "; ")}});
  }
  told_ = ranks_.broadcast(told_, 0);
}

bool Promoter::Promotion::stage_is_done() {
  const std::int64_t done = work_.under_way() ? 0 : 1;
  if (ranks_.all_reduce(done, Reduce::min) == 0) return false;
  together(ranks_, text(), [&] { work_.finish(); });
  return true;
}

void Promoter::Promotion::go_on() {
  if (stage_ == Stage::tidying) tell();
  stage_ = static_cast<Stage>(static_cast<int>(stage_) + 1);
  if (stage_ != Stage::over) start();
}

// Nobody waits for what it throws any more.
void Promoter::Promotion::stop() {
  stops_ = true;
  try {
    work_.finish();
  } catch (const Error&) {
  } catch (const BrokenOff&) {
  }
}

// All ranks have ended what they did.
void Promoter::Promotion::abandon() noexcept {
  if (commits() && !staging_.empty()) abandon_staging(staging_);
}

PromotionReport Promoter::Promotion::report() const {
  const Json result = parse_json(told_, "the report of rank 0");
  return {.path = checkpoint_folder(request_.run, request_.step),
          .step = request_.step,
          .bytes = result.at("bytes").get<std::uint64_t>(),
          .seconds = run_seconds() - start_s_,
          .pruned = result.at("pruned").get<std::vector<std::int64_t>>(),
          .problem = result.at("problem").get<std::string>()};
}

Promoter::Promoter(Communicator& ranks) : ranks_(ranks) {}
Promoter::~Promoter() = default;

std::int64_t Promoter::step() const { return current_->step(); }
std::uint64_t Promoter::copied_bytes() const { return current_ ? current_->copied() : 0; }

void Promoter::begin(const PromotionRequest& request) {
  invariant(!under_way(), "one promotion at a time");
  auto next = std::make_unique<Promotion>(ranks_, request);
  next->look();
  next->start();
  current_ = std::move(next);
}

std::optional<PromotionReport> Promoter::advance() {
  invariant(under_way(), "a promotion is under way");
  try {
    if (!current_->stage_is_done()) return std::nullopt;
    current_->go_on();
  } catch (const AgreedError&) {
    current_->abandon();
    current_.reset();
    throw;
  }
  if (!current_->is_over()) return std::nullopt;
  const PromotionReport report = current_->report();
  current_.reset();
  return report;
}

bool Promoter::break_off() {
  if (!under_way()) return true;
  if (current_->is_copied()) return false;
  together(ranks_, "cancelling a promotion", [&] { current_->stop(); });
  current_->abandon();
  current_.reset();
  return true;
}

namespace {

std::string uuid_of(const Path& checkpoint) {
  try {
    return read_manifest(checkpoint).uuid;
  } catch (const Error&) {  // damaged: of no save that is known
    return {};
  }
}

}  // namespace

std::vector<std::int64_t> unpromoted_steps(Communicator& ranks, const LocalTier& local, const Path& run) {
  Patience none(0, {});
  const std::vector<CheckpointEntry> held = list_on_nodes(ranks, local.storage, local.folder, none);
  const std::string told = run_on_rank0(ranks, fmt::format("looking for checkpoints of {}", run.string()), [&] {
    std::map<std::int64_t, Path> of_run;
    for (const CheckpointEntry& entry : list_checkpoints(run)) of_run[entry.step] = entry.path;
    const std::int64_t newest = of_run.empty() ? -1 : of_run.rbegin()->first;
    Json steps = Json::array(), candidates = Json::array();
    for (const CheckpointEntry& entry : held) {
      const auto same = of_run.find(entry.step);
      if (same == of_run.end()) candidates.push_back(entry.step);
      if (entry.step > newest || (same != of_run.end() && uuid_of(entry.path) == uuid_of(same->second)))
        steps = candidates;  // the run goes on from here, or from a later one
    }
    return to_text(steps);
  });
  std::vector<std::int64_t> steps;
  for (const Json& step : parse_json(told, "the list of rank 0")) {
    const Path checkpoint = checkpoint_folder(local.folder, step.get<std::int64_t>());
    if (judge_on_nodes(ranks, local.storage, checkpoint, none).judgement.verdict == Verdict::sound)
      steps.push_back(step.get<std::int64_t>());
  }
  return steps;
}

}  // namespace lockstep
