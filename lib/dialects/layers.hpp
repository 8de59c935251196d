// Merges configuration files. Each file stands on the presets that it names; all files have the same dialect and are
// merged in its vocabulary.
#pragma once

#include "dialects/dialect.hpp"
#include "options/document.hpp"
#include "options/problems.hpp"

#include <string>
#include <vector>

namespace lockstep {

struct Layers {
  Node document;                     // a map, without the keys dialect and preset
  const Dialect* dialect = nullptr;  // nullptr: Lockstep's own vocabulary
};

/// Loads `files` in order; later files override earlier ones. A file names presets with "preset: FILE" or a list. A
/// preset is a path relative to the file, or the name of a dialect's defaults. `named` is the dialect of the command
/// line (empty: none). If neither states a dialect, it is the one that knows the most keys, provided `canonical` holds
/// the options of all programs. Unreadable files and different dialects become problems. Local.
Layers load_layers(const std::vector<std::string>& files, const std::string& named, const Declaration* canonical,
                   Problems& problems);

/// Returns the document in the canonical vocabulary. Local, pure.
Node canonical_document(Layers layers, Problems& problems);

}  // namespace lockstep
