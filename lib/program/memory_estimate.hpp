// How much memory a rank needs, read off its slots: no formula of its own.
#pragma once

#include "program/step_program.hpp"

#include <cstdint>
#include <map>

namespace lockstep {

/// Bytes of a rank in one arena at the moment when it holds most there.
struct MemoryUse {
  std::map<SlotKind, std::int64_t> bytes;  // by kind; kinds that live within the step as they are at the peak
  std::int64_t peak_bytes = 0;             // the sum
  int peak_action = -1;                    // position of the first action at the peak; −1: there are no actions
};

/// What is acquired counts from the issue of the action on; what an action on another lane releases counts until an
/// action on the compute lane, or a copy that waits for it, certainly comes after it. The program must be verified.
MemoryUse memory_of(const RankClass& ranks, Arena arena = Arena::device);

/// What blocks keep between forward and backward, hand to each other and compute with.
bool is_activation(SlotKind kind);
/// The same of activations alone, where a rank holds most of them.
MemoryUse activations_of(const RankClass& ranks);

/// Bytes that a rank holds all run, on any arena: what it has before the first step and between two.
std::int64_t bytes_held(const RankClass& ranks);

/// Bytes of a rank that saves the average over cells which train apart: what it holds all run, and beside that the
/// averages of weights and optimizer state.
std::int64_t bytes_to_save_averages(const RankClass& ranks);

/// Bytes of a rank's copy of its state for a save in the background, on any arena: master weights and optimizer state,
/// and as much again of ranks that train apart and save their own state beside the average; or weights alone.
std::int64_t bytes_of_snapshot(const RankClass& ranks, bool apart, bool weights_alone);

}  // namespace lockstep
