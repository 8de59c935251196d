// Text of a corpus that cannot be used, and the line of its file where it stands. Lines are counted only to tell of it.
#pragma once

#include "base/error.hpp"
#include "corpus/byte_reader.hpp"
#include "corpus/input_files.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

struct BadText {
  const InputFile* file = nullptr;
  std::optional<std::uint64_t> offset = {};  // in the decompressed file; absent: not known
  std::string reason = {};
  std::string hint = {};
};

/// Counts lines of files from their starts; places of one file that come in their order, in one pass over it.
class LineCounter {
 public:
  /// `alive` is called as the counting gets on, and may throw.
  explicit LineCounter(std::function<void()> alive = {});
  /// The number, from 1, of the line with the byte at `offset`. Throws as ByteReader does.
  std::int64_t line_at(const InputFile& file, std::uint64_t offset);

 private:
  std::function<void()> alive_;
  const InputFile* file_ = nullptr;
  std::unique_ptr<ByteReader> bytes_;
  std::uint64_t position_ = 0;
  std::int64_t line_ = 1;
};

/// Error(input) "FILE:LINE: …".
Error error_of(const BadText& bad, LineCounter& lines);

}  // namespace lockstep
