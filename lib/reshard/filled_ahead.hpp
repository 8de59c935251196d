// Memory that a thread fills ahead of who uses it, portion by portion: so one storage is read while another is written.
// What fills it here are pieces of a checkpoint (reshard/write_state.hpp). Blocks of one, checked:
// store/read_ahead.hpp.
#pragma once

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
  std::uint64_t bytes = 0;   // to be filled; 0: its user does all of the work
  std::uint64_t memory = 0;  // that it takes from its filling to its release
};

/// How many portions are in work at a time, where there is memory for them: one is used, the others are filled.
inline constexpr std::size_t portions_in_work = 3;
/// The most memory that FilledAhead has in work. Pure.
std::uint64_t most_in_work(std::span<const Portion> portions, std::uint64_t memory);

/// Members are for the one thread that uses the portions. Local.
class FilledAhead {
 public:
  /// `fill` is called for one portion after the other, by a thread of the object's own, or by next() if the system
  /// gives none. Portions in work take `memory` at most, unless a single one takes more.
  FilledAhead(std::vector<Portion> portions, std::uint64_t memory,
              std::function<void(std::size_t portion, std::span<std::byte> out)> fill);
  ~FilledAhead();
  FilledAhead(const FilledAhead&) = delete;
  FilledAhead& operator=(const FilledAhead&) = delete;

  /// Waits for the first portion that is not released; its bytes lie at a whole page. Throws what filling it threw.
  std::span<const std::byte> next();
  /// It is used no more.
  void release();

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Pages {
    std::unique_ptr<std::byte, Free> memory;
    std::uint64_t room = 0;
  };
  Pages pages_of(std::uint64_t bytes);
  Pages filled(std::size_t portion);
  bool may_fill() const;
  void work();

  const std::vector<Portion> portions_;
  const std::uint64_t memory_;
  const std::function<void(std::size_t, std::span<std::byte>)> fill_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable is_filled_, has_room_;
  std::deque<Pages> pages_;     // of the portions from released_ to filled_
  std::size_t filled_ = 0;      // portions
  std::size_t released_ = 0;    // portions
  std::uint64_t in_work_ = 0;   // bytes, those that are being filled among them
  Pages spare_;                 // that were released: memory that is new costs more than what is put into it
  std::exception_ptr failure_;  // of portion filled_
  bool ends_ = false;
  std::optional<std::jthread> thread_;  // last: it ends before the rest goes
};

}  // namespace lockstep
