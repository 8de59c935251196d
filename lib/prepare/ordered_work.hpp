// Threads that process items and return their results in the order in which the items were given.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep {

template <class Item, class Result>
class OrderedWork {
 public:
  using Work = std::function<Result(Item&)>;
  using MakeWork = std::function<Work()>;  // called once on each thread, so that a Work may have its own state

  OrderedWork(int threads, const MakeWork& make_work) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, make_work] { run(make_work); });
  }
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;
  ~OrderedWork() {
    {
      const std::lock_guard lock(mutex_);
      queue_.clear();
      closed_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void give(Item item) {
    std::packaged_task<Result(const Work&)> task(
        [item = std::move(item)](const Work& work) mutable { return work(item); });
    results_.push_back(task.get_future());
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(task));
    }
    changed_.notify_one();
  }
  /// Returns the number of given items whose results have not been taken.
  std::size_t pending() const { return results_.size(); }
  /// Waits for the oldest result and returns it; rethrows an exception of its work. There must be one.
  Result take() {
    std::future<Result> oldest = std::move(results_.front());
    results_.pop_front();
    return oldest.get();
  }

 private:
  void run(const MakeWork& make_work) {
    const Work work = make_work();
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return closed_ || !queue_.empty(); });
      if (closed_) return;
      auto task = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      task(work);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<Result(const Work&)>> queue_;  // not started
  bool closed_ = false;
  std::deque<std::future<Result>> results_;  // used only by the owner's thread
  std::vector<std::thread> threads_;
};

}  // namespace lockstep
