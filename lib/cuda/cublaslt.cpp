#include "cuda/cublaslt.hpp"

#include "base/error.hpp"
#include "cuda/device_failure.hpp"

#include <dlfcn.h>

namespace lockstep::cuda {

namespace {

template <class Function>
Function found(const char* name) {
  void* const address = ::dlsym(RTLD_DEFAULT, name);
  if (address == nullptr)
    throw Error(ExitCode::resources, fmt::format("no library of this process has {}", name),
                "scripts/setup --cuda installs cublasLt for LibTorch");
  return reinterpret_cast<Function>(address);
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt functions = [] {
    CublasLt all;
#define LOCKSTEP_FIND(name) all.name = found<decltype(all.name)>("cublasLt" #name)
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
