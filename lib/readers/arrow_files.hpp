// Opens files of this machine and objects of object stores through Arrow. Only the plug-in lockstep-tables.so includes
// this header.
#pragma once

#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep {

inline void require_ok(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}
template <class T>
T value_of(arrow::Result<T> result) {
  require_ok(result.status());
  return std::move(result).ValueUnsafe();
}

/// Copies the first line of `what` into `problem`, cut to `room` bytes including the final zero.
inline void copy_error_message(char* problem, std::size_t room, const char* what) {
  std::strncpy(problem, what, room - 1);
  problem[room - 1] = '\0';
  if (char* const end = std::strchr(problem, '\n')) *end = '\0';
}

/// Opens a file by path or URI. Throws std::runtime_error.
std::shared_ptr<arrow::io::RandomAccessFile> open_to_read(const std::string& name);

}  // namespace lockstep
