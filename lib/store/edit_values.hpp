// Edits of a checkpoint's small values: a new checkpoint beside the one that was saved, which is never touched. Only
// the part with the value, INDEX.h5 and MANIFEST.json are written anew; the other parts are shared. The manifest's
// document "edits" says who changed what: a line of JSON for each edit, oldest first.
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
  std::size_t linked = 0;  // parts that are one file with those of the source
  std::size_t copied = 0;  // parts that are not, where the file system links none
};

/// Writes `output`: the source with another value under `name`, "COMPONENT.KEY", where a key may lead into a value that
/// is an object. A value keeps its kind: text stays text, an integer an integer. Throws Error(usage) for a name that
/// there is not, with the nearest; for a value of another kind; for what cannot be edited; if `output` is taken.
/// Throws Error(input) for damage in the source, Error(storage). `output` appears whole or not at all.
Edited write_edited(const CheckpointReader& source, const std::string& name, const Json& value, const Path& output);

/// The edits that made a checkpoint of one that was saved. Throws Error(input) if they are malformed.
std::vector<Json> edits_of(const Manifest& manifest);

}  // namespace lockstep
