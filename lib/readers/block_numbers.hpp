// Numbers the blocks of a corpus consecutively over all its files, so that a range of numbers means the same part of
// the corpus to every reader. A file that is not plain is never divided: its numbers follow from its size on disk.
#pragma once

#include "readers/input_parts.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

struct InputRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool operator==(const InputRange&) const = default;
};

class BlockNumbers {
 public:
  /// `files` must outlive it.
  explicit BlockNumbers(const std::vector<InputFile>& files);
  /// The number of the block that begins at byte `offset` of a file. For a file that is not plain: the number of its
  /// first block.
  std::uint64_t number_of(std::size_t file, std::uint64_t offset) const;
  /// The range that consecutive parts cover.
  InputRange range_of(const std::vector<InputPart>& parts) const;
  /// The parts of files within the range. A file that is not plain belongs to the range that contains its first block.
  std::vector<InputPart> parts_in(const InputRange& range) const;
  /// `number`, or the end of the file if `number` lies within a file that is not plain.
  std::uint64_t border_at(std::uint64_t number) const;

 private:
  std::size_t file_at(std::uint64_t number) const;
  const std::vector<InputFile>& files_;
  std::vector<std::uint64_t> starts_;  // of each file, and the end of the last one
};

}  // namespace lockstep
