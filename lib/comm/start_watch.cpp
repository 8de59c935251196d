#include "comm/start_watch.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/launch.hpp"
#include "comm/rank_board.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

constexpr double explanation_hold_s = 15;            // for the rank of this machine that explains
constexpr double elsewhere_s = 5;                    // for a machine that sees more
constexpr const char* thread_name = "awaits-ranks";  // by which the other ranks of the machine see that this one waits

/// A process of this job on this machine.
struct RankProcess {
  int process = 0;
  bool waits = false;  // for other ranks: it has a StartWatch
  RankStatus::Process state = RankStatus::Process::runs;

  bool holds_up() const { return !waits || state != RankStatus::Process::runs; }
  bool stopped() const { return state == RankStatus::Process::stopped; }
};

/// Nothing where the system does not tell: it belongs to somebody else, or has gone.
std::string try_read(const Path& path) {
  try {
    return read_file(path);
  } catch (const Error&) {
    return {};
  }
}

/// Nothing where the folder has gone.
std::vector<Path> numbered_folders(const Path& folder) {
  std::vector<Path> found;
  try {
    found = list_folder(folder);
  } catch (const Error&) {
  }
  std::erase_if(found, [](const Path& path) {
    const std::string name = path.filename().string();
    return !std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  });
  return found;
}

Launch launch_of(const Path& process) {
  const std::vector<std::string> variables = split(try_read(process / "environ"), '\0');
  return launch_in([&](const char* name) -> const char* {
    const std::string start = std::string(name) + "=";
    for (const std::string& variable : variables)
      if (variable.starts_with(start)) return variable.c_str() + start.size();
    return nullptr;
  });
}

bool has_watch(const Path& process) {
  return std::ranges::any_of(numbered_folders(process / "task"), [](const Path& thread) {
    return try_read(thread / "comm") == std::string(thread_name) + "\n";
  });
}

/// The ranks of this job that have a process on this machine. Of several processes, as where a script started the
/// program, the one that waits stands for the rank, else one that is stopped, else the youngest.
std::map<int, RankProcess> ranks_of_machine(const Launch& mine) {
  std::map<int, RankProcess> found{{mine.rank, {.process = ::getpid(), .waits = true}}};
  if (mine.job.empty()) return found;  // others could be of another job
  const auto weight = [](const RankProcess& one) { return std::tuple(one.waits, one.stopped(), one.process); };
  for (const Path& folder : numbered_folders("/proc")) {
    const Launch its = launch_of(folder);
    if (its.by != mine.by || its.job != mine.job || its.ranks != mine.ranks) continue;
    const int number = std::stoi(folder.filename().string());
    const RankProcess process{.process = number, .waits = has_watch(folder), .state = state_of_process(number)};
    RankProcess& known = found[its.rank];
    if (weight(known) < weight(process)) known = process;
  }
  return found;
}

std::string_view words_of(RankStatus::Process state) {
  switch (state) {
    case RankStatus::Process::runs: return "runs";
    case RankStatus::Process::stopped: return "is stopped";
    case RankStatus::Process::gone: return "has ended";
  }
  fail(ExitCode::bug, "unknown RankStatus::Process {}", static_cast<int>(state));
}

/// What this machine sees of a start that takes too long.
struct FailedStart {
  std::string late;  // about each rank that holds up the others; empty: all that are here wait
  int rank = 0;      // one of them, stopped if one is; else this one
  std::vector<int> waiting;
  int elsewhere = 0;  // ranks without a process here
};

FailedStart look(const Launch& mine, const std::string& place) {
  const std::map<int, RankProcess> ranks = ranks_of_machine(mine);
  FailedStart found{
      .late = {}, .rank = mine.rank, .waiting = {}, .elsewhere = mine.ranks - static_cast<int>(ranks.size())};
  std::vector<std::string> late;
  for (const auto& [rank, process] : ranks) {
    if (!process.holds_up()) {
      found.waiting.push_back(rank);
      continue;
    }
    if (late.empty() || (process.stopped() && !ranks.at(found.rank).stopped())) found.rank = rank;
    late.push_back(fmt::format("rank {} ({}) {} {}, its process {} {}", rank, host_name(),
                               process.waits ? "is in" : "has not reached", place, process.process,
                               words_of(process.state)));
  }
  found.late = join(late, "; ");
  return found;
}

}  // namespace

struct StartWatch::State {
  Settings settings;
  Launch launch = launch_of_process();
  double begin_s = monotonic_seconds();
  std::mutex mutex;
  std::condition_variable_any changed;
  std::jthread thread;

  /// True when the watch is over before that.
  bool over_within(double seconds, const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    const double end_s = monotonic_seconds() + seconds;
    while (!stop.stop_requested() && monotonic_seconds() < end_s)
      changed.wait_for(lock, stop, std::chrono::duration<double>(end_s - monotonic_seconds()), [] { return false; });
    return stop.stop_requested();
  }

  void watch(const std::stop_token& stop) {
    ::prctl(PR_SET_NAME, thread_name);
    // A lower rank that began to wait before this one may have explained the end already, and be gone at the limit.
    if (over_within(settings.limit_s / 2, stop)) return;
    const int lowest_before = look(launch, settings.place).waiting.front();
    if (over_within(settings.limit_s / 2, stop)) return;
    const FailedStart found = look(launch, settings.place);
    double pause_s = std::min(lowest_before, found.waiting.front()) == launch.rank ? 0 : explanation_hold_s;
    if (found.late.empty() && found.elsewhere > 0) pause_s += elsewhere_s;
    if (!over_within(pause_s, stop)) end(found);
  }

  std::string explanation_of(const FailedStart& found) const {
    std::string text = fmt::format("rank {} ({}) waits in {} for {:.1f} s", launch.rank, host_name(), settings.place,
                                   monotonic_seconds() - begin_s);
    if (found.late.empty() && found.waiting.size() > 1)
      text += fmt::format(", as ranks {} do", rank_ranges(found.waiting));
    if (found.late.empty() && found.elsewhere > 0)
      text += fmt::format(", and {} on other machines", counted(found.elsewhere, "rank"));
    return fmt::format("watchdog: {}{}{}: longer than the limit of {} s, the job ends", found.late,
                       found.late.empty() ? "" : "; ", text, settings.limit_s);
  }

  [[noreturn]] void end(const FailedStart& found) {
    constexpr int code = static_cast<int>(ExitCode::communication);
    const std::string explanation = explanation_of(found);
    const std::string line = explanation + "\n";
    [[maybe_unused]] const auto written = ::write(2, line.data(), line.size());
    std::thread([] {  // a file system that hangs must not keep the job from ending
      std::this_thread::sleep_for(std::chrono::duration<double>(explanation_hold_s));
      ::_exit(code);
    })
        .detach();
    try {
      if (settings.on_end)
        settings.on_end({.explanation = explanation, .code = code, .rank = found.rank, .host = host_name()});
    } catch (...) {  // status.json could not be written: the exit code still says it
    }
    ::_exit(code);
  }
};

StartWatch::StartWatch(Settings settings) : state_(std::make_unique<State>()) {
  state_->settings = std::move(settings);
  if (state_->settings.limit_s > 0)
    state_->thread = std::jthread([this](const std::stop_token& stop) { state_->watch(stop); });
}

StartWatch::~StartWatch() = default;

}  // namespace lockstep
