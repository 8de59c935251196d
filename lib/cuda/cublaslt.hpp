// The functions of cublasLt that products call, found in the process.
#pragma once

#include <cublasLt.h>

#define LOCKSTEP_CUBLASLT_FUNCTIONS(use) \
  use(Create);                           \
  use(Destroy);                          \
  use(GetStatusString);                  \
  use(GetVersion);                       \
  use(MatrixLayoutCreate);               \
  use(MatrixLayoutDestroy);              \
  use(MatmulDescCreate);                 \
  use(MatmulDescDestroy);                \
  use(MatmulDescSetAttribute);           \
  use(MatmulPreferenceCreate);           \
  use(MatmulPreferenceDestroy);          \
  use(MatmulPreferenceSetAttribute);     \
  use(MatmulAlgoGetHeuristic);           \
  use(Matmul)

namespace lockstep::cuda {

struct CublasLt {
#define LOCKSTEP_MEMBER(name) decltype(&::cublasLt##name) name = nullptr
  LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_MEMBER);
#undef LOCKSTEP_MEMBER
};

/// The functions. Throws Error(resources) naming one that the process has not.
const CublasLt& cublaslt();

/// Throws Error(resources) unless `result` is a success. `doing`: as of check() in cuda/device_failure.hpp.
void check_cublaslt(cublasStatus_t result, const char* doing);

}  // namespace lockstep::cuda
