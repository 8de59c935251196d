// A lane communicates behind the computation: issue → ticket → wait. One thread owns the lane's communicator and does
// what is issued, first in, first out; every rank issues the same work in the same order. With one rank there is no
// thread and nothing to wait for. A collective that fails half-way on one rank cannot be drained: the lane's thread
// itself ends the job, at once (Session::abort_with). The heartbeat and everything outside of a step's reductions speak
// on the session's communicator instead.
#pragma once

#include "comm/session.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace lockstep {

/// Ticket stands for work issued on a lane; wait for it on the same lane.
struct Ticket {
  std::uint64_t number = 0;  // 0: nothing to wait for
};

class CommunicationLane {
 public:
  /// A lane of its own over all ranks of the session, which outlives it. Collective over the world.
  CommunicationLane(Session& session, const std::string& name);
  /// Finishes what was issued. While an exception unwinds it gives that up after 2 s, for the other ranks may never
  /// come: then the thread is left to itself and the process is expected to end.
  ~CommunicationLane();
  CommunicationLane(const CommunicationLane&) = delete;
  CommunicationLane& operator=(const CommunicationLane&) = delete;

  /// Reduces `bytes` in place (Communicator::all_reduce) behind the caller, who leaves them alone until wait() returns.
  /// Local, but every rank issues the same.
  Ticket all_reduce(std::span<std::byte> bytes, DType dtype, Reduce reduce);
  /// The same for any collective work on the lane's communicator. With one rank it is done at once, and throws here.
  Ticket issue(std::function<void(Communicator&)> work);
  /// Returns when the work is done; where it fails the job ends, and nothing returns. Local.
  void wait(Ticket ticket);
  /// Waits for everything issued so far. Local.
  void drain();
  /// Seconds that work has taken on the lane so far: what overlap may hide. Local.
  double busy_s() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
