// The files of a checkpoint as they are read back. Their manifest says that they are there: where the system says
// otherwise, that is Error(storage), the verdict unreadable; whether a file is truly gone is for whoever looks
// repeatedly (store/checkpoint_verify.hpp). Files in general: base/files.hpp.
#pragma once

#include "base/files.hpp"

#include <cstdint>
#include <string>

namespace lockstep {

// These throw Error(storage) whatever the reason, but Error(input) for what is no file: a folder, a FIFO, a device.
FileDescriptor open_stored(const Path& path);
std::string read_stored(const Path& path);
/// Fills `bytes` from `offset`; also throws if the file ends before.
void read_stored(const FileDescriptor& file, std::span<std::byte> bytes, std::uint64_t offset, const Path& path);

/// How whoever looks at one folder tells of a file that `node` wrote to storage of its own, and what to do.
std::string not_here(const Path& file, const std::string& node);
std::string gather_hint();

}  // namespace lockstep
