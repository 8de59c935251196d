#include "data/prefetcher.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep {

struct Prefetcher::State {
  State(const TrainingDataLoader& of, const Settings& how, std::function<void(std::int64_t)> at_each)
      : loader(of), settings(how), begins(std::move(at_each)) {}

  const TrainingDataLoader& loader;
  Settings settings;  // step and position: of the batch that is made next
  std::function<void(std::int64_t)> begins;
  double waited_s = 0;

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::deque<StepBatch> made;
  std::exception_ptr failure;  // of the batch behind these
  bool given_up = false;
  std::thread thread;

  StepBatch make() {
    if (begins) begins(settings.step);
    StepBatch batch = loader.make_step(settings.step, settings.position);
    ++settings.step;
    settings.position = loader.next(settings.position);
    return batch;
  }

  void work() {
    std::unique_lock lock(mutex);
    while (settings.step < settings.end_step) {
      changed.wait(lock, [&] { return given_up || std::ssize(made) < settings.ahead; });
      if (given_up) return;
      lock.unlock();
      StepBatch batch;
      std::exception_ptr problem;
      try {
        batch = make();
      } catch (...) {
        problem = std::current_exception();
      }
      lock.lock();
      if (problem)
        failure = problem;
      else
        made.push_back(std::move(batch));
      changed.notify_all();
      if (problem) return;
    }
  }

  StepBatch take_made() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return failure || !made.empty(); });
    if (made.empty()) std::rethrow_exception(failure);
    StepBatch batch = std::move(made.front());
    made.pop_front();
    changed.notify_all();
    return batch;
  }
};

Prefetcher::Prefetcher(const TrainingDataLoader& loader, const Settings& settings,
                       std::function<void(std::int64_t)> begins)
    : state_(std::make_unique<State>(loader, settings, std::move(begins))) {
  if (settings.ahead > 0 && settings.step < settings.end_step) state_->thread = std::thread([this] { state_->work(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->given_up = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

StepBatch Prefetcher::take() {
  const double start_s = monotonic_seconds();
  StepBatch batch = state_->settings.ahead > 0 ? state_->take_made() : state_->make();
  state_->waited_s += monotonic_seconds() - start_s;
  return batch;
}

double Prefetcher::waited_s() const { return state_->waited_s; }

}  // namespace lockstep
