// The mesh that a train configuration requests, for programs that lay out state as such a job does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct ConfiguredMesh {
  std::vector<std::pair<std::string, std::int64_t>> axes;  // as in parallel.*, with their ranks; 0: auto
  std::optional<bool> ep_outside = {};                     // as in parallel.ep_outside
};

/// Reads a train configuration file with its presets; options without effect on the mesh are ignored. Local. Throws
/// Error(usage) for errors in the file, and for an option that changes the layout of state beyond the sizes of mesh
/// axes.
ConfiguredMesh read_configured_mesh(const std::string& path);

}  // namespace lockstep
