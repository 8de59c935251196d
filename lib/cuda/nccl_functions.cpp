#include "cuda/nccl_functions.hpp"

#include "base/error.hpp"
#include "cuda/device_failure.hpp"
#include "cuda/libtorch_cuda.hpp"

#include <nccl.h>

#include <cstring>

#define LOCKSTEP_NCCL_FUNCTIONS(use) \
  use(GetVersion);                   \
  use(GetErrorString);               \
  use(GetLastError);                 \
  use(GetUniqueId);                  \
  use(CommInitRankConfig);           \
  use(CommGetAsyncError);            \
  use(CommFinalize);                 \
  use(CommDestroy);                  \
  use(CommAbort);                    \
  use(GroupStart);                   \
  use(GroupEnd);                     \
  use(AllReduce);                    \
  use(AllGather);                    \
  use(ReduceScatter);                \
  use(Broadcast);                    \
  use(Send);                         \
  use(Recv)

namespace lockstep::cuda {

namespace {

struct NcclLibrary {
#define LOCKSTEP_MEMBER(name) decltype(&::nccl##name) name = nullptr
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_MEMBER);
#undef LOCKSTEP_MEMBER
};

const NcclLibrary& nccl_library() {
  static const NcclLibrary functions = [] {
    NcclLibrary all;
#define LOCKSTEP_FIND(name) all.name = reinterpret_cast<decltype(all.name)>(function_of_process("nccl" #name, "NCCL"))
    LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_FIND);
#undef LOCKSTEP_FIND
    return all;
  }();
  return functions;
}

constexpr int least_version = 21800;  // the first with ncclCommFinalize of a communicator that does not block

template <class Ours>
constexpr bool is_equal(Ours ours, int theirs) {
  return static_cast<int>(ours) == theirs;
}
static_assert(is_equal(NcclResult::success, ncclSuccess) && is_equal(NcclResult::in_progress, ncclInProgress));
static_assert(is_equal(NcclType::u8, ncclUint8) && is_equal(NcclType::i32, ncclInt32) &&
              is_equal(NcclType::i64, ncclInt64) && is_equal(NcclType::u64, ncclUint64) &&
              is_equal(NcclType::f32, ncclFloat32) && is_equal(NcclType::f64, ncclFloat64));
static_assert(is_equal(NcclSum::sum, ncclSum) && is_equal(NcclSum::max, ncclMax) && is_equal(NcclSum::min, ncclMin));
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

NcclResult answer(ncclResult_t result) { return static_cast<NcclResult>(result); }
ncclComm_t of(NcclRanks ranks) { return reinterpret_cast<ncclComm_t>(ranks); }
ncclDataType_t of(NcclType type) { return static_cast<ncclDataType_t>(type); }
ncclRedOp_t of(NcclSum sum) { return static_cast<ncclRedOp_t>(sum); }
cudaStream_t of(NcclQueue queue) { return static_cast<cudaStream_t>(queue); }

const char* text_of(NcclResult result) { return nccl_library().GetErrorString(static_cast<ncclResult_t>(result)); }
const char* last_error(NcclRanks ranks) { return nccl_library().GetLastError(of(ranks)); }

NcclResult draw_id(NcclId* id) {
  ncclUniqueId drawn;
  const NcclResult result = answer(nccl_library().GetUniqueId(&drawn));
  std::memcpy(id, &drawn, sizeof drawn);
  return result;
}

NcclResult connect(NcclRanks* ranks, int count, const NcclId* id, int rank) {
  ready_for_call();
  ncclUniqueId theirs;
  std::memcpy(&theirs, id, sizeof theirs);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t made = nullptr;
  const NcclResult result = answer(nccl_library().CommInitRankConfig(&made, count, theirs, rank, &config));
  *ranks = reinterpret_cast<NcclRanks>(made);
  return result;
}

NcclResult state(NcclRanks ranks, NcclResult* result) {
  ncclResult_t told = ncclSuccess;
  const NcclResult asked = answer(nccl_library().CommGetAsyncError(of(ranks), &told));
  *result = answer(told);
  return asked;
}

NcclResult finish(NcclRanks ranks) { return answer(nccl_library().CommFinalize(of(ranks))); }
NcclResult release_ranks(NcclRanks ranks) { return answer(nccl_library().CommDestroy(of(ranks))); }
NcclResult abort(NcclRanks ranks) { return answer(nccl_library().CommAbort(of(ranks))); }
NcclResult begin_group() { return answer(nccl_library().GroupStart()); }
NcclResult end_group() { return answer(nccl_library().GroupEnd()); }

NcclResult all_reduce(const void* from, void* into, std::size_t count, NcclType type, NcclSum sum, NcclRanks ranks,
                      NcclQueue queue) {
  return answer(nccl_library().AllReduce(from, into, count, of(type), of(sum), of(ranks), of(queue)));
}

NcclResult all_gather(const void* from, void* into, std::size_t count, NcclType type, NcclRanks ranks,
                      NcclQueue queue) {
  return answer(nccl_library().AllGather(from, into, count, of(type), of(ranks), of(queue)));
}

NcclResult reduce_scatter(const void* from, void* into, std::size_t count, NcclType type, NcclSum sum, NcclRanks ranks,
                          NcclQueue queue) {
  return answer(nccl_library().ReduceScatter(from, into, count, of(type), of(sum), of(ranks), of(queue)));
}

NcclResult broadcast(const void* from, void* into, std::size_t count, NcclType type, int root, NcclRanks ranks,
                     NcclQueue queue) {
  return answer(nccl_library().Broadcast(from, into, count, of(type), root, of(ranks), of(queue)));
}

NcclResult send(const void* from, std::size_t count, NcclType type, int peer, NcclRanks ranks, NcclQueue queue) {
  return answer(nccl_library().Send(from, count, of(type), peer, of(ranks), of(queue)));
}

NcclResult receive(void* into, std::size_t count, NcclType type, int peer, NcclRanks ranks, NcclQueue queue) {
  return answer(nccl_library().Recv(into, count, of(type), peer, of(ranks), of(queue)));
}

}  // namespace

const NcclTable& nccl_functions() {
  static const NcclTable table = [] {
    NcclTable functions{.text_of = text_of,
                        .last_error = last_error,
                        .draw_id = draw_id,
                        .connect = connect,
                        .state = state,
                        .finish = finish,
                        .release = release_ranks,
                        .abort = abort,
                        .begin_group = begin_group,
                        .end_group = end_group,
                        .all_reduce = all_reduce,
                        .all_gather = all_gather,
                        .reduce_scatter = reduce_scatter,
                        .broadcast = broadcast,
                        .send = send,
                        .receive = receive};
    if (const ncclResult_t result = nccl_library().GetVersion(&functions.version); result != ncclSuccess)
      fail(ExitCode::resources, "NCCL does not tell its version: {}", nccl_library().GetErrorString(result));
    if (functions.version < least_version)
      throw Error(ExitCode::resources,
                  fmt::format("NCCL has version {}.{}, and at least 2.18 is needed", functions.version / 10000,
                              functions.version / 100 % 100),
                  "scripts/setup --cuda installs the one that belongs to LibTorch");
    return functions;
  }();
  return table;
}

}  // namespace lockstep::cuda
