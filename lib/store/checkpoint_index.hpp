// INDEX.h5: the files of a checkpoint and its tensors, each tensor with its layout, its fingerprint and the parts that
// have pieces of it, as columns that any HDF5 tool reads. Its size does not grow with the pieces. Format 1, where it
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

/// Adds what `content`, the bytes of an INDEX.h5, lists to a manifest that parse_manifest returned. Throws Error(input)
/// naming `origin` if it is not the one that the manifest means, or contradicts itself.
void add_index(Manifest& manifest, std::string_view content, const Path& origin);

}  // namespace lockstep
