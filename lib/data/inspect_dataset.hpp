// A look into a prepared dataset: some of its documents as text, and how long all of them are. The body of prepare-data
// --inspect.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/prepare_config.hpp"

#include <string>
#include <string_view>

namespace lockstep {

/// `text` as a terminal may show it: bytes that are not UTF-8 and control characters but line ends as \xNN.
std::string shown_text(std::string_view text);

/// Prints what config.samples asks for of the dataset config.inspect on rank 0, and draws config.plot. Collective over
/// the session's world. Throws as open_dataset does, Error(usage) for documents that there are not, Error(storage).
int inspect_dataset(const PrepareConfig& config, Session& session, Output& output);

}  // namespace lockstep
