// Files that cannot be read from any place on and are too large for one rank of many, such as compressed ones: one rank
// reads each, and all read the copy by parts.
#pragma once

#include "base/files.hpp"
#include "comm/session.hpp"
#include "corpus/byte_reader.hpp"
#include "corpus/input_files.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct UnpackedInput {
  std::vector<InputFile> files;            // what to read in place of the input
  std::uint64_t bytes_read = 0;            // of the input, by all ranks
  std::vector<ReadContent> contents = {};  // of it, by file: of those that are copied
  std::vector<std::string> warnings = {};  // ByteReader::warning, of those
};

/// Copies go to `folder`, which all ranks see. Collective over the session's world. Throws as ByteReader does.
UnpackedInput unpack_large_files(Session& session, const std::vector<InputFile>& files, const Path& folder);

}  // namespace lockstep
