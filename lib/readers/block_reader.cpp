#include "readers/block_reader.hpp"

#include "base/content_sum.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "readers/foreign_content.hpp"
#include "unicode/utf8.hpp"

#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace lockstep {

namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// `text` without the end of a sequence that begins before it.
std::string_view from_a_code_point(std::string_view text) {
  constexpr std::size_t longest_sequence = 4;
  std::size_t begin = 0;
  while (begin < text.size() && begin + 1 < longest_sequence &&
         (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80)
    ++begin;
  return text.substr(begin);
}

}  // namespace

BlockReader::BlockReader(const std::vector<InputFile>& files, std::vector<InputPart> parts, LastCut last_cut,
                         std::size_t longest)
    : files_(files),
      parts_(std::move(parts)),
      last_cut_(std::move(last_cut)),
      longest_(longest),
      contents_(files.size()) {}
BlockReader::~BlockReader() = default;

bool BlockReader::next(TextBlock& block) {
  while (!bytes_ || part_is_done()) {
    if (!open_next_part()) return false;
  }
  const std::uint64_t end = file_->format == TextFormat::text ? end_of_text() : end_of_lines();
  const auto size = static_cast<std::size_t>(end - held_at_);
  block.file = file_;
  block.offset = std::exchange(held_at_, end);
  block.begins_document = std::exchange(begins_document_, false);
  std::string rest = held_.substr(size);  // the shorter part is copied: a block may be one huge line
  held_.resize(size);
  block.text = std::exchange(held_, std::move(rest));
  if (file_->is_plain()) {
    block.content = std::exchange(passed_over_, {});
    block.content.add({size, content_sum(block.text, block.offset)});
    contents_[part_.file].add(block.content);
  }
  return true;
}

std::uint64_t BlockReader::input_consumed() const {
  return input_consumed_before_ + (bytes_ && !file_->is_copy() ? bytes_->consumed() : 0);
}

void BlockReader::close() {
  consumed_before_ = consumed();
  input_consumed_before_ = input_consumed();
  if (bytes_) {
    contents_[part_.file].add(bytes_->content());
    if (std::string warning = bytes_->warning(); !warning.empty()) warnings_.push_back(std::move(warning));
  }
  contents_[part_.file].add(std::exchange(passed_over_, {}));
  bytes_.reset();
}

void BlockReader::open_at(std::uint64_t offset) {
  close();
  bytes_ = open_bytes(*file_, offset);
  held_.clear();
  held_at_ = offset;
  at_end_ = false;
}

bool BlockReader::open_next_part() {
  close();
  if (next_part_ == parts_.size()) return false;
  part_ = parts_[next_part_++];
  file_ = &files_[part_.file];
  begins_document_ = false;
  if (part_.first_block == 0) {
    open_at(0);
    hold(look_ahead);
    if (std::string_view(held_).starts_with(byte_order_mark)) {
      passed_over_ = {byte_order_mark.size(), content_sum(byte_order_mark, 0)};
      drop_before(byte_order_mark.size());
    }
    if (held_.empty()) warnings_.push_back(fmt::format("{} contains no text", file_->name()));
    begins_document_ = file_->format == TextFormat::text;
  } else if (file_->format == TextFormat::text) {
    skip_to_first_cut();
  } else {
    skip_to_first_line();
  }
  return true;
}

std::uint64_t BlockReader::part_end() const {
  return part_.end_block ? *part_.end_block * block_bytes : std::numeric_limits<std::uint64_t>::max();
}

// What begins behind the part belongs to another one.
bool BlockReader::part_is_done() {
  if (held_at_ >= part_end()) return true;
  if (held_.empty()) hold(held_at_ + look_ahead);
  return held_.empty();
}

// A line that begins in the part stands behind a line end, which may be the byte before the part.
void BlockReader::skip_to_first_line() {
  open_at(part_.first_block * block_bytes - 1);
  std::size_t line_end = std::string::npos;
  while (line_end == std::string::npos && !at_end_ && held_end() < part_end()) {
    drop_before(held_end());
    hold(std::min<std::uint64_t>(held_at_ + look_ahead, part_end()));
    line_end = held_.find('\n');
  }
  drop_before(line_end == std::string::npos ? held_end() : held_at_ + line_end + 1);
}

void BlockReader::skip_to_first_cut() {
  for (std::uint64_t block = part_.first_block;; ++block) {
    open_at(block * block_bytes);
    if (held_at_ >= part_end()) return;
    hold(held_at_ + look_ahead);
    if (const auto cut = cut_at(held_at_)) return drop_before(*cut);
    if (at_end_) return drop_before(held_end());
  }
}

// Reads until the bytes before `end` are held, or the file ends.
void BlockReader::hold(std::uint64_t end) {
  if (end <= held_end()) return;
  const auto wanted = static_cast<std::size_t>(end - held_at_);
  if (held_.capacity() < wanted + TextBlock::room_behind)
    held_.reserve(std::max(wanted + TextBlock::room_behind, 2 * held_.size()));
  for (std::size_t size = held_.size(); size < wanted && !at_end_;) {
    held_.resize(std::min(wanted, size + block_bytes));
    const std::size_t got = bytes_->read(std::span(held_).subspan(size));
    at_end_ = got == 0;
    size += got;
    held_.resize(size);
  }
}

void BlockReader::drop_before(std::uint64_t offset) {
  held_.erase(0, static_cast<std::size_t>(offset - held_at_));
  held_at_ = offset;
}

// The block ends with the line in which its range of the file ends.
std::uint64_t BlockReader::end_of_lines() {
  std::uint64_t from = (held_at_ / block_bytes + 1) * block_bytes - 1;
  for (std::uint64_t step = look_ahead;; step *= 2) {  // doubled: looking for an end stays linear
    hold(from + step);
    const std::size_t line_end = held_.find('\n', static_cast<std::size_t>(from - held_at_));
    if (line_end != std::string::npos) return held_at_ + line_end + 1;
    if (at_end_) return held_end();
    const std::size_t line = held_.rfind('\n') + 1;  // npos + 1 is 0
    if (held_.size() - line >= longest_)
      throw BadText{file_, held_at_ + line, fmt::format("a line is longer than {}", human_bytes(longest_)), {}};
    from = held_end();
  }
}

// The block ends where the next one begins.
std::uint64_t BlockReader::end_of_text() {
  for (std::uint64_t boundary = (held_at_ / block_bytes + 1) * block_bytes;; boundary += block_bytes) {
    hold(boundary + look_ahead);
    if (const auto cut = cut_at(boundary)) return *cut;
    if (at_end_) return held_end();
    if (held_.size() >= longest_) {
      throw BadText{file_,
                    held_at_,
                    fmt::format("a text that the tokenizer cannot split is longer than {}", human_bytes(longest_)),
                    {}};
    }
  }
}

// Where the block of this boundary begins, found in what follows it; nothing if it cannot begin there.
std::optional<std::uint64_t> BlockReader::cut_at(std::uint64_t boundary) const {
  if (held_end() <= boundary) return std::nullopt;
  const std::string_view ahead =
      std::string_view(held_).substr(static_cast<std::size_t>(boundary - held_at_), look_ahead);
  const std::string_view text = from_a_code_point(ahead);
  const std::size_t cut = last_cut_(text.substr(0, whole_code_points(text)));
  if (cut == 0) return std::nullopt;
  return boundary + (ahead.size() - text.size()) + cut;
}

void require_utf8(const TextBlock& block) {
  if (simdjson::validate_utf8(block.text.data(), block.text.size())) return;
  if (const auto foreign = block.offset == 0 ? foreign_content(block.text) : std::nullopt)
    throw BadText{block.file, 0, fmt::format("not valid UTF-8: it is {}", foreign->what), foreign->advice};
  const std::size_t bad = first_invalid_utf8(block.text).value_or(0);
  throw BadText{block.file, block.offset + bad,
                fmt::format("not valid UTF-8 (byte 0x{:02X})", static_cast<unsigned char>(block.text[bad])),
                "convert the file, for example with iconv"};
}

}  // namespace lockstep
