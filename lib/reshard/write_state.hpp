// The parts of a new state, planned and written: pieces are read from their source, every block checked, cast where
// their type is another one, and written as saves write them, by one process or several. The bytes do not depend on how
// many. What the state is: reshard/new_state.hpp.
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

/// The state shared out over `parts` writers, each with a part file of its own. State that belongs to single ranks or
/// nodes is spread over the writers as well. Pure.
CheckpointPlan plan_parts(const NewState& state, int parts);

/// The state as the ranks of its mesh hold it and share its writing, so many of neighbours to a part that there are
/// `parts`. Pure.
CheckpointPlan plan_ranks(const NewState& state, int parts);

/// Bytes that each rank of the mesh holds of a state, those of its nodes and cells among them. Pure.
std::vector<std::uint64_t> bytes_held(const NewState& state);

/// Calls `visit` with boxes that make up `box`, in the order of its elements, each with at most so many elements and
/// as large as they can be; elements of one follow each other in `box`. Pure.
void for_each_stretch(const Box& box, std::int64_t most_elements, const std::function<void(const Box&)>& visit);

/// Pieces that are read and written at once, or one that is read and written in rows.
struct PieceBatch {
  std::size_t first = 0, count = 0;  // in ProcessShare::pieces
  bool in_rows = false;
  Portion portion;  // of memory
};

/// What one process reads and writes of a state that several write together.
struct ProcessShare {
  std::vector<std::size_t> pieces;  // numbers in CheckpointPlan::pieces, tensor by tensor
  std::vector<PieceBatch> batches;  // of these, in their order
  std::uint64_t bytes = 0;          // of these
  std::uint64_t blocks_memory = 0;  // bytes of the source that are held from one read to the next
  std::uint64_t peak_memory = 0;    // bytes that all of it takes at most, besides the tables of parts
};

/// The least that pieces in work may take if there are large ones: blocks to read and to write, and one beside them.
std::uint64_t least_memory_of(const StateSource& source);

/// How many parts a process writes at a time; so many descriptors it takes twice.
inline constexpr std::size_t parts_at_a_time = 32;

/// The pieces of a plan shared out over processes, neighbours to one: equal bytes, but for what is left of a piece.
/// Of so many parts as are written at a time those of one tensor follow each other, and what several of them take from
/// the same rows is read at once, as far as memory reaches: parts that have columns of a tensor each read it once
/// between them. Pieces in work may take `memory`, those that are read while others are written among them: a piece
/// that would take more by itself is read and written in rows. Pure.
std::vector<ProcessShare> share_out(const StateSource& source, const NewState& state, const CheckpointPlan& plan,
                                    std::uint64_t memory, int processes);

/// Writes all parts below `staging`, which make_staging made: rank 0 lays them out and completes them, and every rank
/// writes its share. They agree again and again, so that a failure anywhere ends the work everywhere soon. Returns on
/// rank 0 what became of tensors and files, elsewhere nothing. Collective over the session's world. Throws Error(input)
/// for damage in the source, Error(storage), and Error(verdict) after a request to stop.
StagedState write_parts(Session& session, const StateSource& source, const NewState& state, const CheckpointPlan& plan,
                        const Path& staging, std::uint64_t memory);

}  // namespace lockstep
