#include "readers/block_numbers.hpp"

#include <algorithm>

namespace lockstep {

BlockNumbers::BlockNumbers(const std::vector<InputFile>& files) : files_(files) {
  std::uint64_t start = 0;
  for (const InputFile& file : files) {
    starts_.push_back(start);
    start += std::max<std::uint64_t>(1, (file.bytes + input_block_bytes - 1) / input_block_bytes);
  }
  starts_.push_back(start);
}

std::uint64_t BlockNumbers::number_of(std::size_t file, std::uint64_t offset) const {
  return starts_[file] + (files_[file].is_plain() ? offset / input_block_bytes : 0);
}

InputRange BlockNumbers::range_of(const std::vector<InputPart>& parts) const {
  if (parts.empty()) return {};
  const InputPart& last = parts.back();
  return {starts_[parts.front().file] + parts.front().first_block,
          last.end_block ? starts_[last.file] + *last.end_block : starts_[last.file + 1]};
}

std::size_t BlockNumbers::file_at(std::uint64_t number) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(starts_, number) - starts_.begin()) - 1;
}

std::vector<InputPart> BlockNumbers::parts_in(const InputRange& range) const {
  std::vector<InputPart> parts;
  if (range.begin >= range.end) return parts;
  for (std::size_t file = file_at(range.begin); file < files_.size() && starts_[file] < range.end; ++file) {
    const std::uint64_t first = std::max(range.begin, starts_[file]) - starts_[file];
    if (!files_[file].is_plain()) {
      if (first == 0) parts.push_back({file, 0, std::nullopt});
      continue;
    }
    const bool whole = range.end >= starts_[file + 1];
    parts.push_back({file, first, whole ? std::nullopt : std::optional(range.end - starts_[file])});
  }
  return parts;
}

std::uint64_t BlockNumbers::border_at(std::uint64_t number) const {
  if (number >= starts_.back()) return starts_.back();
  const std::size_t file = file_at(number);
  return files_[file].is_plain() || number == starts_[file] ? number : starts_[file + 1];
}

}  // namespace lockstep
