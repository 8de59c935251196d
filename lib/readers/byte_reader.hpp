// Reads the bytes of an input file and decompresses them. A plain file can be read from any offset. Files of records in
// other formats are read as JSON lines (readers/record_lines.hpp, readers/table_files.hpp, readers/plugin_reader.hpp).
#pragma once

#include "readers/input_files.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep {

/// The number of bytes read from a file on disk, and their content_sum (base/content_sum.hpp).
struct ReadContent {
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
  void add(const ReadContent& more);
};

class ByteReader {
 public:
  virtual ~ByteReader() = default;
  /// Fills the front of `out`. Returns the number of bytes, 0 only at the end. Throws Error(input) naming the file if
  /// its compressed data is damaged or ends too early, Error(storage).
  virtual std::size_t read(std::span<char> out) = 0;
  /// Bytes of the file on disk read so far.
  virtual std::uint64_t consumed() const = 0;
  /// Their content sum. Empty for plain files, tables and files that a plug-in reads.
  virtual ReadContent content() const { return {}; }
  /// A warning about ignored bytes after the compressed data; empty if there were none so far.
  virtual std::string warning() const { return {}; }
};

/// The bytes as they are stored, from `offset` on: of a file of this machine or an object of an object store.
std::unique_ptr<ByteReader> open_stored(const Path& path, std::uint64_t offset);

/// Opens a file of a corpus at byte `offset`, which must be 0 unless the file is plain.
std::unique_ptr<ByteReader> open_bytes(const InputFile& file, std::uint64_t offset = 0);

}  // namespace lockstep
