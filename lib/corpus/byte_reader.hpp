// The bytes of a file, decompressed as they are read, of a plain one from any place on; of files of records in another
// form, these as JSON lines.
#pragma once

#include "corpus/input_files.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep {

/// Bytes of a file on disk that were read, and their content_sum (base/content_sum.hpp).
struct ReadContent {
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
  void add(const ReadContent& more);
};

class ByteReader {
 public:
  virtual ~ByteReader() = default;
  /// Fills the front of `out`; the number of bytes, 0 only at the end. Throws Error(input) naming a file whose
  /// compressed data is damaged or ends too early, Error(storage).
  virtual std::size_t read(std::span<char> out) = 0;
  /// Bytes of the file on disk that were read so far.
  virtual std::uint64_t consumed() const = 0;
  /// What they are, of a file that is not plain; nothing of tables, whose library reads them.
  virtual ReadContent content() const { return {}; }
  /// A warning about bytes behind the compressed data that were ignored; empty: there were none, so far.
  virtual std::string warning() const { return {}; }
};

/// The bytes as they are stored, of a file of this machine or of an object of a store, from `offset` on.
std::unique_ptr<ByteReader> open_stored(const Path& path, std::uint64_t offset);

/// From byte `offset` on, which only a plain file has anywhere but at 0.
std::unique_ptr<ByteReader> open_bytes(const InputFile& file, std::uint64_t offset = 0);

}  // namespace lockstep
