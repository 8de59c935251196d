// Buffers that a thread fills ahead of their use, portion by portion, so that one storage is read while another is
// written. It serves pieces of a checkpoint (reshard/write_state.hpp). For checked blocks of a checkpoint:
// store/read_ahead.hpp.
#pragma once

#include "base/free_memory.hpp"
#include "store/part_file.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace lockstep {

struct Portion {
  std::uint64_t bytes = 0;   // to be filled; 0: the user of the portion does all of the work
  std::uint64_t memory = 0;  // bytes in use from the start of its filling to its release
};

/// Number of portions in work at a time, if memory allows: one is used, the others are filled.
inline constexpr std::size_t portions_in_work = 3;
/// Returns the most bytes that FilledAhead has in work. Pure.
std::uint64_t most_in_work(std::span<const Portion> portions, std::uint64_t memory);

/// One thread calls all members and uses the portions. Local.
class FilledAhead {
 public:
  /// A thread of this object calls `fill` for the portions in order; if the system gives no thread, next() does.
  /// Portions in work use at most `memory` bytes, unless a single one needs more.
  FilledAhead(std::vector<Portion> portions, std::uint64_t memory,
              std::function<void(std::size_t portion, std::span<std::byte> out)> fill);
  ~FilledAhead();
  FilledAhead(const FilledAhead&) = delete;
  FilledAhead& operator=(const FilledAhead&) = delete;

  /// Waits for the first portion that is not released. Its bytes begin at a page. Throws the exception of `fill`.
  std::span<const std::byte> next();
  /// Releases that portion for reuse.
  void release();

 private:
  struct Pages {
    std::unique_ptr<std::byte, FreeMemory> memory;
    std::uint64_t room = 0;
  };
  Pages pages_of(std::uint64_t bytes);
  Pages filled(std::size_t portion);
  bool may_fill() const;
  void work();

  const std::vector<Portion> portions_;
  const std::uint64_t memory_;
  const std::function<void(std::size_t, std::span<std::byte>)> fill_;
  std::mutex mutex_;  // guards the following members
  std::condition_variable is_filled_, has_room_;
  std::deque<Pages> pages_;     // of the portions from released_ to filled_
  std::size_t filled_ = 0;      // number of portions
  std::size_t released_ = 0;    // number of portions
  std::uint64_t in_work_ = 0;   // bytes, including portions that are being filled
  Pages spare_;                 // released pages, reused because touching new memory is slow
  std::exception_ptr failure_;  // of portion filled_
  bool ends_ = false;
  std::optional<std::jthread> thread_;  // last member: ends before the others are destroyed
};

}  // namespace lockstep
