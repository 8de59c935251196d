// Ranks that hold the same box of a tensor must hold the same bytes. What each rank knows of its own is brought
// together here; whether they are compared at all, and how deeply, a component declares (store/component.hpp).
#pragma once

#include "checkpoint/collected_state.hpp"
#include "comm/communicator.hpp"
#include "store/fingerprint.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {

/// A digest of bytes, equal for equal bytes: fingerprints, hashes.
using Evidence = std::array<std::uint64_t, 4>;

/// A box within one holding of a tensor.
struct HeldBox {
  std::size_t tensor = 0;  // number in CollectedState::tensors
  Box box;
  int holders = 0;      // ranks that hold it
  bool counts = false;  // this rank stands for them: one of them does
  std::optional<Evidence>
      evidence;  // of this rank's bytes; nothing if it does not hold the box, or the box is not compared
};

/// Agrees that all holders of each box have the same evidence. What is exchanged grows with the tensors and neither
/// with the ranks nor with the boxes, unless some differ. `boxes` are equal on all ranks but for what this rank has.
/// Collective over `ranks`. Throws Error(verdict) on all ranks, naming tensor and ranks.
void compare_holders(Communicator& ranks, const CollectedState& state, std::span<const HeldBox> boxes);

/// The sums over all ranks, by tensor. Collective over `ranks`.
void add_up(Communicator& ranks, std::vector<Fingerprint>& sums);

}  // namespace lockstep
