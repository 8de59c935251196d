#include "cuda/device_failure.hpp"

#include "base/error.hpp"
#include "cuda/stream.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

namespace lockstep::cuda {

namespace {

std::atomic<bool> failed = false;
std::atomic<int> device_in_use = 0;
std::mutex mutex;
auto& failure = *new std::string;      // static tensors may be freed after all else
auto& last_action = *new std::string;  // that is known to be complete
thread_local int device_of_thread = -1;

/// Errors of one call. All others end the context.
bool is_of_the_call(cudaError_t error) {
  constexpr std::array those{cudaErrorMemoryAllocation,
                             cudaErrorInvalidValue,
                             cudaErrorInvalidConfiguration,
                             cudaErrorInvalidDevice,
                             cudaErrorInvalidResourceHandle,
                             cudaErrorInvalidDeviceFunction,
                             cudaErrorNoKernelImageForDevice,
                             cudaErrorNotSupported,
                             cudaErrorLaunchOutOfResources,
                             cudaErrorInsufficientDriver,
                             cudaErrorNoDevice};
  return std::ranges::find(those, error) != those.end();
}

[[noreturn]] void throw_failure() {
  const std::lock_guard lock(mutex);
  throw Error(ExitCode::resources, failure,
              "the kernel log of the machine (Xid) and nvidia-smi -q say more about the device");
}

}  // namespace

void begin_calls(int index) {
  const std::lock_guard lock(mutex);
  device_in_use = index;
  device_of_thread = -1;
  last_action.clear();
  failed = false;
}

bool has_failed() { return failed; }

void note_complete(std::string action) {
  const std::lock_guard lock(mutex);
  last_action = std::move(action);
}

void require_sound() {
  if (failed) throw_failure();
}

void ready_for_call() {
  require_sound();
  if (device_of_thread == device_in_use) return;
  check(cudaSetDevice(device_in_use), "cannot use the device");
  device_of_thread = device_in_use;
}

void check(cudaError_t result, std::string_view doing) {
  if (result == cudaSuccess) return;
  if (!is_of_the_call(result)) fail_device(cudaGetErrorString(result), doing);
  static_cast<void>(cudaGetLastError());  // or LibTorch would find it behind its own next call
  throw Error(ExitCode::resources, fmt::format("{}: {}", doing, cudaGetErrorString(result)));
}

void fail_device(std::string_view reason, std::string_view doing) {
  {
    const std::lock_guard lock(mutex);
    if (!failed) {
      failure = fmt::format("the device has failed: {} ({}); {}", reason, doing,
                            last_action.empty() ? "no action is known to be complete"
                                                : "the last action known to be complete: " + last_action);
      failed = true;
    }
  }
  throw_failure();
}

void check_launch(int code) { check(static_cast<cudaError_t>(code), "cannot start a kernel"); }

}  // namespace lockstep::cuda
