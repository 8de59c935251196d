// The heartbeat is the one small reduction of a step. After it every rank knows the same loss, norm, stop level and
// requests, and whether any rank has failed. Every decision about the job is taken from its result, so all ranks take
// the same.
#pragma once

#include "comm/communicator.hpp"
#include "comm/session.hpp"
#include "comm/transport.hpp"

#include <cstdint>
#include <exception>
#include <vector>

namespace lockstep {

/// Request says what callbacks and the stop channels ask for. The heartbeat merges the ranks: one that asks suffices.
/// report: a callback of some rank has failed, and all ranks should learn of it. statistics: of the next step.
/// change: of an option, which the rank that asks tells.
enum class Request : unsigned { none = 0, log = 1, evaluate = 2, save = 4, report = 8, statistics = 16, change = 32 };
constexpr Request operator|(Request a, Request b) {
  return static_cast<Request>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool asks(Request all, Request one) { return (static_cast<unsigned>(all) & static_cast<unsigned>(one)) != 0; }

/// HeartbeatData is one rank's part on the way in, and the job's on the way out.
struct HeartbeatData {
  double loss_sum = 0;                 // Σ over tokens
  double aux_loss_sum = 0;             // Σ over samples and layers
  double grad_norm_squared = 0;        // of the distinct pieces this rank answers for
  std::int64_t hits = 0;               // of an evaluation: tokens held for the most probable
  std::int64_t tokens = 0;             // valid tokens of this step
  std::int64_t next_tokens = 0;        // valid tokens of the next step: the loader runs one ahead
  std::int64_t next_samples = 0;       // and its samples
  std::vector<double> loads = {};      // of experts: as many numbers on each rank
  std::vector<double> next_uses = {};  // of datasets by the next step: the same
  StopLevel stop = StopLevel::none;    // out: the highest
  Request requests = Request::none;    // out: all of them
  std::exception_ptr
      failure;  // in: what this rank failed with since the last heartbeat; the numbers then do not matter
};

/// What each rank puts into the reduction, where it has neither loads nor uses.
constexpr std::int64_t heartbeat_bytes = 16 * sizeof(double);

/// Sums the numbers and merges the rest, on a lane of `transport`, over a group that is all of `world`. If any rank
/// brought a failure, all ranks throw the same AgreedError: that of the worst, lowest rank. Counts are exact up to
/// 2^53. Collective over `world`.
HeartbeatData heartbeat(Transport& transport, int lane, int group, Communicator& world, const HeartbeatData& mine);

}  // namespace lockstep
