#include "comm/waiting.hpp"

namespace lockstep {

namespace {
thread_local std::atomic<std::int32_t>* count_of_thread = nullptr;
}

Waiting::Waiting() {
  if (count_of_thread != nullptr) count_of_thread->fetch_add(1, std::memory_order_relaxed);
}

Waiting::~Waiting() {
  if (count_of_thread != nullptr) count_of_thread->fetch_sub(1, std::memory_order_relaxed);
}

void Waiting::counts_in(std::atomic<std::int32_t>* count) { count_of_thread = count; }

}  // namespace lockstep
