// The non-blocking calls of a communicator: each starts something, and ended() tells whether it is done. Operations
// (comm/operations.hpp) are made of them; comm/transport.hpp runs many operations at a time.
#pragma once

#include "comm/peer_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Purpose of a message between two ranks. Messages of one purpose are matched in the order in which they are started.
enum class Message { data, receipt };

/// Members are Local unless they say otherwise. The calls of two ranks match in the order in which each rank starts
/// them. The memory of a call must not change until the call has ended. Failures throw Error(communication).
class NonBlocking {
 public:
  /// A call that was started.
  struct Call {
    std::uintptr_t handle = 0;  // of the implementation; 0: it has ended
  };

  virtual ~NonBlocking() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;

  /// At most 1 GiB at a time; this also holds for the calls below.
  virtual Call send(std::span<const std::byte> bytes, int peer, Message message = Message::data) = 0;
  virtual Call receive(std::span<std::byte> bytes, int peer, Message message = Message::data) = 0;
  /// All ranks' bytes, by rank. `mine` has the same length on every rank and may lie at its place in `all`.
  virtual Call all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  virtual Call broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual Call barrier() = 0;
  /// Whether all of these have ended. Calls that have ended are marked.
  virtual bool ended(std::span<Call> calls) = 0;

  /// Finds out whether every rank can read the memory of every other one. Collective, blocks; call once.
  virtual void agree_on_reading() = 0;
  /// The ranks' processes, by rank, if all can read each other's memory; otherwise, or before agree_on_reading(),
  /// empty.
  const std::vector<Peer>& readable() const { return readable_; }

  /// `hook` is called in the middle of every later operation: this rank has begun it, and the others cannot end it
  /// alone. Tests use it to cause failures that no rank can drain.
  void amid_operations(std::function<void()> hook) { hook_ = std::move(hook); }
  void halfway() const;

 protected:
  std::vector<Peer> readable_;

 private:
  std::function<void()> hook_;
};

}  // namespace lockstep
