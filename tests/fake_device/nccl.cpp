#include "nccl.hpp"

#include "base/error.hpp"
#include "comm/reduction.hpp"
#include "memory.hpp"
#include "queues.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::fake {

namespace {

constexpr NcclResult invalid_argument{4}, invalid_usage{5}, remote_error{6};
constexpr int first_tag = 1 << 20, groups_of_root = 1 << 10;

/// What a message belongs to.
struct Head {
  int kind = 0;  // of the operation
  int type = 0;
  std::int64_t bytes = 0;
  std::int64_t number = 0;  // of the collective, in its group of ranks; 0: a message of its own
  bool operator==(const Head&) const = default;
};
enum Kind : int { message = 1, all_reduce, all_gather, reduce_scatter, broadcast };

}  // namespace

}  // namespace lockstep::fake

namespace lockstep {

struct NcclRanksOfLibrary {
  int tag = 0;
  int rank = 0;
  std::vector<int> world;          // ranks of MPI, by rank
  std::int64_t collectives = 0;    // that were queued
  std::atomic<int> unsettled = 0;  // answers "in progress" that are due
  std::atomic<bool> aborted = false;
  std::atomic<bool> lost = false;
  std::string error;
};

}  // namespace lockstep

namespace lockstep::fake {

namespace {

using Group = std::shared_ptr<NcclRanksOfLibrary>;

// Of the process: calls come from one thread, but any thread asks for the state.
std::mutex table_mutex;
auto& groups = *new std::map<NcclRanks, Group>;
NcclFaults chosen_faults;
std::int64_t calls = 0;

Group find(NcclRanks ranks) {
  const std::lock_guard lock(table_mutex);
  const auto found = groups.find(ranks);
  invariant(found != groups.end(), "these ranks are connected");
  return found->second;
}

void require(int answer) { invariant(answer == MPI_SUCCESS, "MPI works"); }

/// A message on its way.
struct Message {
  std::vector<std::byte> bytes;  // the head, then the payload
  MPI_Request request = MPI_REQUEST_NULL;
};

/// Messages of one operation. Those that come are taken in the order in which they were asked for.
class Messages {
 public:
  explicit Messages(Group ranks) : ranks_(std::move(ranks)) {}

  void send(int peer, const Head& head, const void* from) {
    Message& one = begin(head);
    std::memcpy(one.bytes.data() + sizeof head, from, static_cast<std::size_t>(head.bytes));
    require(MPI_Isend(one.bytes.data(), static_cast<int>(one.bytes.size()), MPI_BYTE, world(peer), ranks_->tag,
                      MPI_COMM_WORLD, &one.request));
  }
  /// `into` may be null: the payload stays in the message.
  void receive(int peer, const Head& head, void* into) {
    Message& one = begin(head);
    require(MPI_Irecv(one.bytes.data(), static_cast<int>(one.bytes.size()), MPI_BYTE, world(peer), ranks_->tag,
                      MPI_COMM_WORLD, &one.request));
    coming_.push_back({&one, peer, head, into});
  }
  bool have_ended() {
    for (const auto& one : all_) {
      int done = 0;
      require(MPI_Test(&one->request, &done, MPI_STATUS_IGNORE));
      if (done == 0) return false;
    }
    for (const Coming& one : coming_) {
      Head found;
      std::memcpy(&found, one.message->bytes.data(), sizeof found);
      if (found != one.head)
        fail(ExitCode::bug,
             "ranks {} and {} of a group differ: operation {} of kind {} with {} bytes of type {} meets {} of kind {} "
             "with {} bytes of type {}",
             ranks_->rank, one.peer, one.head.number, one.head.kind, one.head.bytes, one.head.type, found.number,
             found.kind, found.bytes, found.type);
      if (one.into != nullptr) std::memcpy(one.into, payload(one), static_cast<std::size_t>(one.head.bytes));
    }
    return true;
  }
  /// What came, in the order in which it was asked for.
  std::vector<const std::byte*> payloads() const {
    std::vector<const std::byte*> all;
    for (const Coming& one : coming_) all.push_back(payload(one));
    return all;
  }

 private:
  struct Coming {
    Message* message;
    int peer;
    Head head;
    void* into;
  };
  static const std::byte* payload(const Coming& one) { return one.message->bytes.data() + sizeof(Head); }
  int world(int peer) const { return ranks_->world.at(static_cast<std::size_t>(peer)); }
  Message& begin(const Head& head) {
    Message& one = *all_.emplace_back(std::make_unique<Message>());
    one.bytes.resize(sizeof head + static_cast<std::size_t>(head.bytes));
    std::memcpy(one.bytes.data(), &head, sizeof head);
    return one;
  }
  Group ranks_;
  std::vector<std::unique_ptr<Message>> all_;
  std::vector<Coming> coming_;
};

/// An operation: `begin` posts its messages, and `end` uses what came.
struct Work {
  Group ranks;
  std::function<void(Messages&)> begin;
  std::function<void(Messages&)> end;
};

thread_local bool in_group = false, group_never_ends = false;
thread_local std::vector<Work> grouped;

/// Works of one group of calls run as one job.
void submit_all(std::vector<Work> works, bool never_ends) {
  struct Running {
    std::vector<Work> works;
    std::vector<std::unique_ptr<Messages>> messages;
  };
  auto running = std::make_shared<Running>();
  running->works = std::move(works);
  submit_steps(DeviceQueue::exchange, [running, never_ends] {
    if (std::ranges::any_of(running->works, [](const Work& one) { return one.ranks->aborted.load(); })) return true;
    if (never_ends) return false;
    if (running->messages.empty())
      for (const Work& one : running->works)
        one.begin(*running->messages.emplace_back(std::make_unique<Messages>(one.ranks)));
    for (const auto& one : running->messages)
      if (!one->have_ended()) return false;
    for (std::size_t i = 0; i < running->works.size(); ++i) running->works[i].end(*running->messages[i]);
    return true;
  });
}

NcclResult queue(NcclRanks ranks, NcclQueue on, std::function<void(Messages&)> begin,
                 std::function<void(Messages&)> end) {
  const Group group = find(ranks);
  if (group->unsettled > 0 || on != queue_handle(DeviceQueue::exchange)) return invalid_usage;
  if (++calls == chosen_faults.refused) {
    group->error = "the test refuses this call";
    return invalid_argument;
  }
  if (calls == chosen_faults.lost) group->lost = true;
  const bool never_ends = calls == chosen_faults.lost || calls == chosen_faults.hangs;
  Work work{group, std::move(begin), std::move(end)};
  if (in_group) {
    grouped.push_back(std::move(work));
    group_never_ends = group_never_ends || never_ends;
    return NcclResult::success;
  }
  submit_all({std::move(work)}, never_ends);
  group->unsettled = static_cast<int>(calls % 3);
  return group->unsettled > 0 ? NcclResult::in_progress : NcclResult::success;
}

std::int64_t width(NcclType type) {
  switch (type) {
    case NcclType::u8: return 1;
    case NcclType::i32:
    case NcclType::f32: return 4;
    case NcclType::i64:
    case NcclType::u64:
    case NcclType::f64: return 8;
  }
  return 0;
}
DType dtype(NcclType type) {
  switch (type) {
    case NcclType::u8: return DType::u8;
    case NcclType::i32: return DType::i32;
    case NcclType::f32: return DType::f32;
    case NcclType::i64: return DType::i64;
    case NcclType::u64: return DType::u64;
    case NcclType::f64: return DType::f64;
  }
  return DType::u8;
}
Reduce reduce(NcclSum sum) {
  return sum == NcclSum::sum ? Reduce::sum : sum == NcclSum::min ? Reduce::min : Reduce::max;
}

Head head_of(NcclRanks ranks, Kind kind, NcclType type, std::size_t count) {
  return {.kind = kind,
          .type = static_cast<int>(type),
          .bytes = static_cast<std::int64_t>(count) * width(type),
          .number = ++find(ranks)->collectives};
}

/// This rank's operand among those that came from the others, by rank.
std::vector<const std::byte*> by_rank(const Messages& messages, int mine, const std::byte* own) {
  std::vector<const std::byte*> all = messages.payloads();
  all.insert(all.begin() + mine, own);
  return all;
}

template <class Part>
void exchange_with_all(const NcclRanksOfLibrary& ranks, const Head& head, Messages& messages, const Part& part) {
  for (int peer = 0; peer < std::ssize(ranks.world); ++peer) {
    if (peer == ranks.rank) continue;
    messages.send(peer, head, part(peer));
    messages.receive(peer, head, nullptr);
  }
}

std::byte* place_of(const void* address) { return static_cast<std::byte*>(opened(address)); }

NcclResult call_all_reduce(const void* from, void* into, std::size_t count, NcclType type, NcclSum sum, NcclRanks ranks,
                           NcclQueue on) {
  const Head head = head_of(ranks, all_reduce, type, count);
  const auto bytes = static_cast<std::size_t>(head.bytes);
  const std::byte* const operand = place_of(from);
  std::byte* const place = place_of(into);
  return queue(
      ranks, on, [=](Messages& messages) { exchange_with_all(*ranks, head, messages, [=](int) { return operand; }); },
      [=](Messages& messages) {
        reduce_in_order(by_rank(messages, ranks->rank, operand), {place, bytes}, dtype(type), reduce(sum));
      });
}

NcclResult call_all_gather(const void* from, void* into, std::size_t count, NcclType type, NcclRanks ranks,
                           NcclQueue on) {
  const Head head = head_of(ranks, all_gather, type, count);
  const auto bytes = static_cast<std::size_t>(head.bytes);
  const std::byte* const own = place_of(from);
  std::byte* const place = place_of(into);
  return queue(
      ranks, on, [=](Messages& messages) { exchange_with_all(*ranks, head, messages, [=](int) { return own; }); },
      [=](Messages& messages) {
        std::size_t rank = 0;
        for (const std::byte* one : by_rank(messages, ranks->rank, own)) {
          if (one != place + rank * bytes) std::memcpy(place + rank * bytes, one, bytes);
          ++rank;
        }
      });
}

NcclResult call_reduce_scatter(const void* from, void* into, std::size_t count, NcclType type, NcclSum sum,
                               NcclRanks ranks, NcclQueue on) {
  const Head head = head_of(ranks, reduce_scatter, type, count);
  const auto bytes = static_cast<std::size_t>(head.bytes);
  const std::byte* const operands = place_of(from);
  std::byte* const place = place_of(into);
  const auto part = [=](int peer) { return operands + static_cast<std::size_t>(peer) * bytes; };
  return queue(
      ranks, on, [=](Messages& messages) { exchange_with_all(*ranks, head, messages, part); },
      [=](Messages& messages) {
        reduce_in_order(by_rank(messages, ranks->rank, part(ranks->rank)), {place, bytes}, dtype(type), reduce(sum));
      });
}

NcclResult call_broadcast(const void* from, void* into, std::size_t count, NcclType type, int root, NcclRanks ranks,
                          NcclQueue on) {
  const Head head = head_of(ranks, broadcast, type, count);
  const std::byte* const source = place_of(from);
  std::byte* const place = place_of(into);
  return queue(
      ranks, on,
      [=](Messages& messages) {
        if (ranks->rank != root) return messages.receive(root, head, place);
        for (int peer = 0; peer < std::ssize(ranks->world); ++peer)
          if (peer != root) messages.send(peer, head, source);
      },
      [](Messages&) {});
}

NcclResult call_send(const void* from, std::size_t count, NcclType type, int peer, NcclRanks ranks, NcclQueue on) {
  const Head head{message, static_cast<int>(type), static_cast<std::int64_t>(count) * width(type), 0};
  const std::byte* const source = place_of(from);
  return queue(ranks, on, [=](Messages& messages) { messages.send(peer, head, source); }, [](Messages&) {});
}

NcclResult call_receive(void* into, std::size_t count, NcclType type, int peer, NcclRanks ranks, NcclQueue on) {
  const Head head{message, static_cast<int>(type), static_cast<std::int64_t>(count) * width(type), 0};
  std::byte* const place = place_of(into);
  return queue(ranks, on, [=](Messages& messages) { messages.receive(peer, head, place); }, [](Messages&) {});
}

NcclResult begin_group() {
  in_group = true;
  return NcclResult::success;
}

NcclResult end_group() {
  in_group = false;
  if (!grouped.empty()) submit_all(std::exchange(grouped, {}), std::exchange(group_never_ends, false));
  return NcclResult::success;
}

int world_rank() {
  int rank = 0;
  require(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  return rank;
}

/// The root's rank in the world, and which of its groups it is.
NcclResult draw_id(NcclId* id) {
  static int drawn = 0;
  const std::array<int, 2> words{world_rank(), drawn++};
  std::memcpy(id->bytes.data(), words.data(), sizeof words);
  return NcclResult::success;
}

NcclResult connect(NcclRanks* ranks, int count, const NcclId* id, int rank) {
  std::array<int, 2> words{};
  std::memcpy(words.data(), id->bytes.data(), sizeof words);
  const int root = words[0], number = words[1];
  auto group = std::make_shared<NcclRanksOfLibrary>();
  group->tag = first_tag + root * groups_of_root + number % groups_of_root;
  group->rank = rank;
  group->world.resize(static_cast<std::size_t>(count));
  const int mine = world_rank();
  if (rank == 0) {  // tells all who is who
    group->world[0] = mine;
    for (int i = 1; i < count; ++i) {
      std::array<int, 2> who{};
      require(MPI_Recv(who.data(), 2, MPI_INT, MPI_ANY_SOURCE, group->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      group->world.at(static_cast<std::size_t>(who[0])) = who[1];
    }
    for (int i = 1; i < count; ++i)
      require(MPI_Send(group->world.data(), count, MPI_INT, group->world[static_cast<std::size_t>(i)], group->tag,
                       MPI_COMM_WORLD));
  } else {
    const std::array<int, 2> who{rank, mine};
    require(MPI_Send(who.data(), 2, MPI_INT, root, group->tag, MPI_COMM_WORLD));
    require(MPI_Recv(group->world.data(), count, MPI_INT, root, group->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  }
  group->unsettled = 2;
  *ranks = group.get();
  const std::lock_guard lock(table_mutex);
  groups.emplace(group.get(), group);
  return NcclResult::in_progress;
}

NcclResult state(NcclRanks ranks, NcclResult* result) {
  const Group group = find(ranks);
  *result = NcclResult::success;
  if (group->lost) *result = remote_error;
  if (group->unsettled > 0 && group->unsettled-- > 0) *result = NcclResult::in_progress;
  return NcclResult::success;
}

NcclResult finish(NcclRanks ranks) {
  find(ranks)->unsettled = 1;
  return NcclResult::in_progress;
}

NcclResult release(NcclRanks ranks) {
  const std::lock_guard lock(table_mutex);
  groups.erase(ranks);
  return NcclResult::success;
}

NcclResult abort(NcclRanks ranks) {
  find(ranks)->aborted = true;
  return release(ranks);
}

const char* text_of(NcclResult result) {
  if (result == invalid_argument) return "invalid argument";
  if (result == invalid_usage) return "invalid usage";
  return result == remote_error ? "remote process exited or there was a network error" : "no error";
}

const char* last_error(NcclRanks ranks) { return ranks == nullptr ? "" : ranks->error.c_str(); }

}  // namespace

const NcclTable& nccl_over_mpi(const NcclFaults& faults) {
  chosen_faults = faults;
  static const NcclTable table{.version = 22809,
                               .text_of = text_of,
                               .last_error = last_error,
                               .draw_id = draw_id,
                               .connect = connect,
                               .state = state,
                               .finish = finish,
                               .release = release,
                               .abort = abort,
                               .begin_group = begin_group,
                               .end_group = end_group,
                               .all_reduce = call_all_reduce,
                               .all_gather = call_all_gather,
                               .reduce_scatter = call_reduce_scatter,
                               .broadcast = call_broadcast,
                               .send = call_send,
                               .receive = call_receive};
  return table;
}

}  // namespace lockstep::fake
