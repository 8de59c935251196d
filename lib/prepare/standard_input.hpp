// Copies standard input to a file that all ranks can read in parts.
#pragma once

#include "comm/session.hpp"
#include "config/prepare_config.hpp"
#include "readers/input_files.hpp"

#include <optional>

namespace lockstep {

/// Returns the text format of an input format; nothing for a format of token files.
std::optional<TextFormat> text_format_of(InputFormat format);

/// Copies rank 0's standard input into `folder`, which all ranks see. Ranks synchronise every few seconds, so waiting
/// for a slow writer is not a failure. Collective over the session's world. Ends with Error(verdict) on a stop request.
/// Throws Error(input) if standard input is empty, Error(storage).
InputFile copy_standard_input(Session& session, TextFormat format, const Path& folder);

}  // namespace lockstep
