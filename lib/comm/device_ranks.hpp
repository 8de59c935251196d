// Ranks that exchange memory of their devices directly: a communicator of NCCL. Its operations are queued in the
// exchange queue of this process's device. All groups of a process share that queue, so that ranks must queue all
// operations in one order that fits together (find_serial_stall of program/verify.hpp). Therefore groups of the same
// ranks can share a communicator, which takes memory of the device. Operations that are made of these:
// comm/device_operations.hpp.
#pragma once

#include "comm/communicator.hpp"
#include "device/nccl_table.hpp"

#include <cstddef>
#include <mutex>
#include <string>

namespace lockstep {

class DeviceRanks {
 public:
  /// Connects the devices of `ranks`, which must outlive this object. Waits until all are there; the watchdog limits
  /// that. Collective over `ranks`. Throws Error(communication) with the words of NCCL.
  DeviceRanks(const NcclTable& nccl, Communicator& ranks);
  /// Waits for the other ranks; if an exception unwinds, the operations under way are ended instead.
  ~DeviceRanks();
  DeviceRanks(const DeviceRanks&) = delete;
  DeviceRanks& operator=(const DeviceRanks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // These queue an operation; all ranks queue the same ones in the same order. NCCL adds up no 16-bit types here. Throw
  // Error(communication).
  void all_reduce(std::byte* bytes, std::size_t count, NcclType type, NcclSum sum);
  /// `all` has the `bytes` of each rank; those of this rank may lie at their place.
  void all_gather(const std::byte* mine, std::size_t bytes, std::byte* all);
  void reduce_scatter(const std::byte* all, std::byte* mine, std::size_t count, NcclType type);
  void broadcast(std::byte* bytes, std::size_t count, int root);
  /// Sends and receives between these are one operation: they wait for each other in no order.
  void begin_group();
  void end_group();
  void send(const std::byte* bytes, std::size_t count, int peer);
  void receive(std::byte* bytes, std::size_t count, int peer);

  /// Throws Error(communication) if NCCL has noticed a failure: another rank is gone, or the network. Any thread.
  void check() const;
  /// Ends operations under way; afterwards there is nothing to check. Not beside a call that queues.
  void abort();

 private:
  template <class Call>
  void queue(const char* what, const Call& call);
  /// Waits until the last call is done. Returns its result.
  NcclResult settled(NcclResult result) const;
  NcclResult state(NcclResult& result) const;
  std::string text_of(NcclResult result) const;
  [[noreturn]] void fail_with(const char* what, NcclResult result) const;

  const NcclTable& nccl_;
  int rank_;
  int size_;
  mutable std::mutex mutex_;  // guards each call of NCCL
  NcclRanks handle_ = nullptr;
};

}  // namespace lockstep
