// The parts of a new state, planned and written: pieces are read from a checkpoint, every block checked, cast where
// their type is another one, and written as saves write them. What the state is: reshard/new_state.hpp. Serial.
#pragma once

#include "reshard/new_state.hpp"
#include "store/checkpoint_plan.hpp"
#include "store/checkpoint_reader.hpp"
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

/// What writing a state takes of memory at most, besides the tables of parts, if pieces in work may take `memory`: what
/// a piece as a whole would take beyond that is read and written in rows. Pure.
std::uint64_t peak_memory(const Manifest& source, const NewState& state, const CheckpointPlan& plan,
                          std::uint64_t memory);

/// Writes all parts below `staging`, which make_staging made. Local. Throws Error(input) for damage in the source,
/// Error(storage).
StagedState write_parts(const CheckpointReader& source, const NewState& state, const CheckpointPlan& plan,
                        const Path& staging, std::uint64_t memory);

}  // namespace lockstep
