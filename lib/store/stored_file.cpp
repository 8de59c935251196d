#include "store/stored_file.hpp"

#include "base/error.hpp"

#include <sys/stat.h>

#include <optional>
#include <utility>

namespace lockstep {

FileDescriptor open_stored(const Path& path) {
  std::optional<FileDescriptor> file = open_if_there(path);
  if (!file) fail(ExitCode::storage, "cannot open {}: no such file", path.string());
  return std::move(*file);
}

std::string not_here(const Path& file, const std::string& node) {
  return fmt::format("{} is not here: {} wrote it to its own storage", file.string(), node);
}

std::string gather_hint() {
  return "copy this checkpoint's files from all nodes into one folder: files of the same name are identical";
}

std::string read_stored(const Path& path) {
  const FileDescriptor file = open_stored(path);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail_errno("access", path);
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
