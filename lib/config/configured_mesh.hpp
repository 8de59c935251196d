// The mesh that a configuration of train asks for, for a program that lays state out as such a job does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct ConfiguredMesh {
  std::vector<std::pair<std::string, std::int64_t>> axes;  // as parallel.* names them, with their ranks; 0: auto
  std::optional<bool> ep_outside = {};                     // as parallel.ep_outside
};

/// Reads a configuration file of train with its presets; options that say nothing of the mesh are passed over. Local.
/// Throws Error(usage) naming what is wrong with the file, and for an option by which a job would lay its state out in
/// a way that no mesh alone tells.
ConfiguredMesh read_configured_mesh(const std::string& path);

}  // namespace lockstep
