// The process as numerical code wants it: flush-to-zero, an allocator that keeps what it has, a fixed number of
// threads. Called once, before the first parallel work, because worker threads inherit these settings when they start.
#pragma once

#include <string>

namespace lockstep {

/// Threads for each of `local_ranks` ranks on this node: `asked` if it is positive, else OMP_NUM_THREADS if it is set,
/// else the cores that this process may run on divided by the ranks (all of them if the launcher bound this rank to
/// fewer cores than it has), at least 1.
int threads_per_rank(int asked, int local_ranks);

/// Denormals are flushed to zero, freed memory is kept by the process, LibTorch and our kernels use `threads` threads.
/// Local; idempotent.
void set_up_runtime(int threads);

/// Of LibTorch and our kernels. Local.
int thread_count();

/// What this process computes with, for logs and records: "AVX512, products on the matrix unit".
std::string describe_arithmetic();

}  // namespace lockstep
