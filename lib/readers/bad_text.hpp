// Describes text of a corpus that cannot be used, and finds the line of its file. Lines are counted only for such a
// message.
#pragma once

#include "base/error.hpp"
#include "readers/byte_reader.hpp"
#include "readers/input_files.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

struct BadText {
  const InputFile* file = nullptr;
  std::optional<std::uint64_t> offset = {};  // in the decompressed file; not set: unknown
  std::string reason = {};
  std::string hint = {};
};

/// Counts the lines of files from their starts. Queries for one file in ascending order of offset need one pass over
/// it.
class LineCounter {
 public:
  /// `alive` is called while lines are counted, and may throw.
  explicit LineCounter(std::function<void()> alive = {});
  /// The number of the line that contains the byte at `offset`, counted from 1. Throws as ByteReader does.
  std::int64_t line_at(const InputFile& file, std::uint64_t offset);

 private:
  std::function<void()> alive_;
  const InputFile* file_ = nullptr;
  std::unique_ptr<ByteReader> bytes_;
  std::uint64_t position_ = 0;
  std::int64_t line_ = 1;
};

/// Returns the Error(input) "FILE:LINE: …".
Error error_of(const BadText& bad, LineCounter& lines);

}  // namespace lockstep
