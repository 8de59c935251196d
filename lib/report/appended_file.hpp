// A file that grows at its end, with what a reader may see at any moment: whole appends, but for the last one of a
// process that was killed.
#pragma once

#include "base/files.hpp"

#include <cstdint>
#include <string_view>

namespace lockstep {

/// All members are Local and throw Error(storage).
class AppendedFile {
 public:
  /// Goes on at the end of `path`, which is made if it is not there and must not be a symbolic link.
  explicit AppendedFile(Path path);

  /// Writes at once. What fails leaves the size as it was: the next append takes its place.
  void append(std::string_view bytes);
  /// Drops what follows the last newline: the line that a killed run left half written.
  void drop_torn_line();
  std::uint64_t size() const { return size_; }
  /// Lets all that was appended survive a crash of the machine.
  void close();

 private:
  Path path_;
  FileDescriptor file_;
  std::uint64_t size_ = 0;
};

}  // namespace lockstep
