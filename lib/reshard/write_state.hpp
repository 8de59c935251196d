// Plans and writes the parts of a new state. Pieces are read from their source with every block checked, cast if their
// type changes, and written as saves write them, by one process or several. The bytes do not depend on the number of
// processes. The state itself: reshard/new_state.hpp.
#pragma once

#include "comm/session.hpp"
#include "reshard/filled_ahead.hpp"
#include "reshard/new_state.hpp"
#include "reshard/state_source.hpp"
#include "store/checkpoint_plan.hpp"
#include "store/staging.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

/// Distributes the state over `parts` writers, each with a part file of its own, including state of single ranks or
/// nodes. Pure.
CheckpointPlan plan_parts(const NewState& state, int parts);

/// Distributes the state over the ranks of its mesh that hold it; neighbouring ranks write to one of `parts` part
/// files. Pure.
CheckpointPlan plan_ranks(const NewState& state, int parts);

/// Returns the bytes that each rank of the mesh holds, including state of its node and cell. Pure.
std::vector<std::uint64_t> bytes_held(const NewState& state);

/// Calls `visit` with consecutive boxes that make up `box`. Each has at most `most_elements` elements and is as large
/// as possible, and its elements are consecutive in `box`. Pure.
void for_each_stretch(const Box& box, std::int64_t most_elements, const std::function<void(const Box&)>& visit);

/// Pieces that are read and written together, or one piece that is read and written in rows.
struct PieceBatch {
  std::size_t first = 0, count = 0;  // in ProcessShare::pieces
  bool in_rows = false;
  Portion portion;  // memory
};

/// The share of one process in the reading and writing of a state.
struct ProcessShare {
  std::vector<std::size_t> pieces;  // numbers in CheckpointPlan::pieces, tensor by tensor
  std::vector<PieceBatch> batches;  // of the pieces, in their order
  std::uint64_t bytes = 0;          // of the pieces
  std::uint64_t blocks_memory = 0;  // bytes of source blocks that are kept from one read to the next
  std::uint64_t peak_memory = 0;    // largest memory use in bytes, besides the tables of parts
};

/// Returns the least memory in bytes for large pieces: the source's blocks, a block to write, and one more.
std::uint64_t least_memory_of(const StateSource& source);

/// Number of parts that a process writes at a time. It takes two descriptors for each.
inline constexpr std::size_t parts_at_a_time = 32;

/// Distributes the pieces of a plan over processes: neighbouring pieces to one process, and equal bytes up to the size
/// of a piece. Among parts that are written at the same time, pieces of one tensor follow each other, and rows that
/// several of them need are read once if memory allows; for example, parts with different columns of a tensor read it
/// together once. Pieces in work use at most `memory` bytes, including pieces that are read while others are written. A
/// piece that needs more alone is read and written in rows. Pure.
std::vector<ProcessShare> share_out(const StateSource& source, const NewState& state, const CheckpointPlan& plan,
                                    std::uint64_t memory, int processes);

/// Writes all parts below `staging`, which make_staging created. Rank 0 lays them out and completes them; every rank
/// writes its share. The ranks agree regularly, so that a failure on one soon ends the work on all. Returns the
/// fingerprints of tensors and the sealed files on rank 0, and an empty state on other ranks. Collective over the
/// session's world. Throws Error(input) for damage in the source, Error(storage), and Error(verdict) after a stop
/// request.
StagedState write_parts(Session& session, const StateSource& source, const NewState& state, const CheckpointPlan& plan,
                        const Path& staging, std::uint64_t memory);

}  // namespace lockstep
