#include "readers/input_parts.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// About how many bytes of text a file has.
std::uint64_t text_bytes(const InputFile& file) {
  constexpr std::uint64_t usual_ratio = 4;
  const bool is_compressed = file.compression != Compression::none || file.format == TextFormat::parquet;
  return is_compressed ? usual_ratio * file.bytes : file.bytes;
}

std::uint64_t total_of(const std::vector<InputFile>& files) {
  std::uint64_t total = 0;
  for (const InputFile& file : files) total += text_bytes(file);
  return total;
}

/// Where the part of a rank begins: floor(rank · total / ranks), of factors that do not overflow.
std::uint64_t begin_of(int rank, int ranks, std::uint64_t total) {
  const auto which = static_cast<std::uint64_t>(rank);
  const auto count = static_cast<std::uint64_t>(ranks);
  return total / count * which + total % count * which / count;
}

std::uint64_t blocks_of(const InputFile& file) {
  return std::max<std::uint64_t>(1, (file.bytes + input_block_bytes - 1) / input_block_bytes);
}

/// The first block of a file that begins, among all text, at `place` or behind it, if `before` is in front of the file.
std::uint64_t block_from(std::uint64_t place, std::uint64_t before, const InputFile& file) {
  if (place <= before) return 0;
  return std::min((place - before + input_block_bytes - 1) / input_block_bytes, blocks_of(file));
}

}  // namespace

std::vector<InputPart> whole_files(const std::vector<InputFile>& files) {
  std::vector<InputPart> parts;
  for (std::size_t i = 0; i < files.size(); ++i) parts.push_back({i, 0, std::nullopt});
  return parts;
}

std::vector<InputPart> parts_of_rank(const std::vector<InputFile>& files, int rank, int ranks) {
  if (ranks == 1) return whole_files(files);
  const std::uint64_t total = total_of(files);
  const std::uint64_t begin = begin_of(rank, ranks, total);
  const bool last = rank == ranks - 1;
  const std::uint64_t end = begin_of(rank + 1, ranks, total);
  std::vector<InputPart> parts;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < files.size(); before += text_bytes(files[i]), ++i) {
    if (!files[i].is_plain()) {
      const std::uint64_t middle = before + text_bytes(files[i]) / 2;
      if (middle >= begin && (middle < end || last)) parts.push_back({i, 0, std::nullopt});
      continue;
    }
    const std::uint64_t blocks = blocks_of(files[i]);
    const std::uint64_t first = block_from(begin, before, files[i]);
    const std::uint64_t behind = last ? blocks : block_from(end, before, files[i]);
    if (first >= behind) continue;
    parts.push_back({i, first, behind == blocks ? std::nullopt : std::optional(behind)});
  }
  return parts;
}

std::uint64_t bytes_of_rank(const std::vector<InputFile>& files, int rank, int ranks) {
  std::uint64_t bytes = 0;
  for (const InputPart& part : parts_of_rank(files, rank, ranks)) {
    const std::uint64_t end = part.end_block ? *part.end_block * input_block_bytes : files[part.file].bytes;
    bytes += end - part.first_block * input_block_bytes;
  }
  return bytes;
}

bool exceeds_equal_share(const std::vector<InputFile>& files, std::size_t file, int ranks) {
  if (ranks == 1 || files[file].is_plain()) return false;
  const double part = static_cast<double>(total_of(files)) / ranks;
  return static_cast<double>(text_bytes(files[file])) > 1.25 * part;
}

int reader_of(const std::vector<InputFile>& files, std::size_t file, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const auto parts = parts_of_rank(files, rank, ranks);
    if (std::ranges::find(parts, file, &InputPart::file) != parts.end()) return rank;
  }
  return 0;
}

}  // namespace lockstep
