// INDEX.h5: where each piece of each tensor lies, with its hashes, as packed tables that any HDF5 tool reads. A
// checkpoint is read by this and the manifest alone; parts are never searched. What is in the tables of a part:
// store/part_file.hpp.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "layout/shape.hpp"
#include "store/part_file.hpp"

#include <cstddef>
#include <vector>

namespace lockstep {

struct IndexedPiece {
  std::size_t tensor = 0;  // number in Manifest::tensors
  std::size_t file = 0;    // number in Manifest::files
  Box box;
  PieceRecord record;
};

/// Writes a new INDEX.h5 and makes it durable: /pieces/{tensor, file, offset, fingerprint, first_box, first_block},
/// /boxes (begin, then extent, of each piece), /blocks (n, 2: high and low half). Ordered by tensor. Throws
/// Error(storage).
void write_piece_index(const Path& path, const std::vector<IndexedPiece>& pieces);

/// The pieces in `content`, the bytes of an INDEX.h5; `origin` names it in errors. Throws Error(input) if a table is
/// missing or they contradict each other.
std::vector<IndexedPiece> parse_piece_index(std::string_view content, const Path& origin);

}  // namespace lockstep
