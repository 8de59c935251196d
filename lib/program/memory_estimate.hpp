// The memory that a rank needs, computed from its slots; it has no formula of its own. The order of the slots' lives:
// program/memory_walk.hpp.
#pragma once

#include "program/step_program.hpp"

#include <cstdint>
#include <map>

namespace lockstep {

/// Bytes of a rank in one arena when its use there is highest.
struct MemoryUse {
  std::map<SlotKind, std::int64_t> bytes;  // by kind; kinds that live within the step as at the peak
  std::int64_t peak_bytes = 0;             // sum over the kinds
  int peak_action = -1;                    // position of the first action at the peak; −1: there are no actions
};

/// A slot counts from the issue of the action that acquires it. A slot that an action on another lane releases counts
/// until an action on the compute lane, or a copy that waits for that action, certainly comes after it. The program
/// must be verified.
MemoryUse memory_of(const RankClass& ranks, Arena arena = Arena::device);

/// Whether a slot holds activations: values kept between forward and backward, passed between blocks, or used as
/// temporaries of a block.
bool is_activation(SlotKind kind);
/// The memory of activations alone, when a rank holds most of them.
MemoryUse activations_of(const RankClass& ranks);

/// Bytes that a rank holds for the whole run, on any arena: its memory before the first step and between two steps.
std::int64_t bytes_held(const RankClass& ranks);

/// Bytes of a rank that saves the average over cells which train apart: its memory for the whole run, and the averages
/// of weights and optimizer state.
std::int64_t bytes_to_save_averages(const RankClass& ranks);

/// Bytes of a rank's copy of its state for a background save, on any arena: master weights (and optimizer state, unless
/// `weights_alone`). With `apart` the cells train apart and save their own state in addition to the average, so the
/// copy is twice as large.
std::int64_t bytes_of_snapshot(const RankClass& ranks, bool apart, bool weights_alone);

}  // namespace lockstep
