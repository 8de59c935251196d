#include "comm/rank_board.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/run_clock.hpp"
#include "comm/waiting.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <thread>

namespace lockstep {

namespace {

constexpr std::size_t op_words = 8;  // of 8 characters

/// What a rank tells of itself, in memory that other processes read. One thread writes it; readers notice when they
/// read while it is written.
struct alignas(64) BoardSlot {
  std::atomic<std::uint32_t> version{0};  // odd while the next five change
  std::atomic<std::int32_t> phase{0};
  std::atomic<std::int64_t> step{-1};
  std::atomic<double> since_s{0};  // of the clock of the run, which is that of the machine
  std::atomic<std::int32_t> action{-1};
  std::array<std::atomic<std::uint64_t>, op_words> op{};       // characters
  std::array<std::atomic<std::uint64_t>, op_words> awaited{};  // likewise; another thread writes them
  std::atomic<std::int32_t> waiting{0};
  std::atomic<std::int32_t> process{0};  // 0: the rank has not come here
  std::atomic<bool> left{false};
};
static_assert(std::atomic<double>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

/// What the ranks of a machine share; the slots follow it, in the order of their ranks.
struct alignas(64) Board {
  std::atomic<bool> claimed{false};   // some rank of this machine explains the end, or wants to
  std::atomic<bool> reported{false};  // the machine's report is in the folder, or being written
};

using BoardText = std::array<std::atomic<std::uint64_t>, op_words>;

std::string read_text(const BoardText& text) {
  std::array<std::uint64_t, op_words> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = text[i].load(std::memory_order_relaxed);
  std::array<char, sizeof words + 1> characters{};
  std::memcpy(characters.data(), words.data(), sizeof words);
  return characters.data();
}

void write_text(BoardText& text, std::string_view characters) {
  std::array<std::uint64_t, op_words> words{};
  std::memcpy(words.data(), characters.data(), std::min(characters.size(), sizeof words - 1));
  for (std::size_t i = 0; i < words.size(); ++i) text[i].store(words[i], std::memory_order_relaxed);
}

std::string action_of(const BoardSlot& slot) {
  const int position = slot.action.load(std::memory_order_relaxed);
  const std::string awaited = read_text(slot.awaited);
  const std::string waits = awaited.empty() ? "" : "waits for " + awaited;
  if (position < 0) return waits;
  return fmt::format("action {}, {}{}{}", position, read_text(slot.op), waits.empty() ? "" : ", ", waits);
}

RankStatus read_slot(const BoardSlot& slot) {
  RankStatus status;
  for (int attempt = 0; attempt < 1000; ++attempt) {  // a rank that was stopped while it wrote never finishes
    const std::uint32_t before = slot.version.load(std::memory_order_acquire);
    status.phase = static_cast<Phase>(slot.phase.load(std::memory_order_relaxed));
    status.step = slot.step.load(std::memory_order_relaxed);
    status.seconds = run_seconds() - slot.since_s.load(std::memory_order_relaxed);
    status.action = action_of(slot);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && slot.version.load(std::memory_order_relaxed) == before) break;
  }
  status.waits = slot.waiting.load(std::memory_order_relaxed) > 0;
  status.known = slot.process.load(std::memory_order_relaxed) != 0;
  return status;
}

void write_slot(BoardSlot& slot, Phase phase, std::int64_t step, const CurrentAction& action, double since_s) {
  const std::uint32_t version = slot.version.load(std::memory_order_relaxed);
  slot.version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  slot.phase.store(static_cast<std::int32_t>(phase), std::memory_order_relaxed);
  slot.step.store(step, std::memory_order_relaxed);
  slot.since_s.store(since_s, std::memory_order_relaxed);
  slot.action.store(action.position, std::memory_order_relaxed);
  if (action.position >= 0) write_text(slot.op, action.op);
  slot.version.store(version + 2, std::memory_order_release);
}

/// What the folder holds, as far as the system says.
std::vector<Path> try_list_folder(const Path& folder) {
  try {
    return list_folder(folder);
  } catch (const Error&) {
    return {};
  }
}

constexpr std::string_view rank_reports = ".rank-reports-";  // and what tells jobs apart: the names of their folders

/// Of earlier jobs. They cannot do it themselves: until its last process has ended, a job must not explain itself a
/// second time.
void remove_rank_reports(const Path& folder) {
  for (const Path& path : try_list_folder(folder)) {
    if (path.filename().string().starts_with(rank_reports)) try_remove_tree(path);
  }
}

Json to_json(const RankStatus& status) {
  return {status.rank,  static_cast<int>(status.phase),   status.step,  status.seconds,
          status.waits, static_cast<int>(status.process), status.action};
}

}  // namespace

RankStatus::Process state_of_process(int process) {
  std::string stat;
  try {
    stat = read_file(fmt::format("/proc/{}/stat", process));
  } catch (const Error&) {
    return RankStatus::Process::gone;
  }
  const std::size_t name_end = stat.rfind(')');
  const char state = name_end == std::string::npos || name_end + 2 >= stat.size() ? '?' : stat[name_end + 2];
  if (state == 'Z' || state == 'X') return RankStatus::Process::gone;
  return state == 'T' || state == 't' ? RankStatus::Process::stopped : RankStatus::Process::runs;
}

std::string machine_name() {
  std::array<char, 64> space{};
  if (::readlink("/proc/self/ns/pid", space.data(), space.size() - 1) < 0) return host_name();
  return host_name() + " " + space.data();
}

struct RankBoard::State {
  std::string machine_name;
  int rank = 0;
  int size = 1;
  Board own_board;
  BoardSlot own_slot;
  Board* board = &own_board;
  BoardSlot* slot = &own_slot;     // of this rank
  BoardSlot* slots = &own_slot;    // of the machine's ranks
  std::vector<int> ranks;          // of this machine, ascending
  std::vector<std::string> hosts;  // by world rank
  std::vector<int> machine_of;     // by world rank; a machine is named by its lowest rank
  std::vector<Neighbour> neighbours;
  void* mapped = nullptr;
  std::size_t mapped_bytes = 0;
  Path folder;  // of this job's files; empty with one machine

  int machine() const { return ranks.front(); }
  const BoardSlot& slot_of(int world_rank) const {
    return slots[std::lower_bound(ranks.begin(), ranks.end(), world_rank) - ranks.begin()];
  }
  RankStatus status_of(int world_rank) const {
    const BoardSlot& its = slot_of(world_rank);
    RankStatus status = read_slot(its);
    status.rank = world_rank;
    status.host = hosts[static_cast<std::size_t>(world_rank)];
    if (status.known && world_rank != rank && !its.left) status.process = state_of_process(its.process);
    return status;
  }
  Path file_of(int a_machine) const { return folder / fmt::format("machine-of-rank-{}", a_machine); }
  bool map(const std::string& path);
};

/// Moves this rank's slot into the memory behind `path`. False if that cannot be reached.
bool RankBoard::State::map(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  mapped_bytes = sizeof(Board) + ranks.size() * sizeof(BoardSlot);
  mapped = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (mapped == MAP_FAILED) {
    mapped = nullptr;
    return false;
  }
  board = static_cast<Board*>(mapped);  // zeros, as made: what Board{} and BoardSlot{} are, but for the step
  slots = reinterpret_cast<BoardSlot*>(board + 1);
  slot = slots + (std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
  return true;
}

RankBoard::RankBoard(const Communicator& world, std::string machine) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.machine_name = std::move(machine);
  state.rank = world.world_rank();
  state.size = world.size();
  state.ranks = {state.rank};
  state.hosts.assign(static_cast<std::size_t>(state.rank) + 1, host_name());
  state.machine_of.assign(state.hosts.size(), state.rank);
  state.slot->process = ::getpid();
  enter(Phase::start_up, -1);
  Waiting::counts_in(&state.slot->waiting);
}

RankBoard::~RankBoard() {
  Waiting::counts_in(nullptr);
  for (const Neighbour& neighbour : state_->neighbours) ::close(neighbour.descriptor);
  if (state_->mapped != nullptr) ::munmap(state_->mapped, state_->mapped_bytes);
}

void RankBoard::share(Communicator& world, const Path& folder) {
  if (world.rank() == 0) remove_rank_reports(folder);
  if (world.size() == 1) return;
  State& state = *state_;
  // Every rank offers memory; that of a machine's lowest rank is used. It has no name that a killed job could leave
  // behind.
  const int offered = ::memfd_create("lockstep-ranks", MFD_CLOEXEC);
  const bool usable =
      offered >= 0 && ::ftruncate(offered, static_cast<off_t>(sizeof(Board) + static_cast<std::size_t>(world.size()) *
                                                                                  sizeof(BoardSlot))) == 0;
  const Json mine = {state.machine_name, host_name(), ::getpid(), usable ? offered : -1, utc_now()};
  std::vector<Json> offers;
  for (const std::string& text : world.all_gather(to_text(mine)))
    offers.push_back(parse_json(text, "shared-memory offer of a rank"));

  state.ranks.clear();
  state.hosts.clear();
  state.machine_of.clear();
  std::map<std::string, int> machines;  // name -> lowest rank
  for (int rank = 0; rank < world.size(); ++rank) {
    const Json& offer = offers[static_cast<std::size_t>(rank)];
    state.hosts.push_back(offer.at(1).get<std::string>());
    state.machine_of.push_back(machines.try_emplace(offer.at(0).get<std::string>(), rank).first->second);
    if (offer.at(0) == mine.at(0)) state.ranks.push_back(rank);
  }
  if (machines.size() > 1 && !folder.empty())
    state.folder =
        folder / fmt::format("{}{}-{}", rank_reports, offers[0].at(4).get<std::string>(), offers[0].at(2).get<int>());
  const Json& lowest = offers[static_cast<std::size_t>(state.machine())];
  Waiting::counts_in(nullptr);
  const bool shares = lowest.at(3).get<int>() >= 0 &&
                      state.map(fmt::format("/proc/{}/fd/{}", lowest.at(2).get<int>(), lowest.at(3).get<int>()));
  if (!shares) state.ranks = {state.rank};  // others then see that it gives no sign
  enter(static_cast<Phase>(state.own_slot.phase.load()), state.own_slot.step);
  state.slot->process = ::getpid();
  Waiting::counts_in(&state.slot->waiting);
  world.barrier();  // the memory has been opened by all
  if (offered >= 0) ::close(offered);
  for (const int rank : state.ranks) {
    if (rank == state.rank) continue;
    const int descriptor =
        static_cast<int>(::syscall(SYS_pidfd_open, offers[static_cast<std::size_t>(rank)].at(2).get<int>(), 0));
    if (descriptor >= 0) state.neighbours.push_back({rank, descriptor});
  }
}

void RankBoard::enter(Phase phase, std::int64_t step, const CurrentAction& action) {
  write_slot(*state_->slot, phase, step, action, run_seconds());
}

void RankBoard::name_wait(std::string_view what) { write_text(state_->slot->awaited, what); }

RankStatus RankBoard::mine() const { return state_->status_of(state_->rank); }

void RankBoard::leave() { state_->slot->left = true; }

bool RankBoard::claim_report() {
  if (state_->board->claimed.exchange(true)) return false;
  if (state_->folder.empty()) return true;
  std::error_code ignored;  // without the folder several machines may explain: better than none
  std::filesystem::create_directories(state_->folder, ignored);
  const int claim = ::open((state_->folder / "claimed").c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (claim >= 0) ::close(claim);
  return claim >= 0 || errno != EEXIST;
}

bool RankBoard::claimed_elsewhere() const {
  if (state_->folder.empty()) return false;
  // listing it asks the file server, where a single name may be answered from memory
  for (const Path& path : try_list_folder(state_->folder)) {
    if (path.filename() == "claimed") return true;
  }
  return false;
}

void RankBoard::report_machine() {
  if (state_->folder.empty() || state_->board->reported.exchange(true)) return;
  Json report = Json::array();
  for (const int rank : state_->ranks) report.push_back(to_json(state_->status_of(rank)));
  try {
    publish_file(state_->file_of(state_->machine()), to_text(report));
  } catch (const Error&) {  // the rank that explains will say that this machine gave no sign
  }
}

std::vector<RankStatus> RankBoard::all(double patience_s) {
  const State& state = *state_;
  std::vector<RankStatus> statuses(static_cast<std::size_t>(state.size));
  for (int rank = 0; rank < state.size; ++rank) {
    RankStatus& status = statuses[static_cast<std::size_t>(rank)];
    status.rank = rank;
    if (static_cast<std::size_t>(rank) < state.hosts.size()) status.host = state.hosts[static_cast<std::size_t>(rank)];
  }
  for (const int rank : state.ranks) statuses[static_cast<std::size_t>(rank)] = state.status_of(rank);
  std::vector<int> missing;
  if (!state.folder.empty()) {
    for (const int machine : state.machine_of) {
      if (machine != state.machine() && std::find(missing.begin(), missing.end(), machine) == missing.end())
        missing.push_back(machine);
    }
  }
  const double end_s = monotonic_seconds() + patience_s;
  while (!missing.empty()) {
    std::erase_if(missing, [&](int machine) {
      try {
        for (const Json& reported : parse_json(read_file(state.file_of(machine)), "report of a machine")) {
          const auto rank = reported.at(0).get<std::size_t>();
          statuses.at(rank) = {.rank = static_cast<int>(rank),
                               .host = state.hosts.at(rank),
                               .known = true,
                               .phase = static_cast<Phase>(reported.at(1).get<int>()),
                               .step = reported.at(2).get<std::int64_t>(),
                               .seconds = reported.at(3).get<double>(),
                               .action = reported.at(6).get<std::string>(),
                               .waits = reported.at(4).get<bool>(),
                               .process = static_cast<RankStatus::Process>(reported.at(5).get<int>())};
        }
        return true;
      } catch (const std::exception&) {  // not there yet
        return false;
      }
    });
    if (missing.empty() || monotonic_seconds() > end_s) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return statuses;
}

const std::vector<RankBoard::Neighbour>& RankBoard::neighbours() const { return state_->neighbours; }
RankStatus RankBoard::neighbour(int rank) const { return state_->status_of(rank); }
bool RankBoard::has_left(int rank) const { return state_->slot_of(rank).left; }

}  // namespace lockstep
