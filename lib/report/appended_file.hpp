// A file that only grows at its end. At any moment a reader sees whole appends, except the last one if the process was
// killed.
#pragma once

#include "base/files.hpp"

#include <cstdint>
#include <string_view>

namespace lockstep {

/// All members are Local and throw Error(storage).
class AppendedFile {
 public:
  /// Opens `path` for appending. Creates it if it is absent; it must not be a symbolic link.
  explicit AppendedFile(Path path);

  /// Writes at once. A failed append leaves the size unchanged, so the next one overwrites it.
  void append(std::string_view bytes);
  /// Removes the text after the last newline: a line that a killed run has only written in part.
  void drop_torn_line();
  std::uint64_t size() const { return size_; }
  /// Synchronises with the disk, so that all appends survive a crash of the machine, and closes the file.
  void close();

 private:
  Path path_;
  FileDescriptor file_;
  std::uint64_t size_ = 0;
};

}  // namespace lockstep
