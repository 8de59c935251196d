// Format 1 of checkpoints, which this program reads and no longer writes: MANIFEST.json lists the files and tensors,
// INDEX.h5 every piece.
#pragma once

#include "base/files.hpp"
#include "base/json_fwd.hpp"
#include "store/checkpoint_index.hpp"

#include <string_view>
#include <vector>

namespace lockstep {

/// Completes a manifest by what a document of format 1 says otherwise: meshes, cells, metrics, files, tensors. Throws
/// Error(input) without an origin.
void add_format_1(const Json& document, Manifest& manifest);

/// The pieces in `content`, the bytes of an INDEX.h5: /pieces/{tensor, file, offset, fingerprint, first_box,
/// first_block}, /boxes (begin, then extent, of each piece), /blocks (n, 2: high and low half), ordered by tensor.
/// Throws Error(input) naming `origin` if a table is missing or they contradict each other.
std::vector<IndexedPiece> parse_piece_index(std::string_view content, const Path& origin);

}  // namespace lockstep
