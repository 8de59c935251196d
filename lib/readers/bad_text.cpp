#include "readers/bad_text.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace lockstep {

LineCounter::LineCounter(std::function<void()> alive) : alive_(std::move(alive)) {}

std::int64_t LineCounter::line_at(const InputFile& file, std::uint64_t offset) {
  constexpr std::uint64_t at_once = std::uint64_t{1} << 20;
  if (file_ != &file || offset < position_) {
    file_ = &file;
    bytes_ = open_bytes(file);
    position_ = 0;
    line_ = 1;
  }
  std::vector<char> buffer(static_cast<std::size_t>(std::min(at_once, offset - position_)));
  while (position_ < offset) {
    if (alive_) alive_();
    const auto part = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), offset - position_));
    const std::size_t got = bytes_->read(part);
    if (got == 0) break;  // the file became shorter
    line_ += std::ranges::count(part.first(got), '\n');
    position_ += got;
  }
  return line_;
}

Error error_of(const BadText& bad, LineCounter& lines) {
  const std::string place = bad.offset ? bad.file->place(lines.line_at(*bad.file, *bad.offset)) : bad.file->name();
  return {ExitCode::input, fmt::format("{}: {}", place, bad.reason), bad.hint};
}

}  // namespace lockstep
