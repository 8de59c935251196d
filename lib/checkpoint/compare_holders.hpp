// Ranks that hold the same box of a tensor must hold the same bytes. These functions compare them; each component
// declares whether its tensors are compared, and how deeply (store/component.hpp). Small values of components:
// checkpoint/compare_values.hpp.
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

/// A digest (fingerprint or hashes) that is equal for equal bytes.
using Evidence = std::array<std::uint64_t, 4>;

/// Returns the parts of `memory` that a comparison reads in addition to the fingerprint: both ends for quick, a share
/// for rolling, all for full, none otherwise. Pure.
std::vector<Region> compared_parts(Validation validation, const Region& memory, const RollingShare& share);

/// Returns the evidence for `memory`. `sum` is its fingerprint; only the levels tensor and full need it. Local.
Evidence evidence_of(Validation validation, const Fingerprint& sum, const Region& memory, const RollingShare& share);

/// Returns the fingerprint of the elements of `box` in `memory`. Local.
Fingerprint fingerprint_of(const Layout& layout, const Box& box, const Region& memory);

/// A box within one holding of a tensor.
struct HeldBox {
  std::size_t tensor = 0;  // number in CollectedState::tensors
  Box box;
  int holders = 0;      // number of ranks that hold it
  bool counts = false;  // true on exactly one of its holders
  /// Evidence for this rank's bytes; not set if it does not hold the box, or the box is not compared.
  std::optional<Evidence> evidence;
  /// Memory of this rank, if it still has these values.
  Region memory = {};
};

struct DifferingBox {
  std::size_t box = 0;  // number in the list of boxes
  Sides sides;
};

/// Returns the boxes whose holders have different evidence. `boxes` are equal on all ranks except for the bytes and
/// evidence of this rank. Unless there are differences, the amount of communication depends on the number of tensors,
/// not on the number of ranks or boxes. Collective over `ranks`.
std::vector<DifferingBox> find_differences(Communicator& ranks, const CollectedState& state,
                                           std::span<const HeldBox> boxes);

/// Returns a message about the first tensor that differs, with the elements that differ between the first ranks of its
/// first two sides: "replicas differ in model/wte.weight [0:37, 0:8]: rank 1 against ranks 0,2: 1 of 296 elements, the
/// first at …". Collective over `ranks`.
std::string describe_differences(Communicator& ranks, const CollectedState& state, std::span<const HeldBox> boxes,
                                 const std::vector<DifferingBox>& different);

/// Checks that all holders of each box have the same evidence. Collective over `ranks`. Throws Error(verdict) on all
/// ranks, naming tensor, ranks and elements.
void compare_holders(Communicator& ranks, const CollectedState& state, std::span<const HeldBox> boxes);

/// Does the same if each rank knows only the boxes that it holds or writes: pieces_of its holdings, each of at most
/// `piece_bytes`. Only tensors that differ are compared box by box. Collective over `ranks`. Throws as compare_holders
/// does.
void compare_holders_in_pieces(Communicator& ranks, const CollectedState& state, std::span<const HeldBox> mine,
                               std::uint64_t piece_bytes);

/// Throws Error(verdict) on all ranks with the message `told` and a hint for the user. Collective over `ranks`.
[[noreturn]] void fail_diverged(Communicator& ranks, const std::string& told);

/// Replaces the sum of each tensor by its total over all ranks. Collective over `ranks`.
void add_up(Communicator& ranks, std::vector<Fingerprint>& sums);

}  // namespace lockstep
