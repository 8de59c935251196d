#include "store/layout_json.hpp"

#include "base/error.hpp"
#include "base/json.hpp"

#include <algorithm>

namespace lockstep {

namespace {

// Runs `read`, turning the JSON library's complaints into one of ours.
template <class Read>
auto reading(const std::string& origin, std::string_view what, Read read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::input, "{}: malformed {}: {}", origin, what, error.what());
  }
}

// The list under `key`; empty where it was left out.
const Json& entries(const Json& value, const char* key) {
  static const Json none = Json::array();
  const auto found = value.find(key);
  return found == value.end() ? none : *found;
}

}  // namespace

Json to_json(const Mesh& mesh) {
  Json axes = Json::array();
  for (const Axis& axis : mesh.axes) axes.push_back({{"name", axis.name}, {"size", axis.size}, {"stride", axis.stride}});
  return {{"id", mesh.id}, {"axes", std::move(axes)}};
}

Mesh mesh_from_json(const Json& value, const std::string& origin) {
  return reading(origin, "mesh", [&] {
    Mesh mesh{value.at("id"), {}};
    for (const Json& axis : value.at("axes")) {
      mesh.axes.push_back({axis.at("name"), axis.at("size"), axis.at("stride")});
      if (mesh.axes.back().size < 1 || mesh.axes.back().stride < 1) fail(ExitCode::input, "{}: axis {} has no positive size and stride", origin, mesh.axes.back().name);
    }
    return mesh;
  });
}

Json to_json(const Layout& layout) {
  Json result = {{"shape", layout.global}, {"dtype", name_of(layout.dtype)}, {"mesh", layout.mesh.id}};
  for (const Split& split : layout.splits) {
    Json entry = {{"axes", split.axes}, {"dim", split.dim}};
    if (split.granule != 1) entry["granule"] = split.granule;
    if (split.parts != 0) entry["parts"] = split.parts;
    result["splits"].push_back(std::move(entry));
  }
  for (const Pin& pin : layout.pins) result["pins"].push_back({{"axis", pin.axis}, {"coordinates", pin.coordinates}});
  return result;
}

Layout layout_from_json(const Json& value, const std::vector<Mesh>& meshes, const std::string& origin) {
  return reading(origin, "layout", [&] {
    Layout layout;
    layout.global = value.at("shape").get<Shape>();
    const std::string dtype = value.at("dtype");
    const auto parsed = parse_dtype(dtype);
    if (!parsed) fail(ExitCode::input, "{}: unknown element type '{}'", origin, dtype);
    layout.dtype = *parsed;
    const std::string id = value.at("mesh");
    const auto mesh = std::find_if(meshes.begin(), meshes.end(), [&](const Mesh& candidate) { return candidate.id == id; });
    if (mesh == meshes.end()) fail(ExitCode::input, "{}: a layout names the mesh '{}', which is not described", origin, id);
    layout.mesh = *mesh;
    for (const Json& split : entries(value, "splits")) {
      layout.splits.push_back({split.at("axes"), split.at("dim"), split.value("granule", std::int64_t{1}), split.value("parts", std::int64_t{0})});
    }
    for (const Json& pin : entries(value, "pins")) layout.pins.push_back({pin.at("axis"), pin.at("coordinates")});
    for (const std::int64_t size : layout.global) {
      if (size < 0) fail(ExitCode::input, "{}: a layout has the negative size {}", origin, size);
    }
    return layout;
  });
}

}  // namespace lockstep
