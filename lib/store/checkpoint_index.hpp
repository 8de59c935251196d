// INDEX.h5 lists the files and tensors of a checkpoint: for each tensor its layout, its fingerprint, and the parts with
// pieces of it. Any HDF5 tool can read its columns. Its size does not grow with the number of pieces. In format 1 it
// listed every piece: store/format_1.hpp.
#pragma once

#include "base/files.hpp"
#include "store/manifest.hpp"

#include <string_view>

namespace lockstep {

/// A piece of a tensor in a file of a checkpoint.
struct IndexedPiece {
  std::size_t tensor = 0;  // number in Manifest::tensors
  std::size_t file = 0;    // number in Manifest::files
  Box box;
  PieceRecord record;
};

/// Writes a new INDEX.h5 with the files and tensors of `manifest` and makes it durable. Throws Error(storage).
void write_index(const Path& path, const Manifest& manifest);

/// Adds the lists in `content`, the bytes of an INDEX.h5, to a manifest from parse_manifest. Throws Error(input) naming
/// `origin` if `content` is not the index of this manifest, or contradicts itself.
void add_index(Manifest& manifest, std::string_view content, const Path& origin);

}  // namespace lockstep
