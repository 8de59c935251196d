// Stand-ins for CUDA's run-time and cublasLt, for tests of the plug-in's glue without a GPU. Device memory is memory of
// the host; work in streams runs late, when somebody asks for an event or waits; products are computed in double
// precision. Each call is recorded, and a chosen one fails.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep::stubs {

/// sticky: an error that ends the context. own: one of this call.
enum class FaultKind { own, sticky };

struct Machine {
  int driver = 13000;  // 0: none
  struct Gpu {
    std::string name = "stub GPU";
    int major = 9, minor = 0;
  };
  std::vector<Gpu> gpus = {{}};
  int failing_call = 0;           // its number, from 1 on; 0: none
  std::string failing_name = {};  // of calls with this name alone; empty: of all
  FaultKind fault = FaultKind::own;
  bool proposes_algorithms = true;
  // Of each algorithm that cublasLt proposes for any product; then events have the times of products alone. Empty: one
  // algorithm, and the times of the host. Negative: cublasLt refuses to start it.
  std::vector<double> algorithm_s = {};
  bool runs_when_asked = true;  // a question after an event lets some work run
};

/// Begins anew, with no calls and no objects.
void begin(const Machine& machine);

/// The calls so far, by name, without those that only read: cudaGetLastError, cudaGetErrorString.
const std::vector<std::string>& calls();
int count_of(const std::string& call);
/// Objects that have not been released, by kind: "event", "stream", "pinned", "cublasLt", "matrix", "product",
/// "preference".
std::map<std::string, int> live_objects();
/// Calls after the one that failed and ended the context.
int calls_after_failure();
/// The device that the calling thread chose last; -1: none.
int device_in_use();
/// The failing call, or empty.
std::string failed_call();
/// The algorithm of each product that has been started, by number.
const std::vector<int>& algorithms_used();
/// Queues the work of a kernel in the default stream.
void queue_kernel(std::function<void()> work);

/// The part of the plug-in that calls LibTorch.
struct LibTorchState {
  bool is_missing = false;
  int opened = 0;
  std::int64_t blocks = 0;  // of device memory that are in use
  void (*count)(std::int64_t bytes) = nullptr;
};
LibTorchState& libtorch();

}  // namespace lockstep::stubs
