// Standard input as a file that all ranks can read in parts.
#pragma once

#include "comm/session.hpp"
#include "config/prepare_config.hpp"
#include "corpus/input_files.hpp"

#include <optional>

namespace lockstep {

/// What a format of text is; nothing for one of token files.
std::optional<TextFormat> text_format_of(InputFormat format);

/// Copies all of rank 0's standard input into `folder`, which all ranks see. They meet every few seconds: waiting for a
/// slow writer is no failure. Collective over the session's world. Ends with Error(verdict) on a request to stop;
/// throws Error(input) if it is empty, Error(storage).
InputFile copy_standard_input(Session& session, TextFormat format, const Path& folder);

}  // namespace lockstep
