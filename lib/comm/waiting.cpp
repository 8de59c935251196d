#include "comm/waiting.hpp"

namespace lockstep {

namespace {
thread_local std::atomic<std::int32_t>* count_of_thread = nullptr;

void add(std::int32_t waits) {
  if (count_of_thread != nullptr) count_of_thread->fetch_add(waits, std::memory_order_relaxed);
}
}  // namespace

Waiting::Waiting() { add(1); }
Waiting::~Waiting() { add(-1); }
Waiting::Pause::Pause() { add(-1); }
Waiting::Pause::~Pause() { add(1); }

std::atomic<std::int32_t>* Waiting::count() { return count_of_thread; }

void Waiting::counts_in(std::atomic<std::int32_t>* count) { count_of_thread = count; }

}  // namespace lockstep
