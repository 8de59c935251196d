// NoRoom is the error of storage that is full: the disk, or a quota, which the free space of the file system does not
// show.
#pragma once

#include "base/error.hpp"

#include <string>

namespace lockstep {

class NoRoom : public Error {
 public:
  explicit NoRoom(const std::string& message) : Error(ExitCode::storage, message) {}
};

}  // namespace lockstep
