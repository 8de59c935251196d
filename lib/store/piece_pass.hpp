// The single pass over the bytes of a state during a save. A few threads hash, fingerprint and write each block of each
// piece while it is in the processor's cache, so that the storage is never idle. Plain system calls, without HDF5. The
// files: store/part_file.hpp.
#pragma once

#include "store/part_file.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {

/// The place where a piece is written.
struct PiecePlace {
  const PartFile* part = nullptr;
  std::uint64_t offset = 0;
};

/// A piece that this rank holds.
struct HeldPiece {
  PartPiece piece;
  std::span<const std::byte> bytes;
  std::optional<PiecePlace> place;  // not set: another rank writes it, and only its fingerprint is needed
};

/// Writes the pieces that have a place and returns the record of each. The record of a piece without a place has a
/// fingerprint and no blocks. Local. Throws Error(storage); the written bytes must then be discarded.
std::vector<PieceRecord> pass_over(std::span<const HeldPiece> pieces);

}  // namespace lockstep
