#include "tensor/live_memory.hpp"

#include <atomic>

namespace lockstep {

namespace {

std::atomic<std::int64_t> live{0}, peak{0};

}  // namespace

std::int64_t live_bytes() { return live.load(std::memory_order_relaxed); }
std::int64_t peak_live_bytes() { return peak.load(std::memory_order_relaxed); }
void reset_peak_live_bytes() { peak.store(live_bytes(), std::memory_order_relaxed); }

void count_live_bytes(std::int64_t bytes) {
  const std::int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t most = peak_live_bytes();
  while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

}  // namespace lockstep
