// The state of a transport, and the copies of one operation between a device and the host. For the two sources of
// Transport: comm/transport.cpp has its lanes and their thread, comm/transport_device.cpp the operations on memory of a
// device.
#pragma once

#include "base/error.hpp"
#include "comm/transport.hpp"
#include "comm/waiting.hpp"
#include "device/device.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep {

/// Device memory of one operation, which the operation uses in pinned host memory. For host memory it does nothing.
class Transport::Staging {
 public:
  explicit Staging(State& state) : state_(state) {}
  /// Memory that the operation only reads.
  std::span<const std::byte> in(const Region& region) { return copy_of(region, false); }
  /// Memory that it overwrites, and that nobody reads afterwards.
  std::span<std::byte> scratch(const Region& region) { return copy_of(region, false); }
  /// Memory that it writes, or some of it.
  std::span<std::byte> out(const Region& region) { return copy_of(region, true); }
  /// The operation, between the copies.
  Operation around(Operation operation);
  /// Call with the ticket of the operation.
  Ticket issued(Ticket ticket);
  /// Queues copies between the host and the device, which the ticket stands for.
  Ticket copied(const std::vector<RegionCopy>& copies, Ticket ticket);

 private:
  std::span<std::byte> copy_of(const Region& region, bool written);
  State& state_;
  std::vector<RegionCopy> in_, back_;
  std::vector<std::shared_ptr<std::byte>> memory_;
  std::shared_ptr<DeviceMoment> returned_;  // set by the thread that ends the operation
};

struct Transport::State {
  using Kind = OperationRecord::Kind;
  struct Channel {
    std::unique_ptr<Communicator> ranks;  // null: this rank alone, or the lane sends nothing in this group
    std::vector<Rank> members;            // ascending
    std::string name;
    std::size_t self = 0;  // this rank among them
    std::size_t rank() const { return self; }
  };
  struct Issued {
    Operation operation;
    OperationRecord record;
    const Channel* channel = nullptr;
    // Of an operation that is queued on the device:
    const DeviceRanks* ranks = nullptr;
    std::uint64_t order = 0;  // in the queue of the device
    DeviceMoment begin = nullptr, end = nullptr;
  };
  struct Lane {
    std::string name;
    std::vector<Channel> channels;  // by group
    Workspace space;
    std::deque<Issued> queue;  // the first is being done
    std::uint64_t issued = 0;  // operations so far
    std::uint64_t ended = 0;   // of them, in order
    double busy_s = 0;
    std::atomic<bool> waits{false};  // for other ranks
  };

  mutable std::mutex mutex;  // guards queues, counts and records of lanes, and all below
  std::condition_variable work, ends;
  std::size_t open = 0;  // operations in queues
  int waiting = 0;       // threads in wait()
  bool over = false;
  bool records_wanted = false;
  TraceLog* log = nullptr;                            // of the calling thread
  std::vector<std::pair<Ticket, TraceEntry>> logged;  // what was issued since all was drained
  std::vector<OperationRecord> records;
  std::deque<Lane> lanes;
  std::vector<std::vector<AxisName>> groups;
  std::vector<std::shared_ptr<void>> kept;
  // Of the calling thread: results that the device copies back, and the memory of the copies.
  struct Return {
    Ticket ticket;
    std::shared_ptr<DeviceMoment> moment;
    std::vector<std::shared_ptr<std::byte>> memory;
  };
  std::vector<Return> returns;
  std::vector<Ticket> queued;  // on the device, since all was drained
  Session* session = nullptr;
  std::optional<DeviceOperations> on_device;              // unless the device in use is the host
  std::vector<std::unique_ptr<DeviceRanks>> connections;  // each of other ranks
  std::vector<DeviceRanks*> device_ranks;                 // by group; null: this rank alone, or through host memory
  std::atomic<bool> works{false};                         // the thread does work of its own
  std::uint64_t device_orders = 0;
  std::atomic<std::int32_t>* waits_of_caller = nullptr;
  // Of the thread: the operation at which the queue of the device is, and since when.
  std::uint64_t watched = 0;
  double watched_since_s = 0;
  std::optional<Waiting> device_waits;
  std::thread thread;

  void wait(Ticket ticket);
  /// Puts an operation into its lane. An operation of one rank alone runs at once if its lane is idle.
  Ticket issue(Kind kind, int lane_index, int group, std::size_t bytes, DType dtype, Issued issued);
  Ticket issue(Kind kind, int lane_index, int group, std::size_t bytes, DType dtype, Operation operation) {
    return issue(kind, lane_index, group, bytes, dtype, Issued{.operation = std::move(operation), .record = {}});
  }
  /// The thread's life: until the transport is over and all queues are empty. A failure ends the job.
  void serve();
  /// Takes the first operation of a lane one wait further. False if it still waits.
  bool go_on(Lane& lane, Issued& first) noexcept;
  void finish(Lane& lane);
  /// For an operation that has failed half-way, in a catch.
  [[noreturn]] void end_job(Kind kind, const Channel& ranks) noexcept;

  // For memory of a device (comm/transport_device.cpp).
  /// Whether an operation on this memory is queued on the device.
  bool stays_on_device(int lane, int group, std::initializer_list<const Region*> regions) const;
  /// Queues an operation on the device: calls `queue(operations, ranks)`. A failure ends the job, because the others
  /// have queued their parts.
  Ticket issue_on_device(Kind kind, int lane, int group, std::size_t bytes, DType dtype,
                         const std::function<void(DeviceOperations&, DeviceRanks*)>& queue);
  /// Whether the device orders the results of an operation: then nobody has to wait for the thread.
  bool is_queued(Ticket ticket) const { return std::ranges::find(queued, ticket) != queued.end(); }
  /// Kernels that are queued from now on have the results of the operations up to this one on its lane.
  void bring_back(Ticket ticket);
  /// Marks this rank as waiting while its device waits for other ranks in an operation, because all operations of the
  /// device are queued behind this one.
  void watch_queue(const std::vector<Issued*>& heads) noexcept;
  /// Throws if the ranks of an operation on the device are lost. A rank of this machine that has died is reported by
  /// the watchdogs, which know more, so they go first.
  static void watch(const Issued& issued);

  const Channel& channel(int lane, int group) const {
    invariant(lane >= 0 && static_cast<std::size_t>(lane) < lanes.size(), "an operation names an existing lane");
    const std::vector<Channel>& channels = lanes[static_cast<std::size_t>(lane)].channels;
    invariant(group >= 0 && static_cast<std::size_t>(group) < channels.size(), "an operation names an existing group");
    return channels[static_cast<std::size_t>(group)];
  }
  /// The channel of a group in which this lane sends.
  const Channel& connected(int lane, int group) const {
    const Channel& found = channel(lane, group);
    invariant(found.ranks || found.members.size() == 1, "a lane sends only in groups that it has a communicator for");
    return found;
  }
  /// The calls to another rank of the channel.
  NonBlocking& calls_with(int lane, int group, int peer) const {
    const Channel& ranks = connected(lane, group);
    invariant(peer >= 0 && static_cast<std::size_t>(peer) < ranks.members.size() &&
                  static_cast<std::size_t>(peer) != ranks.rank(),
              "a peer is another rank of the group");
    return ranks.ranks->calls();
  }
  Workspace& space(int lane) { return lanes[static_cast<std::size_t>(lane)].space; }
};

}  // namespace lockstep
