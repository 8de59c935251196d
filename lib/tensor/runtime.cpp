#include "tensor/runtime.hpp"

#include "base/error.hpp"
#include "base/processors.hpp"
#include "comm/failure.hpp"
#include "tensor/functions/checked_function.hpp"
#include "tensor/gemm.hpp"
#include "tensor/libtorch_error.hpp"
#include "tensor/memory.hpp"
#include "tensor/parallel.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/AutogradState.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>

// MKL asks this function of its own whether the processor is Intel's, and takes its slowest path if not, whatever the
// processor can do. The answer below makes it go by the processor's features: on an AMD EPYC with AVX-512, fp32
// products are 2.4 times as fast, bf16 ones 4.5. Without MKL nobody asks.
extern "C" __attribute__((visibility("default"))) int mkl_serv_intel_cpu_true() { return 1; }

namespace lockstep {

namespace {

std::optional<Error> error_of_libtorch(const std::exception& exception) {
  const auto* const error = dynamic_cast<const c10::OutOfMemoryError*>(&exception);
  if (error == nullptr) return std::nullopt;
  return Error(ExitCode::resources, message_of(*error),
               "use a smaller train.micro_batch, --train.recompute block, train.offload, or more ranks that share the "
               "weights");
}

}  // namespace

int threads_per_rank(int asked, int local_ranks) {
  if (asked > 0) return asked;
  if (const char* told = std::getenv("OMP_NUM_THREADS"); told && std::atoi(told) > 0) return std::atoi(told);
  const int cores = usable_processors();
  return is_bound_by_launcher() ? cores : std::max(1, cores / std::max(1, local_ranks));
}

void set_up_runtime(int threads) {
  keep_memory();
  translate_exceptions(&error_of_libtorch);
#ifdef LOCKSTEP_COMPARE_CALLS
  compare_calls(true);
#endif
  at::set_num_threads(threads);
  // Backward runs on the calling thread, on every device: weight gradients are deferred by the thread.
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
#pragma omp parallel num_threads(threads)
  at::globalContext().setFlushDenormal(true);  // a register of each thread
}

int thread_count() { return at::get_num_threads(); }

std::string describe_arithmetic() {
#ifdef LOCKSTEP_BF16_GEMM
  const char* const library = "bf16 products by MKL";
#else
  const char* const library = "bf16 products widened to fp32";
#endif
  return fmt::format("{}, {}", at::get_cpu_capability(),
                     uses_matrix_unit() ? "products on the matrix unit"
                     : uses_vectors()   ? "products by own vectors"
                                        : library);
}

}  // namespace lockstep
