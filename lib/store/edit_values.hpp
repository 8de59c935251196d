// Edits a checkpoint's small values into a new checkpoint; the source is never changed. Only the part with the value,
// INDEX.h5 and MANIFEST.json are written again; the other parts are shared. The manifest's document "edits" records
// each edit as a line of JSON, oldest first.
#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "store/checkpoint_reader.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

inline constexpr std::string_view edits_document = "edits";

struct Edited {
  Json entry;              // the new line of "edits": time, component, key, old, new, user, software, source
  std::size_t linked = 0;  // parts that are hard links to those of the source
  std::size_t copied = 0;  // parts that were copied because the file system cannot link them
};

/// Writes `output`: the source with another value for `name`, "COMPONENT.KEY"; a key may lead into a value that is an
/// object. A value keeps its kind: text stays text, an integer stays an integer. Throws Error(usage) for an unknown
/// name, with the nearest one, for a value of another kind, for a value that cannot be edited, or if `output` exists.
/// Throws Error(input) for damage in the source, Error(storage). `output` appears whole or not at all.
Edited write_edited(const CheckpointReader& source, const std::string& name, const Json& value, const Path& output);

/// Returns the edits that made this checkpoint from a saved one. Throws Error(input) if they are malformed.
std::vector<Json> edits_of(const Manifest& manifest);

}  // namespace lockstep
