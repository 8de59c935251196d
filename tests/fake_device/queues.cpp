#include "queues.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "memory.hpp"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <deque>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::fake {

namespace {

struct Job {
  std::function<bool()> work;  // returns whether it has ended
  Moment after;                // number 0: any time
};

struct Queue {
  std::deque<Job> jobs;
  std::uint64_t queued = 0, done = 0;
  std::vector<double> done_at;  // by job
};

// Recursive: a job that ends may free tensors, which queues jobs.
std::recursive_mutex mutex;
auto& queues = *new std::array<Queue, queue_count>;  // static tensors may be freed after all else
std::mt19937_64 draw(1);
Order chosen;
Counts counted;
bool is_running = false;
struct Note {
  std::uint64_t jobs;  // of the compute queue, with which the work of the action ends
  std::string action;
};
auto& notes = *new std::deque<Note>;  // the last one that has ended, and later ones

Queue& of(DeviceQueue queue) { return queues[static_cast<std::size_t>(queue)]; }

void drop_old_notes() {
  while (notes.size() > 1 && notes[1].jobs <= of(DeviceQueue::compute).done) notes.pop_front();
}

/// A device that has died runs no more jobs, and tells everybody who asks.
bool is_dead() { return chosen.dies_after > 0 && counted.jobs >= chosen.dies_after; }
void require_life() {
  if (!is_dead()) return;
  drop_old_notes();
  const bool has_ended = !notes.empty() && notes.front().jobs <= of(DeviceQueue::compute).done;
  throw Error(ExitCode::resources,
              "the device has failed: it no longer runs jobs; " +
                  (has_ended ? "the last action known to be complete: " + notes.front().action
                             : std::string("no action is known to be complete")),
              "replace the device");
}

bool over(const Moment& moment) { return of(moment.queue).done >= moment.number; }

bool may_run(const Queue& queue) { return !queue.jobs.empty() && over(queue.jobs.front().after); }

/// What became of the jobs that may run.
enum class Turn { none, unfinished, ran };

/// Runs the next job of a drawn queue, or of another one if it waits for others.
Turn run_any() {
  if (is_dead()) return Turn::none;
  std::vector<Queue*> ready;
  for (Queue& queue : queues)
    if (may_run(queue)) ready.push_back(&queue);
  const bool any = !ready.empty();
  while (!ready.empty()) {
    const auto drawn = ready.begin() + static_cast<std::ptrdiff_t>(draw() % ready.size());
    Queue& queue = **drawn;
    Job& job = queue.jobs.front();
    bool has_ended = false;
    is_running = true;
    {
      const at::NoGradGuard no_grad;
      at::globalContext().setFlushDenormal(true);  // as threads that compute have it
      has_ended = job.work();
      if (has_ended) job.work = {};
    }
    is_running = false;
    if (!has_ended) {
      ready.erase(drawn);
      continue;
    }
    queue.jobs.pop_front();
    ++queue.done;
    queue.done_at.push_back(monotonic_seconds());
    ++counted.jobs;
    return Turn::ran;
  }
  return any ? Turn::unfinished : Turn::none;
}

}  // namespace

void set_order(const Order& order) {
  const std::lock_guard lock(mutex);
  chosen = order;
  draw.seed(order.seed);
}

void submit(DeviceQueue queue, std::function<void()> work) {
  submit_steps(queue, [work = std::move(work)] {
    work();
    return true;
  });
}

void submit_steps(DeviceQueue queue, std::function<bool()> step) {
  const std::lock_guard lock(mutex);
  Queue& to = of(queue);
  to.jobs.push_back({std::move(step), {}});
  ++to.queued;
  while (!is_running && chosen.turns > 0 && draw() % chosen.turns == 0 && run_any() == Turn::ran) {
  }
}

void* queue_handle(DeviceQueue queue) { return &of(queue); }

Moment now(DeviceQueue queue) {
  const std::lock_guard lock(mutex);
  return {queue, of(queue).queued};
}

void follow(DeviceQueue queue, const Moment& moment) {
  const std::lock_guard lock(mutex);
  Queue& to = of(queue);  // a job of its own, so that a moment recorded afterwards is behind the other one too
  to.jobs.push_back({[] { return true; }, ++counted.follows == chosen.other_moment ? Moment{moment.queue, 0} : moment});
  ++to.queued;
}

bool is_over(const Moment& moment) {
  const std::lock_guard lock(mutex);
  constexpr std::uint64_t most = 8;  // jobs that run meanwhile
  require_life();
  for (std::uint64_t jobs = draw() % most; !over(moment) && jobs > 0 && !is_running && run_any() == Turn::ran; --jobs) {
  }
  return over(moment);
}

double seconds_of(const Moment& moment) {
  const std::lock_guard lock(mutex);
  invariant(over(moment), "the time of a moment is known when it is over");
  return moment.number == 0 ? 0 : of(moment.queue).done_at[moment.number - 1];
}

void wait_for(const Moment& moment) {
  std::unique_lock lock(mutex);
  if (++counted.waits == chosen.wait_left_out) return;
  while (!over(moment)) {
    require_life();
    const Turn turn = run_any();
    require_life();
    invariant(turn != Turn::none, "the queues of the device wait for each other");
    if (turn == Turn::ran) continue;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    lock.lock();
  }
  if (!chosen.report.empty())
    std::ofstream(chosen.report) << "jobs " << counted.jobs << " waits " << counted.waits << " follows "
                                 << counted.follows << " copies " << counted.copies << " bytes " << counted.copied_bytes
                                 << " peak " << peak_bytes_in_use() << "\n";
}

void note(std::string action) {
  const std::lock_guard lock(mutex);
  drop_old_notes();
  notes.push_back({of(DeviceQueue::compute).queued, std::move(action)});
}

void run_and_wait(std::function<void()> work) {
  submit(DeviceQueue::compute, std::move(work));
  wait_for(now(DeviceQueue::compute));
}

std::int64_t count_copy(std::size_t bytes) {
  const std::lock_guard lock(mutex);
  counted.copied_bytes += static_cast<std::int64_t>(bytes);
  return ++counted.copies;
}

Counts counts() {
  const std::lock_guard lock(mutex);
  return counted;
}

}  // namespace lockstep::fake
