// LibTorch's CUDA library: programs link only the CPU's, and the plug-in opens this one beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::cuda {

/// Opens the library, once, before anything asks LibTorch for CUDA. Throws Error(resources) naming the library that is
/// missing.
void open_libtorch_cuda();
/// Opens a library for the whole process. Throws Error(resources) naming it, or the one that it needs and is missing.
void open_library(const std::string& path);
/// A function of a library that LibTorch's CUDA library has brought into the process, so that the plug-in opens on a
/// machine without it and can say so. Throws Error(resources) naming the function and `library`.
void* function_of_process(const char* name, const char* library);
/// Readies LibTorch's memory of the device in use. `count` is called with the bytes of each tensor, negative when they
/// are released; any thread.
void count_tensor_memory(void (*count)(std::int64_t bytes));
/// Memory of the device from LibTorch's allocator. Once it is released, work that is queued later in the compute queue
/// may use it. Throws c10::OutOfMemoryError.
std::shared_ptr<void> device_memory(std::size_t bytes);

}  // namespace lockstep::cuda
