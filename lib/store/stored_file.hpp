// Reads the files that a checkpoint's manifest lists. If the system reports that one does not exist, the error is
// Error(storage), the verdict unreadable: whether a file is really gone is decided by repeated looks
// (store/checkpoint_verify.hpp). Files in general: base/files.hpp.
#pragma once

#include "base/files.hpp"

#include <cstdint>
#include <string>

namespace lockstep {

// These throw Error(storage) for any reason, except Error(input) for something that is not a file: a folder, a FIFO, a
// device.
FileDescriptor open_stored(const Path& path);
std::string read_stored(const Path& path);
/// Fills `bytes` from `offset`; also throws if the file ends before.
void read_stored(const FileDescriptor& file, std::span<std::byte> bytes, std::uint64_t offset, const Path& path);

/// Returns the message, and the hint, for a file that `node` wrote to its own storage and that is missing here.
std::string not_here(const Path& file, const std::string& node);
std::string gather_hint();

}  // namespace lockstep
