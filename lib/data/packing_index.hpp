// A packing on disk: PACKING-<key>.h5 beside the shards. The key is a hash of everything that changes the packing, so a
// file never becomes stale. The packing itself: data/packing.hpp.
#pragma once

#include "base/files.hpp"
#include "data/packing.hpp"
#include "store/token_shards.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Returns the identity of a packing: its settings and the content of the split. Packings with equal identities are
/// equal.
std::string identity_of(const PackingSettings& settings, const SplitEntry& split);

/// Returns the name of the file of such a packing.
std::string packing_file_name(std::string_view identity);
/// Returns whether a file has such a name, or the temporary name of a writer that was killed.
bool is_packing_file(const Path& name);

/// Opens the packing in a file, mapped. Throws Error(input) naming the file if it is damaged, is not a packing, or has
/// another identity; Error(storage). Local.
Packing open_packing(const Path& path, std::string_view identity);

/// Writes the packing to a temporary file and renames it. Equal packings give equal bytes. Throws Error(storage).
/// Local.
void write_packing(const Path& path, std::string_view identity, const Packing& packing);

/// Returns the packing from the first of these folders that has it. For each file of its name that cannot be used, adds
/// a message to `problems`. Local.
std::optional<Packing> find_packing(const std::vector<Path>& folders, std::string_view identity,
                                    std::vector<std::string>& problems);

/// Writes the packing to the first of these folders that can be written, and returns the path of the file. Creates
/// missing folders, except the first. Throws the Error(storage) of the last folder. Local.
Path keep_packing(const std::vector<Path>& folders, std::string_view identity, const Packing& packing);

}  // namespace lockstep
