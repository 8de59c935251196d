// Waiting marks that a thread waits for other ranks, so that a watchdog can tell who holds up whom:
// comm/rank_board.hpp.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep {

/// While one lives, this thread waits for other ranks. Communicators and transports make one where they block.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// While one lives amid a Waiting, its thread does work of its own.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
  };

  /// Counts the Waiting objects of this thread in `count` from now on; null: nowhere. Not while one lives.
  static void counts_in(std::atomic<std::int32_t>* count);
};

}  // namespace lockstep
