// Reads files of a format that a plug-in knows (lockstep_reader of plugin/lockstep_plugin.h) as JSON lines. The
// extension of a file selects the plug-in's reader.
#pragma once

#include "readers/byte_reader.hpp"
#include "readers/input_files.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// The number of the reader for files with this extension in the registry (plugin/plugins.hpp); nothing if there is
/// none.
std::optional<std::size_t> plugin_reader_of(std::string_view extension);

/// Identifies the reader, its version and its plug-in, which decide the records that it reads from a file.
std::string identity_of_reader(std::size_t reader);

/// The records of a file of format plugin, one object a line. If the plug-in gives texts, each becomes an object with
/// the field text. A record that is not valid UTF-8 becomes a problem line (readers/record_lines.hpp). Throws
/// Error(input) naming the file if the plug-in fails, or if the file is not on this machine.
std::unique_ptr<ByteReader> open_by_plugin(const InputFile& file);

}  // namespace lockstep
