// Loops over threads for kernels, on the thread pool that LibTorch uses. Iterations must be independent, so that the
// result does not depend on the number of threads. Code that sums partial results does so over blocks of fixed size.
#pragma once

#ifdef _OPENMP  // otherwise loops run on the calling thread
#include <omp.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

namespace lockstep {

/// Keeps the first exception of a parallel region, which no exception may leave: any thread may run out of memory.
class RegionFailure {
 public:
  template <class Work>
  void attempt(Work&& work) noexcept {
    try {
      std::forward<Work>(work)();
    } catch (...) {
      if (!taken_.exchange(true)) what_ = std::current_exception();
    }
  }
  /// Rethrows the exception, if there was one. Called after the region.
  void rethrow() const {
    if (what_) std::rethrow_exception(what_);
  }

 private:
  std::atomic<bool> taken_{false};
  std::exception_ptr what_;
};

/// Calls body(begin, end) on disjoint ranges that cover [0, count); each range but the last has at least `grain`
/// iterations. Rethrows an exception of a body after all bodies have ended. Serial inside another parallel region.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
#ifdef _OPENMP
  const std::int64_t wanted = std::max<std::int64_t>(1, count / std::max<std::int64_t>(1, grain));
  const int threads = static_cast<int>(std::min<std::int64_t>(omp_in_parallel() ? 1 : omp_get_max_threads(), wanted));
  if (threads > 1) {
    RegionFailure failure;
#pragma omp parallel num_threads(threads)
    {
      const int granted = omp_get_num_threads();  // may be fewer than asked for
      const std::int64_t share = (count + granted - 1) / granted;
      const std::int64_t begin = std::min(count, omp_get_thread_num() * share);
      const std::int64_t end = std::min(count, begin + share);
      if (begin < end) failure.attempt([&] { body(begin, end); });
    }
    failure.rethrow();
    return;
  }
#else
  static_cast<void>(grain);
#endif
  body(std::int64_t{0}, count);
}

}  // namespace lockstep
