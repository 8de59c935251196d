// What every rank does in one step, decided before the first step: a pure value that is printed, hashed, compared,
// verified, simulated and executed. How it is made: program/passes.hpp and program/catalogue.hpp.
#pragma once

#include "base/hash.hpp"
#include "base/json_fwd.hpp"
#include "base/region.hpp"
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
  master,           // weights that the optimizer updates            ┐
  compute_copy,     // weights in the type that kernels read         │ of a unit, for the whole run
  gradient,         // what the optimizer reads                      │
  optimizer_state,  // moments                                       ┘
  own_weights,      // of a cell, while the master is the average over the cells
  shared,           // tables and scratch memory of all blocks, for the whole run
  gathered,         // whole weights in the type that kernels read   ┐ of a unit, within a step
  kept_weights,     // the part of gathered weights that this rank keeps  │
  local_gradient,   // of this rank alone, before it is reduced      ┘
  cast_gradient,    // of this rank, in the type that is summed over ranks, where that is another one
  shard_gradient,   // summed over those that share the unit out, before it is summed over their replicas
  peer_gradient,    // of a unit that lies on two stages: the other one's, to be added
  step_gradient,    // what the optimizer reads, of a unit whose gradient is not kept all run, or in host memory
  fetched_weights,  // of a unit that lies in host memory: what it gives to a gathering
  fetched_state,    // what its update reads and writes
  stash,            // what a block keeps between forward and backward   ┐
  host_stash,       // the same in host memory                             │
  fetched_stash,    // and back                                            │
  boundary,  // what a block hands to the next                    │ of a block or boundary and a micro-batch, within a
             // step
  boundary_gradient,  // its gradient                                      │
  kept,               // what a forward leaves to its repetition, until backward  │
  deferred,           // inputs and output gradients of linear layers, from backward_input to backward_weight
  workspace,          // temporaries of one action                         ┘
};
std::string_view name_of(SlotKind kind);
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

/// Ranks that do the same: they share one list.
struct RankClass {
  std::vector<Rank> ranks;  // ascending
  std::vector<Slot> slots;
  std::vector<Action> actions;  // in order of issue
  bool operator==(const RankClass&) const = default;
};

struct StepProgram {
  std::string name;  // "train", "eval"
  Mesh mesh;
  int micro_batches = 0;                       // of each rank
  std::vector<std::string> block_names;        // by index of a block subject
  std::vector<std::string> unit_names;         // by index of a unit subject
  std::vector<BlockExchanges> exchanges = {};  // by index of a block subject, where ranks share blocks
  // By index of a unit subject, where ranks that have parts of its matrices update them together; else empty.
  std::vector<std::vector<BlockExchange>> update_exchanges = {};
  int row_shares = 1;  // of these, among which what blocks hand on is shared out by rows
  std::vector<RankClass> classes;
  std::vector<AxisName> apart = {};  // axes along which ranks hold weights of their own, and sum no gradients
  std::vector<KeepSet> keeps = {};   // by index of a block subject, of blocks that are recomputed; empty: nothing

  /// The class of `rank`. Throws Error(usage) if the program has no such rank.
  const RankClass& class_of(Rank rank) const&;
  /// What `rank` does, in order.
  const std::vector<Action>& of(Rank rank) const& { return class_of(rank).actions; }
  const RankClass& class_of(Rank rank) const&& = delete;  // it would outlive the program
  const std::vector<Action>& of(Rank rank) const&& = delete;
  bool operator==(const StepProgram&) const = default;
};

/// What the forward of a block keeps for its repetition.
KeepSet keeps_of(const StepProgram& program, int block);

/// What ranks say to each other in the middle of an action, in order.
const std::vector<BlockExchange>& exchanges_of(const StepProgram& program, const Action& action);

/// How many cells of ranks have weights of their own while it runs: 1 if all have the same.
int cell_count(const StepProgram& program);
/// Axes along which ranks are of one cell.
std::vector<AxisName> cell_axes(const StepProgram& program);

/// The rank at the other end of a transfer; nothing if the axis ends before it.
std::optional<Rank> peer_of(const Mesh& mesh, Rank rank, const Action& transfer);

/// "0-3, 8": ascending ranks, runs shortened; of many runs the first and the last.
std::string to_text(const std::vector<Rank>& ranks);
/// One action in words: "all_reduce unit layer.3 over dp_replicate, 412 KiB".
std::string to_text(const StepProgram& program, const Action& action);
/// Its subject in words: "block layer.3", "boundary 4"; empty for none.
std::string to_text(const StepProgram& program, const Subject& subject);
/// A table for people: a head, then for each class of ranks its actions with lane, waits and live bytes after each.
std::string to_text(const StepProgram& program);
/// The same for one rank. Throws Error(usage) if there is no such rank.
std::string to_text(const StepProgram& program, Rank rank);

Json to_json(const StepProgram& program);
/// Equal programs have equal hashes, on every machine.
Hash128 hash_of(const StepProgram& program);
/// The first difference in words, naming class, position and both actions; nothing if the programs are equal.
std::optional<std::string> difference(const StepProgram& a, const StepProgram& b);

}  // namespace lockstep
