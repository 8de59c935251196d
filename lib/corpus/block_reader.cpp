#include "corpus/block_reader.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "corpus/utf8.hpp"

#include <simdjson.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
}

BlockReader::BlockReader(const std::vector<InputFile>& files, LastCut last_cut, std::size_t longest)
    : files_(files), last_cut_(std::move(last_cut)), longest_(longest) {}
BlockReader::~BlockReader() = default;

bool BlockReader::open_next_file() {
  if (bytes_) consumed_before_ += file_->bytes;
  bytes_.reset();
  if (next_file_ == files_.size()) return false;
  file_ = &files_[next_file_++];
  bytes_ = open_bytes(*file_);
  at_end_ = false;
  begun_ = false;
  line_ = 1;
  hash_ = StreamHash();
  return true;
}

std::uint64_t BlockReader::consumed() const { return consumed_before_ + (bytes_ ? bytes_->consumed() : 0); }

// Reads until `bytes` are pending or the file ends. What is reserved but not read is never touched, so it costs
// nothing.
void BlockReader::grow(std::size_t bytes) {
  pending_.reserve(bytes + TextBlock::room_behind);
  for (std::size_t size = pending_.size(); size < bytes && !at_end_;) {
    pending_.resize(std::min(bytes, size + block_bytes));
    const std::size_t got = bytes_->read(std::span(pending_).subspan(size));
    at_end_ = got == 0;
    size += got;
    pending_.resize(size);
  }
}

// Where the pending text may be cut; 0 if nowhere.
std::size_t BlockReader::cut_of_pending() const {
  const std::string_view text = pending_;
  if (file_->format == TextFormat::text) return last_cut_(text.substr(0, whole_code_points(text)));
  return text.rfind('\n') + 1;  // npos + 1 is 0
}

bool BlockReader::next(TextBlock& block) {
  while (!bytes_ || (at_end_ && pending_.empty())) {
    if (bytes_ && !begun_) empty_files_.push_back(file_->name());
    if (!open_next_file()) return false;
    grow(block_bytes);
    if (pending_.starts_with(byte_order_mark)) pending_.erase(0, byte_order_mark.size());
  }
  std::size_t cut = 0;
  while (!at_end_ && (cut = cut_of_pending()) == 0) {
    if (pending_.size() >= longest_) {
      const char* const what = file_->has_records() ? "a line" : "text that its tokenizer cannot take in parts";
      fail(ExitCode::input, "{}: {} has more than {}", file_->place(line_), what, human_bytes(longest_));
    }
    grow(2 * pending_.size());  // doubled: looking for a cut stays linear
  }
  cut_block(block, cut == 0 ? pending_.size() : cut);
  return true;
}

void BlockReader::cut_block(TextBlock& block, std::size_t size) {
  const bool is_text = file_->format == TextFormat::text;
  block.index = index_++;
  block.file = file_;
  block.first_line = line_;
  std::string rest = pending_.substr(size);  // the shorter part is copied: a block may be one huge line
  pending_.resize(size);
  block.text = std::exchange(pending_, std::move(rest));
  line_ += std::ranges::count(block.text, '\n');
  if (!at_end_) grow(block_bytes);  // so that the last block knows that it is
  block.begins_document = is_text && !begun_;
  block.ends_document = is_text && at_end_ && pending_.empty();
  if (is_text) hash_.add(block.text);
  block.document_hash = block.ends_document ? hash_.digest() : Hash128{};
  begun_ = true;
}

void require_utf8(const TextBlock& block) {
  if (simdjson::validate_utf8(block.text.data(), block.text.size())) return;
  const std::size_t bad = first_invalid_utf8(block.text).value_or(0);
  const auto lines = std::count(block.text.begin(), block.text.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
  throw Error(ExitCode::input,
              fmt::format("{}:{}: not valid UTF-8 (byte 0x{:02X})", block.file->name(), block.first_line + lines,
                          static_cast<unsigned char>(block.text[bad])),
              "convert the file, for example with iconv");
}

}  // namespace lockstep
