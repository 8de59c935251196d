// The one pass over the bytes of a state when it is saved: each block of each piece is hashed, fingerprinted and
// written while it is in the processor's cache, by a few threads, so that the storage always has something to do. Plain
// system calls; HDF5 is not touched.
#pragma once

#include "store/part_file.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {

/// A place is where a piece is written to.
struct PiecePlace {
  const PartFile* part = nullptr;
  std::uint64_t offset = 0;
};

/// A piece that this rank holds.
struct HeldPiece {
  PartPiece piece;
  std::span<const std::byte> bytes;
  std::optional<PiecePlace> place;  // nothing: another rank writes it, and only its fingerprint is wanted
};

/// Writes the pieces that have a place and returns the record of each; that of a piece without one has a fingerprint
/// and no blocks. Local. Throws Error(storage); what was written is then to be dropped.
std::vector<PieceRecord> pass_over(std::span<const HeldPiece> pieces);

}  // namespace lockstep
