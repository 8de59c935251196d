// Transport communicates behind the computation: issue → ticket → wait. It has a communicator for each lane and group
// of ranks. One thread goes through the operations of all lanes; those of one lane begin in the order in which they
// were issued, each when the one before has ended, and no lane waits for another. With one rank in a group nothing is
// started. An operation that fails half-way on one rank cannot be drained: the thread itself ends the job, at once
// (Session::abort_with). What the operations do: comm/operations.hpp. The session's communicator speaks before, between
// and after programs.
#pragma once

#include "base/region.hpp"
#include "comm/operations.hpp"
#include "comm/session.hpp"
#include "layout/mesh.hpp"
#include "program/trace.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Ticket stands for an operation that was issued.
struct Ticket {
  std::uint64_t number = 0;  // 0: nothing to wait for
  bool operator==(const Ticket&) const = default;
};

/// OperationRecord is what a transport did, as its communicator knows it.
struct OperationRecord {
  enum class Kind : std::uint8_t {
    all_reduce,
    all_gather,
    reduce_scatter,
    broadcast,
    send,
    receive,
    all_to_all_v,
    shift,
    copy
  } kind{};
  int lane = 0;
  int group = 0;
  const std::vector<Rank>* members = nullptr;  // world ranks of the communicator that was used; lives as the transport
  std::int64_t bytes = 0;                      // that this rank handed over
  DType dtype = DType::u8;
  Ticket ticket;
  double begin_s = 0;  // monotonic: when the lane came to it
  double end_s = 0;
};
std::string_view name_of(OperationRecord::Kind kind);

/// Whether a lane sends anything in a group, both by number; the same answer on all ranks.
using LaneUse = std::function<bool(int lane, int group)>;

class Transport {
 public:
  /// Groups are lists of axes of `mesh`, whose ranks are those of the session, which outlives this; members of a group
  /// are numbered in the order of their world ranks. A lane has a communicator for each group that it `sends` in;
  /// empty: for all. Collective over the world.
  Transport(Session& session, const Mesh& mesh, const std::vector<std::string>& lanes,
            const std::vector<std::vector<AxisName>>& groups, const LaneUse& sends = {});
  /// Finishes what was issued. While an exception unwinds it gives that up after 2 s, for the other ranks may never
  /// come: then the thread is left to itself and the process is expected to end.
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Each is issued for this rank, and every rank that takes part issues the same on the same lane in the same order.
  // Arguments are left alone until wait() returns. Lengths are those of the map, in elements; a rank's shard may end
  // with its last piece. Throw Error(bug) for arguments that do not fit each other.
  Ticket all_reduce(int lane, int group, std::span<std::byte> bytes, DType dtype, Reduce reduce);
  /// The sum of `bytes`, which are used up, goes to `place` as `into` says.
  Ticket all_reduce_into(int lane, int group, std::span<std::byte> bytes, DType dtype, std::span<std::byte> place,
                         SumInto into);
  Ticket all_gather(int lane, int group, std::span<const std::byte> shard, std::span<std::byte> whole,
                    const ShardMap& map, DType dtype);
  Ticket reduce_scatter(int lane, int group, std::span<const std::byte> whole, std::span<std::byte> shard,
                        const ShardMap& map, DType dtype, SumInto into = {});
  Ticket broadcast(int lane, int group, int root, std::span<std::byte> bytes);
  /// `peer` is a rank of the group, another one than this, and `from` the lane on which it sends. What a lane sends to
  /// a peer is received in that order.
  Ticket send(int lane, int group, int peer, std::span<const std::byte> bytes);
  Ticket receive(int lane, int group, int peer, std::span<std::byte> bytes, int from);
  /// Counts are elements for and from each rank of the group, whose parts lie side by side.
  Ticket all_to_all_v(int lane, int group, std::span<const std::byte> from, std::span<const std::int64_t> sent,
                      std::span<std::byte> into, std::span<const std::int64_t> received, DType dtype);
  /// To the next rank of the group, the last one's to the first, from the one before; as many bytes of each.
  Ticket shift(int lane, int group, std::span<const std::byte> from, std::span<std::byte> into, DType dtype);

  /// Between regions of this rank's memory; `group` is one of it alone. Beside the calling thread where this transport
  /// has a thread, which it has with several ranks.
  Ticket copy(int lane, int group, std::vector<RegionCopy> copies);

  /// Returns when the operation is done; where it fails the job ends, and nothing returns. Local.
  void wait(Ticket ticket);
  /// Waits for everything issued so far. Local.
  void drain();
  /// For memory that operations under way may use where a failure unwinds: it lives as long as the thread. Local.
  void keep(std::shared_ptr<void> memory);
  /// Seconds that operations have taken on the lane so far: what overlap may hide. Local.
  double busy_s(int lane) const;
  /// The number of the group along these axes, named as at the start. Local. Throws Error(bug) if there is none.
  int group_along(const std::vector<AxisName>& axes) const;
  /// World ranks of a group, by rank of the group. Local.
  const std::vector<Rank>& members(int group) const;
  /// Writes into `log`, which outlives this, what is issued, waited for and drained from now on. Local.
  void log_to(TraceLog* log);
  /// Replaces `records` by what was done since the last call, in the order of its ends; nothing is recorded before the
  /// first call. Local.
  void take_records(std::vector<OperationRecord>& records);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
