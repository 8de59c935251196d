#include "readers/block_numbers.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(block_numbers)

/// Each block of plain files and each other file as (file, block).
std::vector<std::pair<std::size_t, std::uint64_t>> pieces_of(const std::vector<InputFile>& files,
                                                             const std::vector<InputPart>& parts) {
  std::vector<std::pair<std::size_t, std::uint64_t>> pieces;
  for (const InputPart& part : parts) {
    const std::uint64_t blocks =
        files[part.file].is_plain() ? (files[part.file].bytes + input_block_bytes - 1) / input_block_bytes : 1;
    for (std::uint64_t block = part.first_block; block < part.end_block.value_or(blocks); ++block)
      pieces.emplace_back(part.file, block);
  }
  return pieces;
}

std::vector<InputFile> random_files(std::mt19937& random) {
  std::vector<InputFile> files;
  for (std::size_t count = 1 + random() % 6; files.size() < count;) {
    const auto compression = random() % 3 == 0 ? Compression::gzip : Compression::none;
    const auto format = random() % 2 == 0 ? TextFormat::text : TextFormat::json_lines;
    files.push_back({"a", format, compression, 1 + random() % (input_block_bytes * (random() % 2 == 0 ? 1 : 9))});
  }
  return files;
}

BOOST_AUTO_TEST_CASE(ranges_cut_anywhere_at_borders_hold_each_block_of_a_rank_once_and_in_order) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const std::vector<InputFile> files = random_files(random);
    const BlockNumbers numbers(files);
    const int ranks = 1 + static_cast<int>(random() % 4);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<InputPart> own = parts_of_rank(files, rank, ranks);
      const InputRange range = numbers.range_of(own);
      std::vector<std::pair<std::size_t, std::uint64_t>> found;
      for (std::uint64_t begin = range.begin; begin < range.end;) {
        const std::uint64_t end = std::min(range.end, numbers.border_at(begin + 1 + random() % 4));
        for (const auto& piece : pieces_of(files, numbers.parts_in({begin, end}))) {
          const std::uint64_t number = numbers.number_of(piece.first, piece.second * input_block_bytes + 3);
          BOOST_TEST((number >= begin && number < end));
          found.push_back(piece);
        }
        begin = end;
      }
      BOOST_TEST((found == pieces_of(files, own)), "round " << round << ", rank " << rank << " of " << ranks);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
