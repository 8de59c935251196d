// An Action is one entry of a rank's list: an operation, its subject, its lane, the actions that it waits for, and its
// memory. Lists of actions: program/step_program.hpp.
#pragma once

#include "layout/mesh.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class Op : std::uint8_t {
  forward,    // runs a block (before `expand`: a stage) on one micro-batch
  recompute,  // repeats the forward of a block, so that backward has the activations that it reads
  backward,   // of a block: gradients of its input and, added to their units, of its parameters
  // First half of backward: gradients of the input and of all parameters but the matrices of linear layers.
  backward_input,
  backward_weight,   // second half: gradients of these matrices; reads no weight
  receive_forward,   // of a boundary: the output of the stage before
  send_forward,      // of a boundary: the output of this stage, for the next one
  receive_backward,  // of a boundary: its gradient, from the next stage
  send_backward,     // of a boundary: its gradient, to the stage before
  unshard,           // of a unit: gathers its weights from the shards of the ranks along `group`
  reshard,           // of a unit: frees gathered weights; with a `group`, each of its ranks keeps a part
  finish_gradient,   // of a unit: its local gradient is complete; parts that nothing touched become zero
  reduce_scatter,    // of a unit's gradient over `group`: adds the sum of its shard to each rank's gradient
  all_reduce,        // of a unit's gradient, or of its shard: the sum over `group`
  send_gradient,     // of a unit that lies on two stages: sends this rank's gradient to the other stage
  receive_gradient,  // receives the gradient of the other stage
  add_gradient,      // adds the two, so that both stages have the sum
  // Scope a unit: adds to the squared norm. Ranks along `group` hold equal gradients, and each adds its share.
  gradient_norm,
  reduce_norm,  // sums the squared norm over `group`: a cell, which clips its gradient by its own norm
  heartbeat,  // one small reduction over all ranks: loss, norm, tokens, stop, failure; its result makes every decision
  clip,       // computes the factor that scales the gradients, from the reduced norm
  optimizer,  // of a unit: one update of weights, moments and the compute copy
  average_weights,   // of a unit: the sum, over `group`, of weights that were updated apart
  finish_average,    // turns the sum into the mean and updates the compute copy
  fetch_weights,     // of a unit whose shard lies in host memory: copies the shard to the device for a gathering
  offload_gradient,  // of such a unit: its reduced gradient goes to host memory
  fetch_state,       // of a unit: copies the part that its update reads or writes from host memory to the device
  offload_state,     // copies the updated part back to host memory
  offload_stash,     // of a block: the activations that its forward saved for backward go to host memory
  fetch_stash,       // and come back
  reduce_loss,       // sums of an evaluation over all ranks: loss and tokens
  draw_tokens,       // of texts: the first rank that holds the head draws a token for each, all ranks receive them
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

/// Actions on one lane run one after the other, in the order of the list; lanes run side by side.
enum class Lane : std::uint8_t {
  compute,
  gather,
  reduction,
  replica,
  // Pipeline transfers. A receive lane serves both directions. A send ends only when it is received, so each direction
  // has a send lane of its own. The `_up` lanes are for stages that send against the order of ranks (`climbs` of
  // program/pipeline_schedule.hpp), so that the two arms of a V do not wait for each other.
  receive,
  send_forward,
  send_backward,
  send_forward_up,
  send_backward_up,
  fetch,    // from host memory to the device
  offload,  // from the device to host memory
  block,    // exchanges in the middle of a block; no action is on it
};
constexpr int lane_count = 12;
std::string_view name_of(Lane lane);

/// Positions, in the same list, of earlier actions on other lanes that must have ended before this one starts. The
/// position of an action is its ticket.
using Waits = std::vector<int>;

/// The slots that an action uses, by index in the rank class. An action writes the slots that it acquires and may read
/// the slots that it releases.
struct Slots {
  std::vector<int> acquires;  // memory begins with this action
  std::vector<int> reads;
  std::vector<int> writes;    // in place; the old value may be read (accumulation)
  std::vector<int> releases;  // memory ends with this action
  bool operator==(const Slots&) const = default;
};

struct Action {
  Op op{};
  Subject subject;
  MicroBatch micro_batch = no_micro_batch;
  Lane lane = Lane::compute;
  // Scope a collective or of an operation that ranks share: the ranks along these axes of the program's mesh. Empty
  // otherwise.
  std::vector<AxisName> group;
  int offset = 0;                  // of a transfer: distance from this rank to its peer, along the one axis of `group`
  Lane peer_lane = Lane::compute;  // of a receive: the lane that the peer sends on
  // Scope a collective, or of exchanges within a block: bytes that each rank contributes. Scope a transfer or a copy:
  // all.
  std::int64_t bytes = 0;
  Waits waits;
  Slots slots;
  bool operator==(const Action&) const = default;
};

/// Facts that hold for every action with an operation.
struct OpFacts {
  std::string_view name;
  Subject::Kind subject{};
  enum class Scope { step, micro_batch, either } of{};
  /// shared: each rank does its part without waiting. pair: the two ends of a transfer. within: the group shares a
  /// block or a unit, and its ranks communicate while they compute.
  enum class Group { none, collective, shared, pair, within } group{};
  Lane lane{};  // the usual one, if it has several
};
/// The table of operations.
const OpFacts& facts_of(Op op);
std::string_view name_of(Op op);
bool is_collective(Op op);
/// Whether the ranks of its group communicate in the middle of it: in a pass of a block with tensor, context or expert
/// parallelism, or in the update of matrices that are spread over ranks.
bool exchanges_within(const Action& action);
/// Whether the ranks of its group meet in it.
bool meets_others(const Action& action);
/// Whether it is one end of a transfer between pipeline stages; `counterpart_of` gives the other end.
bool is_transfer(Op op);
bool is_send(Op op);
/// Whether it copies between host memory and the device. Copies involve no other rank.
bool is_copy(Op op);
Op counterpart_of(Op transfer);
/// Whether the two are the ends of one transfer, given that their ranks are `offset` apart.
bool is_received_by(const Action& send, const Action& receive);
/// Whether it adds to the gradients of its block's units.
bool adds_to_gradients(Op op);
/// Whether it runs concurrently with later actions of the compute lane, until an action waits for it.
bool overlaps_compute(Op op);

}  // namespace lockstep
