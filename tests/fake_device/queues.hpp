// The queues of the fake device. Jobs run late, one at a time, in an order that a seed draws among those that the
// queues and the moments between them allow. A thread that queues a job may run some; a thread that waits for a moment
// runs jobs until the moment is over.
#pragma once

#include "device/device.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>

namespace lockstep::fake {

inline constexpr std::size_t queue_count = 4;

/// A moment in one queue: after its first `number` jobs.
struct Moment {
  DeviceQueue queue = DeviceQueue::compute;
  std::uint64_t number = 0;
};

struct Order {
  std::uint64_t seed = 1;
  std::uint64_t turns = 3;         // one of so many times a job runs when another one is queued; 0: never
  std::int64_t wait_left_out = 0;  // the number of a wait that returns at once; 0: none
  std::int64_t other_moment = 0;   // the number of a follow that gets the moment of an earlier job; 0: none
  std::int64_t dies_after = 0;     // so many jobs; 0: never
  std::string report = {};         // file for the counts
};

void set_order(const Order& order);

void submit(DeviceQueue queue, std::function<void()> work);
/// A job that waits for others: `step` is called until it returns true, and the other queues go on meanwhile.
void submit_steps(DeviceQueue queue, std::function<bool()> step);
/// What the libraries of the device know the queue by.
void* queue_handle(DeviceQueue queue);
Moment now(DeviceQueue queue);
void follow(DeviceQueue queue, const Moment& moment);
/// Runs some jobs, so that a thread that asks again and again comes to an end. Any thread.
bool is_over(const Moment& moment);
/// When the moment was reached, in monotonic seconds.
double seconds_of(const Moment& moment);
/// Runs jobs until the moment is over. Any thread.
void wait_for(const Moment& moment);
/// The work of `action` ends with the jobs that are in the compute queue now.
void note(std::string action);
/// Queues the job and waits for it.
void run_and_wait(std::function<void()> work);

struct Counts {
  std::int64_t jobs = 0;
  std::int64_t waits = 0;
  std::int64_t follows = 0;
  std::int64_t copies = 0, copied_bytes = 0;
};
Counts counts();
/// Counts a copy, and returns its number.
std::int64_t count_copy(std::size_t bytes);

}  // namespace lockstep::fake
