// Copies input files without random access, such as compressed ones, if they are too large for one of many ranks. One
// rank unpacks each file; all ranks then read the copy in parts.
#pragma once

#include "base/files.hpp"
#include "comm/session.hpp"
#include "readers/byte_reader.hpp"
#include "readers/input_files.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct UnpackedInput {
  std::vector<InputFile> files;            // to be read in place of the input
  std::uint64_t bytes_read = 0;            // of the input, read by all ranks
  std::vector<ReadContent> contents = {};  // of the input, by file; set for copied files
  std::vector<std::string> warnings = {};  // ByteReader::warning of the copied files
};

/// Writes copies to `folder`, which all ranks see. Collective over the session's world. Throws as ByteReader does.
UnpackedInput unpack_large_files(Session& session, const std::vector<InputFile>& files, const Path& folder);

}  // namespace lockstep
