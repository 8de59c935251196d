// Ranks that hold the same box of a tensor must hold the same bytes. What each rank knows of its own is brought
// together here; whether they are compared at all, and how deeply, a component declares (store/component.hpp). The
// small values of components: checkpoint/compare_values.hpp.
#pragma once

#include "checkpoint/collected_state.hpp"
#include "checkpoint/sides.hpp"
#include "comm/communicator.hpp"
#include "store/component.hpp"
#include "store/fingerprint.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// A digest of bytes, equal for equal bytes: fingerprints, hashes.
using Evidence = std::array<std::uint64_t, 4>;

/// The bytes that are read, once or in two parts, to compare these beyond their fingerprint. Pure.
std::vector<std::span<const std::byte>> compared_parts(Validation validation, std::span<const std::byte> bytes,
                                                       const RollingShare& share);

/// What is compared of bytes whose fingerprint (of levels above rolling) is known. Pure.
Evidence evidence_of(Validation validation, const Fingerprint& sum, std::span<const std::byte> bytes,
                     const RollingShare& share);

/// A box within one holding of a tensor.
struct HeldBox {
  std::size_t tensor = 0;  // number in CollectedState::tensors
  Box box;
  int holders = 0;      // ranks that hold it
  bool counts = false;  // this rank stands for them: one of them does
  std::optional<Evidence>
      evidence;  // of this rank's bytes; nothing if it does not hold the box, or the box is not compared
  std::span<const std::byte> bytes = {};  // this rank's, where they are still there to be looked at
};

struct DifferingBox {
  std::size_t box = 0;  // its number
  Sides sides;
};

/// The boxes whose holders have other evidence. What is exchanged grows with the tensors and neither with the ranks nor
/// with the boxes, unless some differ. `boxes` are equal on all ranks but for what this rank has. Collective over
/// `ranks`.
std::vector<DifferingBox> find_differences(Communicator& ranks, const CollectedState& state,
                                           std::span<const HeldBox> boxes);

/// "replicas differ in model/wte.weight [0:37, 0:8]: rank 1 against ranks 0,2: 1 of 296 elements, the first at …": of
/// the first tensor that differs, between the first of both sides. Collective over `ranks`.
std::string tell_differences(Communicator& ranks, const CollectedState& state, std::span<const HeldBox> boxes,
                             const std::vector<DifferingBox>& different);

/// Agrees that all holders of each box have the same evidence. Collective over `ranks`. Throws Error(verdict) on all
/// ranks, naming tensor, ranks and elements.
void compare_holders(Communicator& ranks, const CollectedState& state, std::span<const HeldBox> boxes);

/// The same where each rank knows of those boxes alone that it holds or writes: pieces_of what a rank holds, of at most
/// `piece_bytes`. Those of all are looked at where some differ. Collective over `ranks`.
void compare_holders_in_pieces(Communicator& ranks, const CollectedState& state, std::span<const HeldBox> mine,
                               std::uint64_t piece_bytes);

/// Throws Error(verdict) with what was found and what a user can do.
[[noreturn]] void fail_diverged(Communicator& ranks, const std::string& told);

/// The sums over all ranks, by tensor. Collective over `ranks`.
void add_up(Communicator& ranks, std::vector<Fingerprint>& sums);

}  // namespace lockstep
