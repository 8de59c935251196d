// The stream on which all kernels of the process run, and what their launches need from it. The plug-in defines these
// functions.
#pragma once

#include <cstddef>

struct CUstream_st;

namespace lockstep::cuda {

/// The one compute stream of the process, a cudaStream_t.
CUstream_st* compute_stream();
/// The one in which ranks exchange memory from device to device.
CUstream_st* exchange_stream();
/// Device memory of `bytes`, aligned to 256 bytes, for kernels that are queued before the next call.
void* kernel_scratch(std::size_t bytes);
/// Throws Error if a launch failed. `code` is a cudaError_t.
void check_launch(int code);

}  // namespace lockstep::cuda
