// Files of a form that a plug-in reads (lockstep_reader of plugin/lockstep_plugin.h), known by the end of their names,
// as JSON lines.
#pragma once

#include "corpus/byte_reader.hpp"
#include "corpus/input_files.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Of the registry (plugin/plugins.hpp) the reader of files with that extension, if there is one.
std::optional<std::size_t> plugin_reader_of(std::string_view extension);

/// All that decides what it gives of a file.
std::string identity_of_reader(std::size_t reader);

/// The records of a file of format plugin, one object a line; a text is one with the field text. What is no record is a
/// problem line (corpus/record_lines.hpp). Throws Error(input) naming the file where the plug-in fails, or the file is
/// none of this machine.
std::unique_ptr<ByteReader> open_by_plugin(const InputFile& file);

}  // namespace lockstep
