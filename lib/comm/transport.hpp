// Transport communicates beside the computation: issue → ticket → wait. It has a communicator for each lane and group
// of ranks. One thread runs the operations of all lanes. Operations of one lane begin in the order in which they were
// issued, each when the one before has ended; no lane waits for another. With one rank in a group nothing is sent. An
// operation that fails half-way on one rank cannot be drained, so the thread ends the job at once
// (Session::abort_with). The operations themselves: comm/operations.hpp. Before, between and after programs the
// session's communicator is used.
//
// Memory of a device goes from device to device (comm/device_operations.hpp) if there is a table of NCCL: the
// operations are queued on the device, all in the order in which they were issued, and the thread looks after them.
// Otherwise it goes through pinned host memory: an operation begins once the device has copied it there, and the device
// copies the result back. The calling thread waits for neither.
#pragma once

#include "comm/device_operations.hpp"
#include "comm/operations.hpp"
#include "comm/session.hpp"
#include "device/region.hpp"
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

/// A Ticket identifies an operation that was issued.
struct Ticket {
  std::uint64_t number = 0;  // 0: nothing to wait for
  bool operator==(const Ticket&) const = default;
};

/// An OperationRecord describes an operation that a transport has done, from the view of its communicator.
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
  // World ranks of the communicator that was used; lives as long as the transport.
  const std::vector<Rank>* members = nullptr;
  std::int64_t bytes = 0;  // contributed by this rank
  DType dtype = DType::u8;
  Ticket ticket;
  double begin_s = 0;  // monotonic; when the lane reached the operation
  double end_s = 0;
};
std::string_view name_of(OperationRecord::Kind kind);

/// Whether a lane sends anything in a group, both given by number. The answer is the same on all ranks.
using LaneUse = std::function<bool(int lane, int group)>;

class Transport {
 public:
  /// A group is a list of axes of `mesh`; its members are numbered in the order of their world ranks. The ranks of the
  /// mesh are those of the session, which must outlive this object. A lane has a communicator for each group in which
  /// it `sends`; empty: for all groups. `device` is for memory of the device in use; a group has a communicator of NCCL
  /// if some lane `sends_on_device` in it, and groups of the same ranks share one. Collective over the world. Throws
  /// Error(communication).
  Transport(Session& session, const Mesh& mesh, const std::vector<std::string>& lanes,
            const std::vector<std::vector<AxisName>>& groups, const LaneUse& sends = {}, DeviceExchange device = {},
            const LaneUse& sends_on_device = {});
  /// Finishes all issued operations. While an exception unwinds it waits only 2 s, because the other ranks may never
  /// arrive. Then the thread is detached, and the process is expected to end.
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Each operation is issued for this rank, and every rank that takes part issues the same one on the same lane in the
  // same order. Arguments must not change until wait() returns; those in host memory have their values then, and on a
  // device they have them for kernels that are queued afterwards. Lengths are those of the map, in elements; a rank's
  // shard may end with its last piece. Throw Error(bug) for arguments that contradict each other.
  Ticket all_reduce(int lane, int group, const Region& bytes, DType dtype, Reduce reduce);
  /// Writes the sum of `bytes`, which are overwritten, to `place` as described by `into`.
  Ticket all_reduce_into(int lane, int group, const Region& bytes, DType dtype, const Region& place, SumInto into);
  Ticket all_gather(int lane, int group, const Region& shard, const Region& whole, const ShardMap& map, DType dtype);
  Ticket reduce_scatter(int lane, int group, const Region& whole, const Region& shard, const ShardMap& map, DType dtype,
                        SumInto into = {});
  Ticket broadcast(int lane, int group, int root, const Region& bytes);
  /// `peer` is another rank of the group, and `from` the lane on which it sends. Messages of a lane to a peer are
  /// received in the order of sending.
  Ticket send(int lane, int group, int peer, const Region& bytes);
  Ticket receive(int lane, int group, int peer, const Region& bytes, int from);
  /// Counts are numbers of elements for and from each rank of the group. The parts of ranks are contiguous, by rank.
  Ticket all_to_all_v(int lane, int group, const Region& from, std::span<const std::int64_t> sent, const Region& into,
                      std::span<const std::int64_t> received, DType dtype);
  /// Sends to the next rank of the group (the last one to the first) and receives as many bytes from the one before.
  Ticket shift(int lane, int group, const Region& from, const Region& into, DType dtype);

  /// Copies between regions of this rank's memory; `group` contains only this rank. Runs beside the calling thread if
  /// this transport has a thread, that is, if there are several ranks.
  Ticket copy(int lane, int group, std::vector<RegionCopy> copies);

  /// Returns when the operation is done. If it fails, the job ends, and this does not return. Local.
  void wait(Ticket ticket);
  /// Waits for all operations issued so far. Local.
  void drain();
  /// Keeps memory that operations under way may use when a failure unwinds: it lives as long as the thread. Local.
  void keep(std::shared_ptr<void> memory);
  /// Seconds that operations have taken on the lane so far; overlap can hide at most these. Local.
  double busy_s(int lane) const;
  /// The number of the group along these axes, in the order given at construction. Local. Throws Error(bug) if there is
  /// none.
  int group_along(const std::vector<AxisName>& axes) const;
  /// World ranks of a group, by rank of the group. Local.
  const std::vector<Rank>& members(int group) const;
  /// From now on, issued, awaited and drained operations are written to `log`, which must outlive this object. Local.
  void log_to(TraceLog* log);
  /// Replaces `records` by the operations that ended since the last call, in the order of their ends. Nothing is
  /// recorded before the first call. Local.
  void take_records(std::vector<OperationRecord>& records);

 private:
  struct State;
  class Staging;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
