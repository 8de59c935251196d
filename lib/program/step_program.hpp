// A StepProgram lists the actions of every rank in one step. It is decided before the first step and is a pure value:
// it is printed, hashed, compared, verified, simulated and executed. program/passes.hpp and program/catalogue.hpp make
// it; one entry of a list: program/action.hpp.
#pragma once

#include "base/hash.hpp"
#include "base/json_fwd.hpp"
#include "device/region.hpp"
#include "layout/mesh.hpp"
#include "program/action.hpp"
#include "program/block_exchange.hpp"
#include "program/keep_set.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class SlotKind : std::uint8_t {
  // Of a unit, for the whole run:
  master,           // weights that the optimizer updates
  compute_copy,     // weights in the type that kernels read
  gradient,         // the gradient that the optimizer reads
  optimizer_state,  // moments
  own_weights,      // weights of this rank's cell, while the master is the average over the cells
  // Of all blocks, for the whole run:
  shared,  // tables and scratch memory
  // Of a block, from the first to the last pass over some texts:
  cache,  // keys and values of earlier positions
  // Of a unit, within a step:
  gathered,         // whole weights in the type that kernels read
  kept_weights,     // the part of gathered weights that this rank keeps
  local_gradient,   // this rank's gradient, before it is reduced
  cast_gradient,    // this rank's gradient in the type in which it is summed over ranks, if that differs
  shard_gradient,   // summed over the shard axes of the unit, before it is summed over the replicas
  peer_gradient,    // for a unit that lies on two stages: the gradient of the other stage, to be added
  step_gradient,    // read by the optimizer, for a unit whose gradient does not live all run or lies in host memory
  fetched_weights,  // for a unit in host memory: the shard that it gives to a gathering
  fetched_state,    // the values that its update reads and writes
  // Of a block and a micro-batch, within a step:
  stash,          // values kept between forward and backward (saved activations)
  host_stash,     // a stash in host memory
  fetched_stash,  // a stash that was fetched from host memory
  // Of a boundary and a micro-batch, within a step:
  boundary,           // the output of a block, which the next one reads
  boundary_gradient,  // the gradient of that output
  // Of a block and a micro-batch, within a step:
  kept,       // values that a forward leaves to its recomputation, until backward
  deferred,   // inputs and output gradients of linear layers, from backward_input to backward_weight
  workspace,  // temporaries of one action
};
std::string_view name_of(SlotKind kind);
/// Whether the memory is there before the first action of a program, and after its last.
bool lives_all_run(SlotKind kind);

struct Slot {
  SlotKind kind{};
  Subject subject;
  MicroBatch micro_batch = no_micro_batch;
  std::int64_t bytes = 0;
  int turn = 0;  // counts the times that a unit is gathered in a step
  Arena arena = Arena::device;
  bool operator==(const Slot&) const = default;
};

/// Ranks that do the same work and share one list.
struct RankClass {
  std::vector<Rank> ranks;  // ascending
  std::vector<Slot> slots;
  std::vector<Action> actions;  // in order of issue
  bool operator==(const RankClass&) const = default;
};

struct StepProgram {
  std::string name;  // "train", "eval"
  Mesh mesh;
  int micro_batches = 0;                 // per rank
  std::vector<std::string> block_names;  // by index of a block subject
  std::vector<std::string> unit_names;   // by index of a unit subject
  // By index of a block subject, with tensor, context or expert parallelism.
  std::vector<BlockExchanges> exchanges = {};
  // By index of a unit subject, if ranks that hold parts of its matrices update them together; else empty.
  std::vector<std::vector<BlockExchange>> update_exchanges = {};
  // Ranks along tp that split the rows of activations between blocks (sequence parallelism); 1: none do.
  int row_shares = 1;
  std::vector<RankClass> classes;
  std::vector<AxisName> apart = {};  // axes along which ranks hold weights of their own and do not sum gradients
  std::vector<KeepSet> keeps = {};   // by index of a block subject, for recomputed blocks; empty: nothing is kept

  /// The class of `rank`. Throws Error(usage) if the program has no such rank.
  const RankClass& class_of(Rank rank) const&;
  /// The actions of `rank`, in order.
  const std::vector<Action>& of(Rank rank) const& { return class_of(rank).actions; }
  const RankClass& class_of(Rank rank) const&& = delete;  // it would outlive the program
  const std::vector<Action>& of(Rank rank) const&& = delete;
  bool operator==(const StepProgram&) const = default;
};

/// The keep-set of a block: the values that its forward keeps for its recomputation.
KeepSet keeps_of(const StepProgram& program, int block);

/// The exchanges of the group's ranks in the middle of an action, in order.
const std::vector<BlockExchange>& exchanges_of(const StepProgram& program, const Action& action);

/// Whether the ranks copy state from the device to host memory, so that the host waits for these copies at the end.
bool offloads_state(const RankClass& ranks);
/// How many times the host of these ranks waits for a device with memory of its own: where it reads the sums of a step,
/// of an evaluation, or of a text; for the table of expert parallelism in each layer; and for offloaded state.
int device_waits(const StepProgram& program, const RankClass& ranks);

/// Number of cells of ranks that hold weights of their own while the program runs: 1 if all have the same.
int cell_count(const StepProgram& program);
/// Axes along which ranks belong to one cell.
std::vector<AxisName> cell_axes(const StepProgram& program);

/// The rank at the other end of a transfer; nothing if the axis ends before it.
std::optional<Rank> peer_of(const Mesh& mesh, Rank rank, const Action& transfer);

/// "0-3, 8": ascending ranks with runs shortened; if there are many runs, only the first and the last.
std::string to_text(const std::vector<Rank>& ranks);
/// One action in words: "all_reduce unit layer.3 over dp_replicate, 412 KiB".
std::string to_text(const StepProgram& program, const Action& action);
/// Its subject in words: "block layer.3", "boundary 4"; empty for none.
std::string to_text(const StepProgram& program, const Subject& subject);
/// A table for people: a head, then the actions of each class of ranks with lane, waits and live bytes after each.
std::string to_text(const StepProgram& program);
/// The table for one rank. Throws Error(usage) if there is no such rank.
std::string to_text(const StepProgram& program, Rank rank);

Json to_json(const StepProgram& program);
/// Equal programs have equal hashes, on every machine.
Hash128 hash_of(const StepProgram& program);
/// The first difference in words, naming class, position and both actions; nothing if the programs are equal.
std::optional<std::string> difference(const StepProgram& a, const StepProgram& b);

}  // namespace lockstep
