// Reads format 1 of checkpoints, which this program no longer writes. There MANIFEST.json lists files and tensors, and
// INDEX.h5 lists every piece. The current format: store/manifest.hpp, store/checkpoint_index.hpp.
#pragma once

#include "base/files.hpp"
#include "base/json_fwd.hpp"
#include "store/checkpoint_index.hpp"

#include <string_view>
#include <vector>

namespace lockstep {

/// Completes a manifest by the entries that differ in format 1: meshes, cells, metrics, files, tensors. Throws
/// Error(input) without an origin.
void add_format_1(const Json& document, Manifest& manifest);

/// Returns the pieces in `content`, the bytes of an INDEX.h5: /pieces/{tensor, file, offset, fingerprint, first_box,
/// first_block}, /boxes (begin, then extent, of each piece), /blocks (n, 2: high and low half), ordered by tensor.
/// Throws Error(input) naming `origin` if a table is missing or they contradict each other.
std::vector<IndexedPiece> parse_piece_index(std::string_view content, const Path& origin);

}  // namespace lockstep
