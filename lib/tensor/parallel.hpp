// Loops over threads for kernels, on the thread pool that LibTorch uses. Iterations must be independent, so that the result does not depend
// on the number of threads; whoever sums partial results does it over blocks of fixed size.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace lockstep {

/// Calls body(begin, end) on disjoint ranges that cover [0, count); each range but the last has at least `grain` iterations.
/// The body must not throw. Serial inside another parallel region.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  const std::int64_t wanted = std::max<std::int64_t>(1, count / std::max<std::int64_t>(1, grain));
  const int threads = static_cast<int>(std::min<std::int64_t>(omp_in_parallel() ? 1 : omp_get_max_threads(), wanted));
  if (threads <= 1) {
    body(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t share = (count + threads - 1) / threads;
    const std::int64_t begin = std::min(count, omp_get_thread_num() * share);
    const std::int64_t end = std::min(count, begin + share);
    if (begin < end) body(begin, end);
  }
}

}  // namespace lockstep
