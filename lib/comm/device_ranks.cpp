#include "comm/device_ranks.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/waiting.hpp"
#include "device/device.hpp"

#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep {

namespace {

constexpr std::chrono::microseconds between_looks(100);  // at a call that is not done
constexpr int looks_awake = 2000;                        // before that: most calls are done after some µs
constexpr double disconnect_s = 10;                      // after this the other ranks are given up

NcclQueue exchange_queue() { return this_device().handle_of(DeviceQueue::exchange); }

}  // namespace

DeviceRanks::DeviceRanks(const NcclTable& nccl, Communicator& ranks)
    : nccl_(nccl), rank_(ranks.rank()), size_(ranks.size()) {
  NcclId id;
  NcclResult drawn = NcclResult::success;
  if (rank_ == 0) drawn = nccl_.draw_id(&id);
  ranks.broadcast(std::as_writable_bytes(std::span(&drawn, 1)), 0);
  const std::string connecting = "connect the ranks of " + ranks.name();
  if (drawn != NcclResult::success) fail_with(connecting.c_str(), drawn);
  ranks.broadcast(std::as_writable_bytes(std::span(id.bytes)), 0);
  const NcclResult connected = settled(nccl_.connect(&handle_, size_, &id, rank_));
  if (connected == NcclResult::success) return;
  try {
    fail_with(connecting.c_str(), connected);
  } catch (...) {
    abort();
    throw;
  }
}

DeviceRanks::~DeviceRanks() {
  if (handle_ == nullptr) return;
  NcclResult result = NcclResult::in_progress;
  if (std::uncaught_exceptions() == 0) {
    result = nccl_.finish(handle_);
    const double until_s = monotonic_seconds() + disconnect_s;
    while (result == NcclResult::in_progress && monotonic_seconds() < until_s) {
      std::this_thread::sleep_for(between_looks);
      if (state(result) != NcclResult::success) break;
    }
    if (result == NcclResult::success) result = nccl_.release(handle_);
  }
  if (result != NcclResult::success) abort();
}

void DeviceRanks::abort() {
  const std::lock_guard lock(mutex_);
  if (NcclRanks const handle = std::exchange(handle_, nullptr)) static_cast<void>(nccl_.abort(handle));
}

NcclResult DeviceRanks::settled(NcclResult result) const {
  std::optional<Waiting> for_others;  // NCCL may connect to other ranks at the first operation
  for (int looks = 0; result == NcclResult::in_progress; ++looks) {
    if (handle_ == nullptr) return result;
    if (const NcclResult asked = state(result); asked != NcclResult::success) return asked;
    if (result != NcclResult::in_progress || looks < looks_awake) continue;
    if (!for_others) for_others.emplace();
    std::this_thread::sleep_for(between_looks);
  }
  return result;
}

/// NCCL takes one call for a communicator at a time, also of this kind.
NcclResult DeviceRanks::state(NcclResult& result) const {
  const std::lock_guard lock(mutex_);
  return nccl_.state(handle_, &result);
}

std::string DeviceRanks::text_of(NcclResult result) const {
  const char* const detail = nccl_.last_error(handle_);
  return detail == nullptr || *detail == '\0' ? nccl_.text_of(result)
                                              : fmt::format("{} ({})", nccl_.text_of(result), detail);
}

void DeviceRanks::fail_with(const char* what, NcclResult result) const {
  throw Error(ExitCode::communication, fmt::format("NCCL cannot {}: {}", what, text_of(result)),
              "NCCL_DEBUG=INFO makes NCCL tell more; parallel.transport host does without it");
}

template <class Call>
void DeviceRanks::queue(const char* what, const Call& call) {
  NcclResult begun;
  {
    const std::lock_guard lock(mutex_);
    begun = call();
  }
  if (const NcclResult result = settled(begun); result != NcclResult::success) fail_with(what, result);
}

void DeviceRanks::all_reduce(std::byte* bytes, std::size_t count, NcclType type, NcclSum sum) {
  queue("queue an all_reduce",
        [&] { return nccl_.all_reduce(bytes, bytes, count, type, sum, handle_, exchange_queue()); });
}

void DeviceRanks::all_gather(const std::byte* mine, std::size_t bytes, std::byte* all) {
  queue("queue an all_gather",
        [&] { return nccl_.all_gather(mine, all, bytes, NcclType::u8, handle_, exchange_queue()); });
}

void DeviceRanks::reduce_scatter(const std::byte* all, std::byte* mine, std::size_t count, NcclType type) {
  queue("queue a reduce_scatter",
        [&] { return nccl_.reduce_scatter(all, mine, count, type, NcclSum::sum, handle_, exchange_queue()); });
}

void DeviceRanks::broadcast(std::byte* bytes, std::size_t count, int root) {
  queue("queue a broadcast",
        [&] { return nccl_.broadcast(bytes, bytes, count, NcclType::u8, root, handle_, exchange_queue()); });
}

void DeviceRanks::begin_group() {
  if (const NcclResult result = nccl_.begin_group(); result != NcclResult::success) fail_with("begin a group", result);
}

void DeviceRanks::end_group() {
  queue("queue the messages", [&] { return nccl_.end_group(); });
}

// Within a group nothing is queued before its end.
void DeviceRanks::send(const std::byte* bytes, std::size_t count, int peer) {
  const std::lock_guard lock(mutex_);
  const NcclResult result = nccl_.send(bytes, count, NcclType::u8, peer, handle_, exchange_queue());
  if (result != NcclResult::success && result != NcclResult::in_progress) fail_with("send to a rank", result);
}

void DeviceRanks::receive(std::byte* bytes, std::size_t count, int peer) {
  const std::lock_guard lock(mutex_);
  const NcclResult result = nccl_.receive(bytes, count, NcclType::u8, peer, handle_, exchange_queue());
  if (result != NcclResult::success && result != NcclResult::in_progress) fail_with("receive from a rank", result);
}

void DeviceRanks::check() const {
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr) return;
  NcclResult result = NcclResult::success;
  const NcclResult asked = nccl_.state(handle_, &result);
  if (asked != NcclResult::success) result = asked;
  if (result == NcclResult::success || result == NcclResult::in_progress) return;
  throw Error(ExitCode::communication, fmt::format("NCCL has lost other ranks: {}", text_of(result)),
              "the rank that failed first says why");
}

}  // namespace lockstep
