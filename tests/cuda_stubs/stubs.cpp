#include "cuda_stubs/stubs.hpp"

#include "base/clock.hpp"
#include "tensor/kernels/number.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>

using lockstep::Bf16;
using lockstep::Fp16;

struct CUevent_st {
  std::uint64_t recorded = 0, reached = 0;  // numbers of records
  double reached_s = 0;
};

struct StreamJob {
  std::function<void()> work;
  CUevent_st* after = nullptr;  // runs once this record of the event is reached
  std::uint64_t record = 0;
};

struct CUstream_st {
  std::deque<StreamJob> jobs;
};

namespace lockstep::stubs {

namespace {

struct State {
  Machine machine;
  std::vector<std::string> calls;
  std::string failed;
  int after_failure = 0;
  int device = -1;
  cudaError_t last_error = cudaSuccess;
  std::uint64_t records = 0;
  CUstream_st default_stream;
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::map<std::byte*, std::size_t> pinned;
  std::map<std::string, int> lt_objects;
  std::vector<int> algorithms_used;
  double products_s = 0;                      // of all products that have run
  bool in_group = false;                      // of calls of NCCL
  std::deque<const void*> sent;               // in it, and not received yet
  std::vector<std::shared_ptr<void>> memory;  // of all objects, until the next test: jobs may still name them
};
State& state() {
  static auto* const current = new State;
  return *current;
}

/// Notes a call. Returns whether it is the one to fail.
bool fails(const char* name) {
  State& now = state();
  now.calls.emplace_back(name);
  if (!now.failed.empty() && now.machine.fault == FaultKind::sticky) ++now.after_failure;
  const std::string& only = now.machine.failing_name;
  if (!only.empty() && only != name) return false;
  const auto number = only.empty() ? std::ssize(now.calls) : std::ranges::count(now.calls, only);
  if (number != now.machine.failing_call) return false;
  now.failed = name;
  return true;
}

cudaError_t cuda_fault() {
  return state().last_error =
             state().machine.fault == FaultKind::sticky ? cudaErrorIllegalAddress : cudaErrorMemoryAllocation;
}
cublasStatus_t cublas_fault() {
  return state().machine.fault == FaultKind::sticky ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_ALLOC_FAILED;
}

template <class Object>
Object* kept(Object* object) {
  state().memory.emplace_back(std::shared_ptr<Object>(object));
  return object;
}

CUstream_st& of(cudaStream_t stream) { return stream == nullptr ? state().default_stream : *stream; }

bool run_one(CUstream_st& stream) {
  if (stream.jobs.empty()) return false;
  const StreamJob& first = stream.jobs.front();
  if (first.after != nullptr && first.after->reached < first.record) return false;
  const StreamJob job = std::move(stream.jobs.front());
  stream.jobs.pop_front();
  if (job.work) job.work();
  return true;
}

/// Runs a job of some stream: those of copies first, so that one that should have waited shows.
bool run_any() {
  return std::ranges::any_of(state().streams, [](CUstream_st* stream) { return run_one(*stream); }) ||
         run_one(state().default_stream);
}

void run_until(const std::function<bool()>& done) {
  while (!done())
    if (!run_any()) std::abort();  // the streams wait for each other
}

bool is_pinned(const std::byte* address) {
  return std::ranges::any_of(state().pinned, [&](const auto& block) {
    return address >= block.first && address < block.first + block.second;
  });
}

}  // namespace

void begin(const Machine& machine) {
  state() = State();
  state().machine = machine;
}
const std::vector<std::string>& calls() { return state().calls; }
int count_of(const std::string& call) { return static_cast<int>(std::ranges::count(state().calls, call)); }
std::map<std::string, int> live_objects() {
  std::map<std::string, int> live = state().lt_objects;
  live["event"] = static_cast<int>(state().events.size());
  live["stream"] = static_cast<int>(state().streams.size());
  live["pinned"] = static_cast<int>(state().pinned.size());
  std::erase_if(live, [](const auto& kind) { return kind.second == 0; });
  return live;
}
int calls_after_failure() { return state().after_failure; }
int device_in_use() { return state().device; }
std::string failed_call() { return state().failed; }
const std::vector<int>& algorithms_used() { return state().algorithms_used; }
void queue_kernel(std::function<void()> work) { state().default_stream.jobs.push_back({std::move(work)}); }

}  // namespace lockstep::stubs

using namespace lockstep::stubs;

#define LOCKSTEP_CALL() \
  if (fails(__func__)) return cuda_fault()

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  LOCKSTEP_CALL();
  *version = state().machine.driver;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  LOCKSTEP_CALL();
  if (state().machine.driver < CUDART_VERSION) return cudaErrorInsufficientDriver;
  *count = static_cast<int>(state().machine.gpus.size());
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  LOCKSTEP_CALL();
  const Machine::Gpu& gpu = state().machine.gpus.at(static_cast<std::size_t>(device));
  *properties = {};
  gpu.name.copy(properties->name, sizeof properties->name - 1);
  properties->major = gpu.major;
  properties->minor = gpu.minor;
  properties->totalGlobalMem = std::size_t{80} << 30;
  properties->multiProcessorCount = 132;
  for (int i = 0; i < 16; ++i) properties->uuid.bytes[i] = static_cast<char>(16 * device + i);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  LOCKSTEP_CALL();
  *value = attribute == cudaDevAttrHostNumaId ? device % 2 : 0;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  LOCKSTEP_CALL();
  *total = std::size_t{80} << 30;
  *free = std::size_t{79} << 30;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  LOCKSTEP_CALL();
  state().device = device;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(state().last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "out of memory";
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  LOCKSTEP_CALL();
  *memory = std::malloc(bytes);
  state().memory.emplace_back(*memory, &std::free);
  state().pinned.emplace(static_cast<std::byte*>(*memory), bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  LOCKSTEP_CALL();
  state().pinned.erase(static_cast<std::byte*>(memory));
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  LOCKSTEP_CALL();
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  state().streams.insert(*stream = kept(new CUstream_st));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  LOCKSTEP_CALL();
  state().streams.erase(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  LOCKSTEP_CALL();
  of(stream).jobs.push_back({{}, event, event->recorded});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  LOCKSTEP_CALL();
  state().events.insert(*event = kept(new CUevent_st));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  LOCKSTEP_CALL();
  state().events.erase(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  LOCKSTEP_CALL();
  const std::uint64_t number = event->recorded = ++state().records;
  of(stream).jobs.push_back({[event, number] {
    event->reached = std::max(event->reached, number);
    event->reached_s = state().machine.algorithm_s.empty() ? lockstep::monotonic_seconds() : state().products_s;
  }});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  LOCKSTEP_CALL();
  if (state().machine.runs_when_asked) run_any();
  return event->reached >= event->recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  LOCKSTEP_CALL();
  run_until([&] { return event->reached >= event->recorded; });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  LOCKSTEP_CALL();
  *milliseconds = static_cast<float>((end->reached_s - start->reached_s) * 1000);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  LOCKSTEP_CALL();
  const bool reads_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
  if (reads_host && !is_pinned(static_cast<const std::byte*>(from))) {
    const auto* const first = static_cast<const std::byte*>(from);
    of(stream).jobs.push_back(
        {[to, kept = std::vector<std::byte>(first, first + bytes)] { std::memcpy(to, kept.data(), kept.size()); }});
  } else {
    of(stream).jobs.push_back({[to, from, bytes] { std::memcpy(to, from, bytes); }});
  }
  return cudaSuccess;
}
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  LOCKSTEP_CALL();
  of(stream).jobs.push_back({[=] {
    for (std::size_t row = 0; row < height; ++row) std::memset(static_cast<std::byte*>(to) + row * pitch, value, width);
  }});
  return cudaSuccess;
}

}  // extern "C"

// cublasLt.

#undef LOCKSTEP_CALL
#define LOCKSTEP_CALL() \
  if (fails(__func__)) return cublas_fault()

struct cublasLtContext {};

namespace {

struct Matrix {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t leading;
};
struct Operation {
  cublasComputeType_t compute;
  cudaDataType scale_type;
  std::map<int, std::vector<std::byte>> attributes;
  template <class Value>
  Value get(cublasLtMatmulDescAttributes_t attribute, Value otherwise) const {
    const auto found = attributes.find(attribute);
    if (found != attributes.end()) std::memcpy(&otherwise, found->second.data(), sizeof otherwise);
    return otherwise;
  }
};

template <class Object>
Object& object(const void* handle) {
  return *const_cast<Object*>(static_cast<const Object*>(handle));
}
template <class Handle, class Object>
void make(Handle* handle, Object* object, const char* kind) {
  *handle = reinterpret_cast<Handle>(kept(object));
  ++state().lt_objects[kind];
}

double load_value(const void* data, cudaDataType type, std::int64_t index) {
  switch (type) {
    case CUDA_R_64F: return static_cast<const double*>(data)[index];
    case CUDA_R_32F: return static_cast<const float*>(data)[index];
    case CUDA_R_16BF: return lockstep::load(static_cast<const Bf16*>(data)[index]);
    case CUDA_R_16F: return lockstep::load(static_cast<const Fp16*>(data)[index]);
    default: std::abort();
  }
}
void store_value(void* data, cudaDataType type, std::int64_t index, double value) {
  switch (type) {
    case CUDA_R_64F: static_cast<double*>(data)[index] = value; return;
    case CUDA_R_32F: static_cast<float*>(data)[index] = static_cast<float>(value); return;
    case CUDA_R_16BF: lockstep::store(static_cast<Bf16*>(data)[index], static_cast<float>(value)); return;
    case CUDA_R_16F: lockstep::store(static_cast<Fp16*>(data)[index], static_cast<float>(value)); return;
    default: std::abort();
  }
}

/// cublasLt's product, in column-major order.
void multiply(const Operation& operation, double alpha, const void* a, const Matrix& of_a, const void* b,
              const Matrix& of_b, double beta, const void* c, const Matrix& of_c, void* d, const Matrix& of_d) {
  const bool turns_a = operation.get<cublasOperation_t>(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) == CUBLAS_OP_T;
  const bool turns_b = operation.get<cublasOperation_t>(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) == CUBLAS_OP_T;
  const auto epilogue = operation.get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  const auto* const bias = operation.get<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr);
  const auto bias_type = operation.get(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_8I);  // none of ours
  const auto rows = static_cast<std::int64_t>(of_d.rows), columns = static_cast<std::int64_t>(of_d.columns);
  const auto depth = static_cast<std::int64_t>(turns_a ? of_a.rows : of_a.columns);
  std::vector<double> sums;
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::int64_t l = 0; l < depth; ++l)
        sum += load_value(a, of_a.type, turns_a ? i * of_a.leading + l : l * of_a.leading + i) *
               load_value(b, of_b.type, turns_b ? l * of_b.leading + j : j * of_b.leading + l);
      sum *= alpha;
      if (beta != 0) sum += beta * load_value(c, of_c.type, j * of_c.leading + i);
      if (epilogue == CUBLASLT_EPILOGUE_BIAS) sum += load_value(bias, bias_type, i);
      sums.push_back(sum);
    }
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i)
      store_value(d, of_d.type, j * of_d.leading + i, sums[static_cast<std::size_t>(j * rows + i)]);
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  LOCKSTEP_CALL();
  make(handle, new cublasLtContext, "cublasLt");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  LOCKSTEP_CALL();
  --state().lt_objects["cublasLt"];
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return 130203; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_EXECUTION_FAILED ? "the GPU program failed to execute" : "the allocation failed";
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  LOCKSTEP_CALL();
  make(handle, new Matrix{type, rows, columns, leading}, "matrix");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t) {
  LOCKSTEP_CALL();
  --state().lt_objects["matrix"];
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale_type) {
  LOCKSTEP_CALL();
  make(handle, new Operation{compute, scale_type, {}}, "product");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t) {
  LOCKSTEP_CALL();
  --state().lt_objects["product"];
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  LOCKSTEP_CALL();
  const auto* const first = static_cast<const std::byte*>(value);
  object<Operation>(handle).attributes[attribute].assign(first, first + bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  LOCKSTEP_CALL();
  make(handle, new int, "preference");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
  LOCKSTEP_CALL();
  --state().lt_objects["preference"];
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  LOCKSTEP_CALL();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
  LOCKSTEP_CALL();
  const int all =
      state().machine.proposes_algorithms ? std::max(1, static_cast<int>(state().machine.algorithm_s.size())) : 0;
  *count = std::min(most, all);
  for (int i = 0; i < *count; ++i) {
    found[i] = {};
    found[i].algo.data[0] = static_cast<std::uint64_t>(i);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t handle, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t of_a, const void* b, cublasLtMatrixLayout_t of_b, const void* beta,
                              const void* c, cublasLtMatrixLayout_t of_c, void* d, cublasLtMatrixLayout_t of_d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t stream) {
  LOCKSTEP_CALL();
  if (algorithm == nullptr || workspace == nullptr || workspace_bytes == 0) return CUBLAS_STATUS_INVALID_VALUE;
  const auto number = static_cast<std::size_t>(algorithm->data[0]);
  const std::vector<double>& times = state().machine.algorithm_s;
  const double seconds = times.empty() ? 0 : times.at(number);
  if (seconds < 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  state().algorithms_used.push_back(static_cast<int>(number));
  const Operation operation = object<Operation>(handle);  // as it is now: its addresses change before the job runs
  const auto mode = operation.get(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_HOST);
  const bool late = mode == CUBLASLT_POINTER_MODE_DEVICE;
  const std::array<double, 2> now =
      late ? std::array<double, 2>{}
           : std::array{load_value(alpha, operation.scale_type, 0), load_value(beta, operation.scale_type, 0)};
  of(stream).jobs.push_back(
      {[=, as = object<Matrix>(of_a), bs = object<Matrix>(of_b), cs = object<Matrix>(of_c), ds = object<Matrix>(of_d)] {
        multiply(operation, late ? load_value(alpha, operation.scale_type, 0) : now[0], a, as, b, bs,
                 late ? load_value(beta, operation.scale_type, 0) : now[1], c, cs, d, ds);
        state().products_s += seconds;
      }});
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"

// NCCL, with one rank: what it sends to itself comes at once. A call is in progress until its state has been asked for.

struct ncclComm {
  int unsettled = 0;
};

#undef LOCKSTEP_CALL
#define LOCKSTEP_CALL() \
  if (fails(__func__)) return nccl_fault()

namespace {

ncclResult_t nccl_fault() { return ncclSystemError; }

std::size_t width_of(ncclDataType_t type) { return type == ncclUint8 ? 1 : type == ncclFloat32 ? 4 : 8; }

ncclResult_t copy_in(cudaStream_t stream, const void* from, void* to, std::size_t bytes, ncclComm_t ranks) {
  if (ranks->unsettled > 0) return ncclInvalidUsage;
  of(stream).jobs.push_back({[=] { std::memmove(to, from, bytes); }});
  if (state().in_group) return ncclSuccess;
  ranks->unsettled = 1;
  return ncclInProgress;
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSystemError ? "unhandled system error" : "invalid usage";
}
const char* ncclGetLastError(ncclComm_t) { return "the network is down"; }
ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  LOCKSTEP_CALL();
  *id = {};
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* ranks, int count, ncclUniqueId, int rank, ncclConfig_t* config) {
  LOCKSTEP_CALL();
  if (config->blocking != 0 || count != 1 || rank != 0) return ncclInvalidArgument;
  make(ranks, new ncclComm{1}, "NCCL");
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t ranks, ncclResult_t* result) {
  LOCKSTEP_CALL();
  *result = ranks->unsettled > 0 && ranks->unsettled-- > 0 ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t ranks) {
  LOCKSTEP_CALL();
  ranks->unsettled = 1;
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t) {
  LOCKSTEP_CALL();
  --state().lt_objects["NCCL"];
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  LOCKSTEP_CALL();
  --state().lt_objects["NCCL"];
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  LOCKSTEP_CALL();
  state().in_group = true;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  LOCKSTEP_CALL();
  state().in_group = false;
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t ranks, cudaStream_t stream) {
  LOCKSTEP_CALL();
  return copy_in(stream, from, to, count * width_of(type), ranks);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t ranks,
                           cudaStream_t stream) {
  LOCKSTEP_CALL();
  return copy_in(stream, from, to, count * width_of(type), ranks);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t ranks, cudaStream_t stream) {
  LOCKSTEP_CALL();
  return copy_in(stream, from, to, count * width_of(type), ranks);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int, ncclComm_t ranks,
                           cudaStream_t stream) {
  LOCKSTEP_CALL();
  return copy_in(stream, from, to, count * width_of(type), ranks);
}
ncclResult_t ncclSend(const void* from, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  LOCKSTEP_CALL();
  state().sent.push_back(from);
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int, ncclComm_t ranks, cudaStream_t stream) {
  LOCKSTEP_CALL();
  const void* const from = state().sent.front();
  state().sent.pop_front();
  return copy_in(stream, from, to, count * width_of(type), ranks);
}

}  // extern "C"
