#include "report/appended_file.hpp"

#include "base/error.hpp"
#include "base/own_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace lockstep {

namespace {

FileDescriptor open_own(const Path& path) {
  refuse_link(path);
  return open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW);
}

}  // namespace

AppendedFile::AppendedFile(Path path) : path_(std::move(path)), file_(open_own(path_)) {
  const off_t end = ::lseek(file_.get(), 0, SEEK_END);
  if (end < 0) fail_errno("open", path_.string());
  size_ = static_cast<std::uint64_t>(end);
}

void AppendedFile::append(std::string_view bytes) {
  write_at(file_, std::as_bytes(std::span(bytes)), size_, path_);
  size_ += bytes.size();
}

void AppendedFile::drop_torn_line() {
  constexpr std::uint64_t block = 1 << 16;
  std::uint64_t end = size_;
  while (end > 0) {
    const std::uint64_t begin = end > block ? end - block : 0;
    std::string bytes(end - begin, '\0');
    read_at(file_, std::as_writable_bytes(std::span(bytes)), begin, path_);
    const std::size_t newline = bytes.rfind('\n');
    end = newline == std::string::npos ? begin : begin + newline + 1;
    if (newline != std::string::npos) break;
  }
  if (end == size_) return;
  if (::ftruncate(file_.get(), static_cast<off_t>(end)) != 0) fail_errno("truncate", path_.string());
  size_ = end;
}

void AppendedFile::close() {
  sync_file(file_, path_);
  file_.close(path_);
}

}  // namespace lockstep
