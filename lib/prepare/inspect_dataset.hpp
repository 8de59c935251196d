// Prints some documents of a prepared dataset as text, and the lengths of all of them. Body of prepare-data --inspect.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/prepare_config.hpp"

#include <string>
#include <string_view>

namespace lockstep {

/// Returns `text` safe for a terminal: bytes that are not UTF-8, and control characters except line ends and tabs, as
/// \xNN.
std::string shown_text(std::string_view text);

/// Prints the documents selected by config.samples from the dataset config.inspect on rank 0, and draws config.plot.
/// Collective over the session's world. Throws as open_dataset does, Error(usage) for documents that do not exist,
/// Error(storage).
int inspect_dataset(const PrepareConfig& config, Session& session, Output& output);

}  // namespace lockstep
