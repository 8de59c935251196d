// Configuration files, each upon the presets that it names, put over one another in the words of the one dialect that
// all of them have.
#pragma once

#include "config/dialect.hpp"
#include "config/document.hpp"
#include "config/problems.hpp"

#include <string>
#include <vector>

namespace lockstep {

struct Layers {
  Node document;                     // a map, without the keys dialect and preset
  const Dialect* dialect = nullptr;  // null: Lockstep's own vocabulary
};

/// `files` in order, later ones over earlier ones. A file names presets with "preset: FILE", or a list of them,
/// relative to itself, or by the name of a dialect's built-in values. A dialect that no file names is inferred where
/// `canonical` has the options of all programs; `named` (empty: none) is the one that the command line names. Files
/// that cannot be read, and different dialects, become problems. Local.
Layers load_layers(const std::vector<std::string>& files, const std::string& named, const Declaration* canonical,
                   Problems& problems);

/// The document in the canonical vocabulary. Local, pure.
Node canonical_document(Layers layers, Problems& problems);

}  // namespace lockstep
