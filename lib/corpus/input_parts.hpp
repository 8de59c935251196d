// Who reads which part of a corpus: ranks have consecutive parts of about the same size. A plain file is divided
// between blocks, wherever these begin (corpus/block_reader.hpp); others, whose places mean nothing before they are
// read, as a whole.
#pragma once

#include "corpus/input_files.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

inline constexpr std::uint64_t input_block_bytes = std::uint64_t{1} << 18;

/// Consecutive blocks of a file.
struct InputPart {
  std::size_t file = 0;                    // within the corpus
  std::uint64_t first_block = 0;           // 0 of a file that is not plain
  std::optional<std::uint64_t> end_block;  // absent: up to the end of the file
};

/// All of the files.
std::vector<InputPart> whole_files(const std::vector<InputFile>& files);
/// What `rank` of `ranks` reads, in the order of the corpus: the parts of all ranks, one after the other, are the
/// corpus.
std::vector<InputPart> parts_of_rank(const std::vector<InputFile>& files, int rank, int ranks);
/// Of the files, on disk, about.
std::uint64_t bytes_of_rank(const std::vector<InputFile>& files, int rank, int ranks);
/// Whether a file is not plain and so large that the rank that reads it would hold up the others.
bool outweighs_a_part(const std::vector<InputFile>& files, std::size_t file, int ranks);
/// Which of `ranks` reads a file that is not plain.
int reader_of(const std::vector<InputFile>& files, std::size_t file, int ranks);

}  // namespace lockstep
