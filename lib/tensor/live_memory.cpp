#include "tensor/live_memory.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace lockstep {

namespace {

struct Count {
  std::atomic<std::int64_t> live{0}, peak{0};
};

thread_local TensorWatch* watch = nullptr;

Count& count_of(Arena arena) {
  static std::array<Count, 2> counts;
  return counts[static_cast<std::size_t>(arena)];
}

}  // namespace

std::int64_t live_bytes(Arena arena) { return count_of(arena).live.load(std::memory_order_relaxed); }
std::int64_t peak_live_bytes(Arena arena) { return count_of(arena).peak.load(std::memory_order_relaxed); }
void reset_peak_live_bytes() {
  for (const Arena arena : {Arena::device, Arena::host})
    count_of(arena).peak.store(live_bytes(arena), std::memory_order_relaxed);
}

void count_live_bytes(std::int64_t bytes, Arena arena) {
  Count& count = count_of(arena);
  const std::int64_t now = count.live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t most = peak_live_bytes(arena);
  while (now > most && !count.peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

void count_tensor_bytes(std::int64_t bytes) {
  count_live_bytes(bytes);
  if (watch != nullptr) watch->most_ = std::max(watch->most_, watch->now_ += bytes);
}

TensorWatch::TensorWatch() { watch = this; }
TensorWatch::~TensorWatch() { watch = nullptr; }

}  // namespace lockstep
