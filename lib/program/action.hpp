// One entry of a rank's list: what is done, to what, on which lane, after what, with which memory. Lists of actions:
// program/step_program.hpp.
#pragma once

#include "layout/mesh.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class Op : std::uint8_t {
  forward,          // of a block (or, before `expand`, of a stage) on one micro-batch
  recompute,        // of a block: forward once more, to have what backward reads
  backward,         // of a block: gradients of its input and, added to their units, of its parameters
  backward_input,   // the first half of backward: the gradient of the input, and of what is no matrix of a linear layer
  backward_weight,  // the second half: gradients of the matrices; reads no weight
  receive_forward,  // of a boundary: what the stage before handed over
  send_forward,     // of a boundary: what this stage hands to the next
  receive_backward,  // of a boundary: its gradient, from the next stage
  send_backward,     // of a boundary: its gradient, to the stage before
  unshard,           // of a unit: its weights are gathered from the shards of the ranks along `group`
  reshard,           // of a unit: gathered weights are let go; over a `group` they stay, cut among its ranks
  finish_gradient,   // of a unit: its local gradient is complete; what nothing touched becomes zero
  reduce_scatter,    // of a unit's gradient over `group`: each rank gets the sum of its shard, added to what was there
  all_reduce,        // of a unit's gradient, or of its shard, over `group`, summed
  send_gradient,     // of a unit that lies on two stages: what this rank has of its gradient, to the other one
  receive_gradient,  // what the other one has
  add_gradient,      // and their sum, which both have then
  gradient_norm,     // of a unit: adds to the squared norm; of a gradient that the ranks along `group` hold alike, each
                     // adds its share
  reduce_norm,  // sums the squared norm over `group`, the cell whose gradient is clipped by it; others' are their own
  heartbeat,  // one small reduction over all ranks: loss, norm, tokens, stop, failure; every decision is taken from it
  clip,       // the factor that gradients are scaled with, from the reduced norm
  optimizer,  // of a unit: one update of weights, moments and the compute copy
  average_weights,   // of a unit: the sum, over `group`, of weights that were updated apart
  finish_average,    // makes it their mean, and the compute copy that of it
  fetch_weights,     // of a unit whose shard lies in host memory: what it gives to a gathering
  offload_gradient,  // of such a unit: its reduced gradient goes to host memory
  fetch_state,       // of a unit: what its update reads and writes, as far as that lies in host memory
  offload_state,     // what the update wrote of it
  offload_stash,     // of a block: what its forward kept for backward goes to host memory
  fetch_stash,       // and comes back
  reduce_loss,       // sums of an evaluation over all ranks: loss and tokens
  draw_token,        // of a sampled text: the first rank that holds the head draws, all ranks are told
};

struct Subject {
  enum class Kind : std::uint8_t {
    none,
    stage,
    block,
    unit,
    boundary
  } kind = Kind::none;  // boundary i: between blocks i - 1 and i
  int index = 0;
  auto operator<=>(const Subject&) const = default;
};
std::string_view name_of(Subject::Kind kind);
constexpr Subject stage_subject(int index) { return {Subject::Kind::stage, index}; }
constexpr Subject block_subject(int index) { return {Subject::Kind::block, index}; }
constexpr Subject unit_subject(int index) { return {Subject::Kind::unit, index}; }
constexpr Subject boundary_subject(int index) { return {Subject::Kind::boundary, index}; }

using MicroBatch = int;
constexpr MicroBatch no_micro_batch = -1;

/// Actions on one lane run one after the other in the order of the list; lanes run beside each other.
enum class Lane : std::uint8_t {
  compute,
  gather,
  reduction,
  replica,
  receive,          // of a pipeline, both directions
  send_forward,     // a send ends when it is received: those of one direction must not wait for those of the other,
  send_backward,    // nor what comes down a V for
  send_forward_up,  // what goes up it
  send_backward_up,
  fetch,    // from host memory to that of the device
  offload,  // and back
  block,    // of ranks that share blocks, in the middle of these: no action of its own is on it
};
constexpr int lane_count = 12;
std::string_view name_of(Lane lane);

/// Positions, in the same list, of earlier actions on other lanes that must have ended before this one starts. The
/// position of an action is its ticket.
using Waits = std::vector<int>;

/// What the action does with slots, by their index in the rank class. An action writes what it acquires and may read
/// what it releases.
struct Slots {
  std::vector<int> acquires;  // memory begins
  std::vector<int> reads;
  std::vector<int> writes;    // in place, what was there before may be read: accumulation
  std::vector<int> releases;  // memory ends with this action
  bool operator==(const Slots&) const = default;
};

struct Action {
  Op op{};
  Subject subject;
  MicroBatch micro_batch = no_micro_batch;
  Lane lane = Lane::compute;
  std::vector<AxisName>
      group;  // of a collective, or of what ranks share: those along these axes of the program's mesh; empty otherwise
  int offset = 0;                  // of a transfer: from this rank to its peer, along the one axis of `group`
  Lane peer_lane = Lane::compute;  // of a receive: the lane that the peer sends on
  std::int64_t bytes = 0;          // of a collective, or within a block: what each rank puts in; of a transfer or a
                                   // copy: all of it
  Waits waits;
  Slots slots;
  bool operator==(const Action&) const = default;
};

/// What holds for every action with an operation.
struct OpFacts {
  std::string_view name;
  Subject::Kind subject{};
  enum class Of { step, micro_batch, either } of{};
  enum class Group {
    none,
    collective,
    shared,
    pair,
    within
  } group{};    // shared: each does its part without waiting; pair: the
                // two ends of a transfer; within: of a block or a unit that
                // the group shares, whose ranks speak while they compute
  Lane lane{};  // of several: the usual one
};
/// The table of operations.
const OpFacts& facts_of(Op op);
std::string_view name_of(Op op);
bool is_collective(Op op);
/// Whether the ranks of its group speak with each other in the middle of it: in a pass of a block that they share, or
/// in the update of matrices of which each has a part.
bool speaks_within(const Action& action);
/// Whether the ranks of its group come together for it.
bool meets_others(const Action& action);
/// Whether it is one end of a transfer between pipeline stages; the other end is `counterpart_of` it.
bool is_transfer(Op op);
bool is_send(Op op);
/// Whether it copies between host memory and that of the device, which concerns no other rank.
bool is_copy(Op op);
Op counterpart_of(Op transfer);
/// Whether it adds to the gradients of its block's units.
bool adds_to_gradients(Op op);
/// Whether it runs beside what follows on the compute lane, until something waits for it.
bool behind_computation(Op op);

}  // namespace lockstep
