// The functions of NCCL that Lockstep calls, as a table. A plug-in of a device fills it from NVIDIA's library, and that
// of the tests from functions of its own. Numbers and meanings are those of nccl.h; the plug-in for GPUs compares them.
// Use: comm/device_ranks.hpp.
#pragma once

#include <array>
#include <cstddef>

namespace lockstep {

/// Identifies a communicator before it exists: one rank draws it, and all ranks of the communicator get it.
struct NcclId {
  std::array<char, 128> bytes{};
};
using NcclRanks = struct NcclRanksOfLibrary*;  // ncclComm_t
using NcclQueue = void*;                       // cudaStream_t

enum class NcclResult : int { success = 0, in_progress = 7 };
enum class NcclType : int { u8 = 1, i32 = 2, i64 = 4, u64 = 5, f32 = 7, f64 = 8 };
enum class NcclSum : int { sum = 0, max = 2, min = 3 };

/// Functions return when their work is queued, or before that with in_progress. Then nothing but `state` may be called
/// for these ranks until it answers with something else.
struct NcclTable {
  int version = 0;  // of the library: 22809 is 2.28.9
  const char* (*text_of)(NcclResult result) = nullptr;
  const char* (*last_error)(NcclRanks ranks) = nullptr;  // in words
  NcclResult (*draw_id)(NcclId* id) = nullptr;
  /// Begins to connect `count` ranks; done when `state` says so.
  NcclResult (*connect)(NcclRanks* ranks, int count, const NcclId* id, int rank) = nullptr;
  /// Tells whether the last call for these ranks is done, or which failure came since. Any thread, but one call at a
  /// time.
  NcclResult (*state)(NcclRanks ranks, NcclResult* result) = nullptr;
  /// Begins to end the operations under way; they have ended when `state` says so. Then `release` frees the ranks.
  NcclResult (*finish)(NcclRanks ranks) = nullptr;
  NcclResult (*release)(NcclRanks ranks) = nullptr;
  /// Ends operations that wait for other ranks, and frees the ranks.
  NcclResult (*abort)(NcclRanks ranks) = nullptr;

  NcclResult (*begin_group)() = nullptr;  // the operations up to end_group are one
  NcclResult (*end_group)() = nullptr;
  NcclResult (*all_reduce)(const void* from, void* into, std::size_t count, NcclType type, NcclSum sum, NcclRanks ranks,
                           NcclQueue queue) = nullptr;
  NcclResult (*all_gather)(const void* from, void* into, std::size_t count_of_each, NcclType type, NcclRanks ranks,
                           NcclQueue queue) = nullptr;
  NcclResult (*reduce_scatter)(const void* from, void* into, std::size_t count_of_each, NcclType type, NcclSum sum,
                               NcclRanks ranks, NcclQueue queue) = nullptr;
  NcclResult (*broadcast)(const void* from, void* into, std::size_t count, NcclType type, int root, NcclRanks ranks,
                          NcclQueue queue) = nullptr;
  NcclResult (*send)(const void* from, std::size_t count, NcclType type, int peer, NcclRanks ranks,
                     NcclQueue queue) = nullptr;
  NcclResult (*receive)(void* into, std::size_t count, NcclType type, int peer, NcclRanks ranks,
                        NcclQueue queue) = nullptr;
};

}  // namespace lockstep
