// The calls of a communicator that return at once: each starts something, and ended() tells when it is done.
// Operations are made of them: comm/operations.hpp. Who goes through many operations at a time: comm/transport.hpp.
#pragma once

#include "comm/peer_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// What a message between two ranks is for: messages of one purpose meet in the order in which they are started.
enum class Message { data, receipt };

/// Members are Local unless they say otherwise; the calls of two ranks meet in the order in which each starts them. A
/// call's memory is left alone until the call has ended. Failures throw Error(communication).
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

  /// At most 1 GiB at a time, as for all below.
  virtual Call send(std::span<const std::byte> bytes, int peer, Message message = Message::data) = 0;
  virtual Call receive(std::span<std::byte> bytes, int peer, Message message = Message::data) = 0;
  /// All ranks' bytes, by rank; `mine`, of the same length on every rank, may lie at its place in `all`.
  virtual Call all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  virtual Call broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual Call barrier() = 0;
  /// Whether all of these have ended; those that have are marked.
  virtual bool ended(std::span<Call> calls) = 0;

  /// Finds out whether every rank can read the memory of every other one. Collective, blocks; once.
  virtual void agree_on_reading() = 0;
  /// The ranks' processes, by rank, where they can; else, or before they agreed, none.
  const std::vector<Peer>& readable() const { return readable_; }

  /// `hook` is called in the midst of every later operation: this rank has begun it, and the others cannot end it
  /// alone. Where tests bring failures about that no rank can drain.
  void amid_operations(std::function<void()> hook) { hook_ = std::move(hook); }
  void halfway() const;

 protected:
  std::vector<Peer> readable_;

 private:
  std::function<void()> hook_;
};

}  // namespace lockstep
