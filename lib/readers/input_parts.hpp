// Divides a corpus among ranks: each rank reads consecutive parts, of about the same size on all ranks. A plain file is
// divided at the borders of its blocks (readers/block_reader.hpp). Other files are never divided, because their text
// has no known offsets before it is read.
#pragma once

#include "readers/input_files.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

inline constexpr std::uint64_t input_block_bytes = std::uint64_t{1} << 18;

/// Consecutive blocks of a file.
struct InputPart {
  std::size_t file = 0;                    // index within the corpus
  std::uint64_t first_block = 0;           // 0 for a file that is not plain
  std::optional<std::uint64_t> end_block;  // not set: up to the end of the file
};

/// The parts that cover all files.
std::vector<InputPart> whole_files(const std::vector<InputFile>& files);
/// The parts that `rank` of `ranks` reads, in the order of the corpus. The parts of all ranks, one after the other, are
/// the whole corpus.
std::vector<InputPart> parts_of_rank(const std::vector<InputFile>& files, int rank, int ranks);
/// Approximate number of bytes on disk that `rank` of `ranks` reads.
std::uint64_t bytes_of_rank(const std::vector<InputFile>& files, int rank, int ranks);
/// Whether a file is not plain and so large that its reader would delay the other ranks (1.25 times an equal share).
bool exceeds_equal_share(const std::vector<InputFile>& files, std::size_t file, int ranks);
/// The rank, of `ranks`, that reads a file that is not plain.
int reader_of(const std::vector<InputFile>& files, std::size_t file, int ranks);

}  // namespace lockstep
