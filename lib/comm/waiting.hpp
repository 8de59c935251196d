// Waiting marks that a thread waits for other ranks, so that a watchdog can find the rank that holds up the others:
// comm/rank_board.hpp.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep {

/// While an object exists, this thread waits for other ranks. Communicators and transports make one where they block.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// Within a Waiting: while an object exists, the thread does work of its own.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
  };

  /// From now on, the Waiting objects of this thread are counted in `count`; null: not counted. Call while none exists.
  static void counts_in(std::atomic<std::int32_t>* count);
  /// Returns where those of this thread are counted; null: nowhere.
  static std::atomic<std::int32_t>* count();
};

}  // namespace lockstep
