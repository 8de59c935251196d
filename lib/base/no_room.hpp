// NoRoom is the error of storage that takes no more: a disk that is full, or a quota that is used up, of which the free
// space of the file system tells nothing.
#pragma once

#include "base/error.hpp"

#include <string>

namespace lockstep {

class NoRoom : public Error {
 public:
  explicit NoRoom(const std::string& message) : Error(ExitCode::storage, message) {}
};

}  // namespace lockstep
