#include "readers/line_maker.hpp"

#include "readers/foreign_content.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep {

LineMaker::LineMaker(std::unique_ptr<ByteReader> bytes, std::string file)
    : file_(std::move(file)), bytes_(std::move(bytes)), buffer_(std::size_t{1} << 18) {}

std::size_t LineMaker::read(std::span<char> out) {
  while (given_ == lines_.size()) {
    lines_.clear();
    given_ = 0;
    if (ended_) return 0;
    parse_next();
  }
  const std::size_t count = std::min(out.size(), lines_.size() - given_);
  std::memcpy(out.data(), lines_.data() + given_, count);
  given_ += count;
  return count;
}

void LineMaker::parse_next() {
  const std::size_t got = bytes_->read(buffer_);
  if (got == 0) {
    ended_ = true;
    return end();
  }
  std::string_view text(buffer_.data(), got);
  if (at_begin_) {
    at_begin_ = false;
    refuse_foreign_content(text, file_);
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark; readers fill what they are given
  }
  while (!text.empty()) text = taken(text);
}

}  // namespace lockstep
