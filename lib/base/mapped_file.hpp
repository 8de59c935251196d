// Errors of mapped files. A page that the system cannot read, because the file was cut short or its disk or server
// failed, raises SIGBUS in the thread that touches it. The handler here maps zeros in its place and notes the loss, and
// the reader asks afterwards whether the bytes that it read were those of the file. MappedFile: base/files.hpp.
#pragma once

#include "base/error.hpp"
#include "base/files.hpp"

#include <type_traits>

namespace lockstep {

/// Installs the handler of SIGBUS, also over one that a library installed meanwhile. A fault outside of mapped files is
/// reported in one line on standard error and then ends the process as without the handler. Mapping a file calls this.
/// Local.
void handle_bus_errors();

/// Throws Error(storage), with the file and the lost bytes, if a page could not be read since the file was mapped, or
/// if the file is shorter now. Readers call it after each read. Local; from any thread.
void require_intact(const MappedFile& file);

/// Returns the result of `read`, which reads bytes of the file. Throws as require_intact does, also in place of an
/// Error that `read` threw over zeros. Local; from any thread.
template <class Read>
auto read_mapped(const MappedFile& file, const Read& read) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Read>>) {
      read();
      require_intact(file);
    } else {
      auto result = read();
      require_intact(file);
      return result;
    }
  } catch (const Error&) {
    require_intact(file);
    throw;
  }
}

}  // namespace lockstep
