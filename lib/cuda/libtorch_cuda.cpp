#include "cuda/libtorch_cuda.hpp"

#include "base/error.hpp"
#include "cuda/flash_attention.hpp"

#include <ATen/Context.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>

#include <dlfcn.h>

#include <filesystem>

namespace lockstep::cuda {

namespace {

/// LibTorch's library for the CPU, beside which the other one lies.
std::string path_of_libtorch() {
  Dl_info place{};
  invariant(::dladdr(reinterpret_cast<const void*>(&at::globalContext), &place) != 0, "LibTorch has been loaded");
  return place.dli_fname;
}

}  // namespace

void open_libtorch_cuda() {
  static const bool opened = [] {
    open_library((std::filesystem::path(path_of_libtorch()).parent_path() / "libtorch_cuda.so").string());
    return true;
  }();
  static_cast<void>(opened);
}

void count_tensor_memory(void (*count)(std::int64_t bytes)) {
  using c10::CachingDeviceAllocator::TraceEntry;
  try {
    at::globalContext().lazyInitDevice(at::kCUDA);
  } catch (const c10::Error& error) {
    fail(ExitCode::resources, "LibTorch cannot use the GPU: {}", error.what_without_backtrace());
  }
  // Through its virtual functions: this plug-in links no library of CUDA's side of LibTorch.
  auto* const allocator = static_cast<c10::cuda::CUDACachingAllocator::CUDAAllocator*>(c10::GetAllocator(at::kCUDA));
  allocator->attachAllocatorTraceTracker([count](const TraceEntry& entry) {
    if (entry.action_ == TraceEntry::ALLOC) count(static_cast<std::int64_t>(entry.size_));
    if (entry.action_ == TraceEntry::FREE_REQUESTED) count(-static_cast<std::int64_t>(entry.size_));
  });
}

c10::Device tensor_device() { return c10::impl::VirtualGuardImpl(at::kCUDA).getDevice(); }

std::shared_ptr<void> device_memory(std::size_t bytes) {
  auto memory = std::make_shared<c10::DataPtr>(c10::GetAllocator(at::kCUDA)->allocate(bytes));
  void* const address = memory->get();
  return {std::move(memory), address};
}

}  // namespace lockstep::cuda
