#include "store/trash.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "store/run_directory.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep {

namespace {

constexpr std::string_view trash_prefix = ".trash-";
constexpr std::uint64_t step_bytes = 256 << 20;
constexpr double pauses_per_work = 4;

std::vector<Path> trash_of(const Path& run) {
  const Path folder = checkpoints_folder(run);
  if (!is_there(folder)) return {};
  std::vector<Path> found = list_folder(folder);
  std::erase_if(found, [](const Path& path) { return !is_trash(path); });
  return found;
}

/// What a removal is left with before it is done.
struct Stopped {};

}  // namespace

Path trash_name(const Path& path) {
  std::string name = path.filename().string();
  name.erase(0, name.find_first_not_of('.'));
  return path.parent_path() / fmt::format("{}{}-{}", trash_prefix, name, make_uuid());
}

bool is_trash(const Path& path) { return path.filename().string().starts_with(trash_prefix); }

void empty_trash(const Path& run) {
  for (const Path& path : trash_of(run)) remove_tree(path);
}

struct TrashCollector::State {
  explicit State(Path the_run) : run(std::move(the_run)), thread([this] { serve(); }) {}

  ~State() {
    {
      const std::lock_guard lock(mutex);
      ends = true;
    }
    changed.notify_all();
    thread.join();
  }

  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return ends || (asked && !in_haste); });
      if (ends) return;
      asked = false;
      works = true;
      lock.unlock();
      std::string told;
      try {
        for (const Path& path : trash_of(run)) remove_one(path);
      } catch (const Stopped&) {
      } catch (const Error& error) {
        told = error.what();
      }
      lock.lock();
      works = false;
      if (!told.empty()) trouble = std::move(told);
      changed.notify_all();
    }
  }

  void remove_one(const Path& path) {
    double began_s = monotonic_seconds();
    remove_tree_in_steps(path, step_bytes, [&] {
      const std::chrono::duration<double> pause((monotonic_seconds() - began_s) * pauses_per_work);
      std::unique_lock lock(mutex);
      changed.wait_for(lock, pause, [&] { return ends || in_haste; });
      if (ends || in_haste) throw Stopped();
      began_s = monotonic_seconds();
    });
  }

  Path run;
  std::mutex mutex;  // guards all but `run`
  std::condition_variable changed;
  bool asked = false, works = false, ends = false;
  bool in_haste = false;  // another thread deletes all of it
  std::string trouble;
  std::thread thread;  // last: it uses the others
};

TrashCollector::TrashCollector(Path run) : state_(std::make_unique<State>(std::move(run))) {}
TrashCollector::~TrashCollector() = default;

void TrashCollector::wake() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->asked = true;
  }
  state_->changed.notify_all();
}

bool TrashCollector::empty(double limit_s) {
  const double end_s = monotonic_seconds() + limit_s;
  std::unique_lock lock(state_->mutex);
  state_->in_haste = true;
  state_->changed.notify_all();
  state_->changed.wait(lock, [&] { return !state_->works; });
  lock.unlock();
  std::exception_ptr failure;
  bool done = true;
  try {
    for (const Path& path : trash_of(state_->run)) {
      remove_tree_in_steps(path, step_bytes, [&] {
        if (monotonic_seconds() > end_s) throw Stopped();
      });
    }
  } catch (const Stopped&) {
    done = false;
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  state_->in_haste = false;
  state_->changed.notify_all();
  if (failure) std::rethrow_exception(failure);
  return done;
}

std::string TrashCollector::problem() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->trouble, {});
}

}  // namespace lockstep
