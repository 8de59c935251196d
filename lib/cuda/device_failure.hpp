// The failure of a device. An error of CUDA that ends its context spoils all later calls, so none follows it: the first
// error is kept, names the last action that is known to be complete, and is thrown again by each later call.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

namespace lockstep::cuda {

/// The device `index` is in use from now on, and has not failed.
void begin_calls(int index);
bool has_failed();
/// The work of `action` has ended.
void note_complete(std::string action);

/// Throws the failure of the device if it has failed.
void require_sound();
/// Makes the device in use that of this thread. Throws the failure of the device if it has failed.
void ready_for_call();
/// Throws Error(resources) unless `result` is a success. `doing` says what was tried: "cannot pin 64 MiB of memory". An
/// error that ends the context is the failure of the device.
void check(cudaError_t result, std::string_view doing);
/// The device has failed with `reason`. Throws Error(resources).
[[noreturn]] void fail_device(std::string_view reason, std::string_view doing);

/// Calls CUDA and checks the result.
template <class Call>
void call(std::string_view doing, const Call& made) {
  ready_for_call();
  check(made(), doing);
}

/// Calls CUDA to release something. Does nothing on a device that has failed, and ignores errors.
template <class Call>
void release(const Call& made) noexcept {
  if (!has_failed()) static_cast<void>(made());
}

}  // namespace lockstep::cuda
