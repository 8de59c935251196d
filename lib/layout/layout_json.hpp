// Meshes and layouts as JSON in files. They are symbolic, with every axis, so that a reader needs neither the
// configuration nor the ranks of the writer. A file lists its meshes once; layouts refer to them by name.
#pragma once

#include "base/json_fwd.hpp"
#include "layout/layout.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// {"id": "world", "axes": [{"name": "dp_shard", "size": 4, "stride": 1}, …]}
Json to_json(const Mesh& mesh);
/// {"global": [9, 4], "dtype": "fp32", "mesh": "world",
///  "splits": [{"axes": ["dp_shard"], "dim": 0, "granule": 1, "parts": 0}, …],
///  "pins": [{"axis": "pp", "coordinates": [0]}, …]}, and "known": [36] of a view.
Json to_json(const Layout& layout);

/// Throws Error(input), without an origin, for an impossible shape: a negative extent, or more bytes than 63 bits can
/// count.
void check_shape(const Shape& shape);

/// The inverses. Throw Error(input) "<origin>: …" if something is missing, unknown or inconsistent (by check()).
Mesh mesh_from_json(const Json& json, const std::string& origin);
Layout layout_from_json(const Json& json, const std::vector<Mesh>& meshes, const std::string& origin);

}  // namespace lockstep
