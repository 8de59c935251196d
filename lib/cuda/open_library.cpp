#include "base/error.hpp"
#include "cuda/libtorch_cuda.hpp"

#include <dlfcn.h>

namespace lockstep::cuda {

void open_library(const std::string& path) {
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  const std::string reason = ::dlerror();  // "libcudnn.so.9: cannot open shared object file: No such file or directory"
  throw Error(ExitCode::resources, fmt::format("cannot open {}, LibTorch's library for CUDA: {}", path, reason),
              "scripts/setup --cuda installs the libraries that it needs");
}

void* function_of_process(const char* name, const char* library) {
  void* const address = ::dlsym(RTLD_DEFAULT, name);
  if (address == nullptr)
    throw Error(ExitCode::resources, fmt::format("no library of this process has {}", name),
                fmt::format("scripts/setup --cuda installs {} for LibTorch", library));
  return address;
}

}  // namespace lockstep::cuda
