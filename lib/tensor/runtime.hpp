// Process settings for numerical code: flush-to-zero, the caching allocator, a fixed number of threads. They are set
// once, before the first parallel work, because worker threads inherit them when they start.
#pragma once

#include <string>

namespace lockstep {

/// Threads of each of `local_ranks` ranks on this node: `asked` if positive; else OMP_NUM_THREADS if set; else the
/// cores that this process may use divided by the ranks, at least 1. A rank that the launcher bound to fewer cores than
/// its parent has uses all of its own.
int threads_per_rank(int asked, int local_ranks);

/// Makes threads flush denormals to zero, installs the caching allocator (tensor/memory.hpp), and gives LibTorch and
/// our kernels `threads` threads. A lack of memory that LibTorch reports becomes Error(resources) in failure_of
/// (comm/failure.hpp). A debug build then compares the memory of each function's calls with its description
/// (tensor/functions/checked_function.hpp). Local; idempotent.
void set_up_runtime(int threads);

/// Threads of LibTorch and our kernels. Local.
int thread_count();

/// Describes the arithmetic of this process for logs and records: "AVX512, products on the matrix unit".
std::string describe_arithmetic();

}  // namespace lockstep
