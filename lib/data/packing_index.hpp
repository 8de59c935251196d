// A packing on disk, PACKING-<key>.h5 beside the shards: the key is a hash of all that changes it, so that what stands
// under a name never becomes stale. What is packed, and how: data/packing.hpp.
#pragma once

#include "base/files.hpp"
#include "data/packing.hpp"
#include "store/token_shards.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Which packing it is: the settings and the content of the split. Equal texts are equal packings.
std::string identity_of(const PackingSettings& settings, const SplitEntry& split);

/// The name of the file of such a packing.
std::string packing_file_name(std::string_view identity);
/// Whether a file has such a name, or one that a writer which was killed left.
bool is_packing_file(const Path& name);

/// The packing in a file, mapped. Throws Error(input) naming the file if it is damaged, no packing, or not the one of
/// this identity; Error(storage). Local.
Packing open_packing(const Path& path, std::string_view identity);

/// Writes it beside its name and renames it: the same packing gives the same bytes. Throws Error(storage). Local.
void write_packing(const Path& path, std::string_view identity, const Packing& packing);

/// The packing that one of these folders keeps; what is there under its name and cannot be read is told in `problems`.
/// Local.
std::optional<Packing> find_packing(const std::vector<Path>& folders, std::string_view identity,
                                    std::vector<std::string>& problems);

/// Keeps it in the first of these folders that takes it, and returns the file; the folders but the first are made where
/// they are not there. Throws the last folder's Error(storage). Local.
Path keep_packing(const std::vector<Path>& folders, std::string_view identity, const Packing& packing);

}  // namespace lockstep
