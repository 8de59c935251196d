// The blocks of a corpus, numbered through all its files, so that a range of numbers is a piece of the corpus whoever
// reads it. A file that is not plain has the numbers that its bytes would give, and is in one piece.
#pragma once

#include "corpus/input_parts.hpp"

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
  /// `files` outlive it.
  explicit BlockNumbers(const std::vector<InputFile>& files);
  /// The number of the block that begins at byte `offset` of a file; of a file that is not plain its first.
  std::uint64_t number_of(std::size_t file, std::uint64_t offset) const;
  /// Of parts that follow each other.
  InputRange range_of(const std::vector<InputPart>& parts) const;
  /// Those of files that lie in the range; a file that is not plain if its first block does.
  std::vector<InputPart> parts_in(const InputRange& range) const;
  /// The first place at `number` or behind it that lies in no file which is in one piece.
  std::uint64_t border_at(std::uint64_t number) const;

 private:
  std::size_t file_at(std::uint64_t number) const;
  const std::vector<InputFile>& files_;
  std::vector<std::uint64_t> starts_;  // of each file, and the end
};

}  // namespace lockstep
