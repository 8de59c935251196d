#include "cuda/cublaslt.hpp"

#include "base/error.hpp"
#include "cuda/device_failure.hpp"
#include "cuda/libtorch_cuda.hpp"

namespace lockstep::cuda {

const CublasLt& cublaslt() {
  static const CublasLt functions = [] {
    CublasLt all;
#define LOCKSTEP_FIND(name) \
  all.name = reinterpret_cast<decltype(all.name)>(function_of_process("cublasLt" #name, "cublasLt"))
    LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_FIND);
#undef LOCKSTEP_FIND
    return all;
  }();
  return functions;
}

void check_cublaslt(cublasStatus_t result, const char* doing) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  const char* const reason = cublaslt().GetStatusString(result);
  // The device tells cublasLt of its failures, and cublasLt tells only this.
  if (result == CUBLAS_STATUS_EXECUTION_FAILED || result == CUBLAS_STATUS_MAPPING_ERROR) fail_device(reason, doing);
  throw Error(ExitCode::resources, fmt::format("{}: cublasLt answers {}", doing, reason));
}

}  // namespace lockstep::cuda
