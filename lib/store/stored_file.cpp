#include "store/stored_file.hpp"

#include "base/error.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace lockstep {

std::optional<std::uint64_t> length_of(const Path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) return static_cast<std::uint64_t>(status.st_size);
  if (errno != ENOENT && errno != ENOTDIR) fail_errno("look at", path);
  return std::nullopt;
}

FileDescriptor open_stored(const Path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a FIFO is not waited for
  if (file.get() < 0) fail_errno("open", path);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail_errno("look at", path);
  if (!S_ISREG(status.st_mode)) fail(ExitCode::input, "{} is not a file", path.string());
  return file;
}

std::string read_stored(const Path& path) {
  const FileDescriptor file = open_stored(path);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail_errno("look at", path);
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  read_stored(file, std::as_writable_bytes(std::span(content)), 0, path);
  return content;
}

void read_stored(const FileDescriptor& file, std::span<std::byte> bytes, std::uint64_t offset, const Path& path) {
  try {
    read_at(file, bytes, offset, path);
  } catch (const Error& error) {  // a file that ends early had its length a moment ago
    fail(ExitCode::storage, "{}", error.what());
  }
}

}  // namespace lockstep
