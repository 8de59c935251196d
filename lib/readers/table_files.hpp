// Reads Parquet and Arrow files as JSON lines, through the plug-in lockstep-tables.so, which links the libraries of the
// pyarrow wheel. Programs do not link it, and load it only to read such files or object stores
// (readers/object_store.hpp).
#pragma once

#include "readers/byte_reader.hpp"
#include "readers/input_files.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep {

/// The functions of the plug-in, in plain C so that another compiler may build it. A call that fails writes the reason
/// into `problem`, which has `room` bytes, with a final zero.
struct TablePlugin {
  static constexpr int version_here = 1;
  static constexpr const char* entry = "lockstep_tables";  // const TablePlugin* lockstep_tables()

  int version = version_here;
  /// Null on failure.
  void* (*open)(const char* path, bool parquet, char* problem, std::size_t room) = nullptr;
  /// Copies the next bytes of the JSON lines to `out`, at most `bytes`. Returns their number; 0 at the end, −1 on
  /// failure.
  std::int64_t (*read)(void* table, char* out, std::size_t bytes, char* problem, std::size_t room) = nullptr;
  std::uint64_t (*consumed)(const void* table) = nullptr;  // bytes of the file, approximately
  void (*close)(void* table) = nullptr;
};

/// The rows of a file of format parquet or arrow (an Arrow file or stream), one object a line, columns in their order.
/// Binary values become text if they are UTF-8, otherwise null. Columns of unions and of fixed-size binary values are
/// skipped. Throws Error(input) naming the file if it has another format, if it is damaged, or if this build lacks the
/// plug-in.
std::unique_ptr<ByteReader> open_table(const InputFile& file);

}  // namespace lockstep
