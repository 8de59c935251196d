// Parquet and Arrow files as JSON lines, through a plug-in that is opened for them alone: lockstep-tables.so, which
// links the libraries of the pyarrow wheel. Programs neither link nor load it otherwise.
#pragma once

#include "corpus/byte_reader.hpp"
#include "corpus/input_files.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep {

/// What the plug-in offers: plain C, so that it may be built by another compiler. A call that fails writes why into
/// `problem`, of `room` bytes, with a zero at the end.
struct TablePlugin {
  static constexpr int version_here = 1;
  static constexpr const char* entry = "lockstep_tables";  // const TablePlugin* lockstep_tables()

  int version = version_here;
  /// Null on failure.
  void* (*open)(const char* path, bool parquet, char* problem, std::size_t room) = nullptr;
  /// JSON lines, as many as there is memory for at `out`; 0 at the end, −1 on failure.
  std::int64_t (*read)(void* table, char* out, std::size_t bytes, char* problem, std::size_t room) = nullptr;
  std::uint64_t (*consumed)(const void* table) = nullptr;  // bytes of the file, about
  void (*close)(void* table) = nullptr;
};

/// The rows of a file of format parquet or arrow (a file or a stream), one object a line, columns in their order.
/// Binary values are text where they are UTF-8, else null; columns of unions and of binary values of one size are left
/// out. Throws Error(input) naming the file if it is none, is damaged, or this build lacks the plug-in.
std::unique_ptr<ByteReader> open_table(const InputFile& file);

}  // namespace lockstep
