// Layouts as checkpoints keep them: symbolic (mesh, splits, pins), so that another mesh can be applied without the old configuration.
#pragma once

#include "base/json_fwd.hpp"
#include "layout/layout.hpp"

#include <string>
#include <vector>

namespace lockstep {

Json to_json(const Mesh& mesh);
/// Throws Error(input) naming `origin` for a malformed value.
Mesh mesh_from_json(const Json& value, const std::string& origin);

/// {"shape", "dtype", "mesh": id, "splits", "pins"}; empty parts are left out.
Json to_json(const Layout& layout);
/// The mesh is looked up by its id among `meshes`. Throws Error(input) naming `origin`.
Layout layout_from_json(const Json& value, const std::vector<Mesh>& meshes, const std::string& origin);

}  // namespace lockstep
