// The heartbeat is the one small reduction of a step. After it every rank knows the same loss, norm, stop level and
// requests, and whether any rank has failed. Every decision about the job comes from its result, so all ranks decide
// alike.
#pragma once

#include "comm/communicator.hpp"
#include "comm/session.hpp"
#include "comm/transport.hpp"

#include <cstdint>
#include <exception>
#include <vector>

namespace lockstep {

/// Requests of callbacks and of the stop channels (comm/stop.hpp). The heartbeat merges the ranks: a request of one
/// rank suffices. report: a callback of some rank has failed, and all ranks are to receive that. statistics: compute
/// them in the next step. change: change an option; the rank that asks broadcasts the change.
enum class Request : unsigned { none = 0, log = 1, evaluate = 2, save = 4, report = 8, statistics = 16, change = 32 };
constexpr Request operator|(Request a, Request b) {
  return static_cast<Request>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool asks(Request all, Request one) { return (static_cast<unsigned>(all) & static_cast<unsigned>(one)) != 0; }

/// HeartbeatData holds the values of one rank as the input, and of the whole job as the result.
struct HeartbeatData {
  double loss_sum = 0;                 // Σ over tokens
  double aux_loss_sum = 0;             // Σ over samples and layers
  double grad_norm_squared = 0;        // of the distinct pieces that this rank counts
  std::int64_t correct = 0;            // of an evaluation: tokens that the model considered most probable
  std::int64_t tokens = 0;             // valid tokens of this step
  std::int64_t next_tokens = 0;        // valid tokens of the next step, which the loader has already read
  std::int64_t next_samples = 0;       // samples of the next step
  std::vector<double> loads = {};      // tokens routed to each expert; equally long on each rank
  std::vector<double> next_uses = {};  // uses of datasets in the next step; equally long on each rank
  std::vector<double> drawn = {};      // tokens that one rank drew for texts; equally long on each rank
  StopLevel stop = StopLevel::none;    // result: the highest
  Request requests = Request::none;    // result: all of them
  // Input: failure of this rank since the last heartbeat. With one the numbers are ignored.
  std::exception_ptr failure;
};

/// Bytes that each rank contributes to the reduction if it has no loads, uses or drawn tokens.
constexpr std::int64_t heartbeat_bytes = 16 * sizeof(double);

/// Sums the numbers and merges the rest, on a lane of `transport`, over a group that contains all of `world`. If any
/// rank contributes a failure, all ranks throw the same AgreedError, for the worst failure of the lowest rank. Counts
/// are exact up to 2^53. Collective over `world`.
HeartbeatData heartbeat(Transport& transport, int lane, int group, Communicator& world, const HeartbeatData& mine);

}  // namespace lockstep
