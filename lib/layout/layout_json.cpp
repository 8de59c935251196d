#include "layout/layout_json.hpp"

#include "base/error.hpp"
#include "base/json_form.hpp"
#include "base/json_integer.hpp"
#include "base/words.hpp"

#include <algorithm>

namespace lockstep {

namespace {

Json to_json(const Split& split) {
  return {{"axes", split.axes}, {"dim", split.dim}, {"granule", split.granule}, {"parts", split.parts}};
}

Json to_json(const Pin& pin) { return {{"axis", pin.axis}, {"coordinates", pin.coordinates}}; }

Split split_from_json(const Json& json) {
  return {json.at("axes").get<std::vector<AxisName>>(), integer_from<int>(json.at("dim")),
          integer_from<std::int64_t>(json.at("granule")), integer_from<std::int64_t>(json.at("parts"))};
}

Layout read_layout(const Json& json, const std::vector<Mesh>& meshes) {
  Layout layout;
  layout.global = integers_from<std::int64_t>(json.at("global"));
  check_shape(layout.global);
  if (json.contains("known")) layout.known = integers_from<std::int64_t>(json.at("known"));
  check_shape(layout.known);
  const auto dtype = json.at("dtype").get<std::string>();
  const auto parsed = parse_dtype(dtype);
  if (!parsed) fail(ExitCode::input, "unknown dtype {}", dtype);
  layout.dtype = *parsed;
  const auto id = json.at("mesh").get<std::string>();
  const auto mesh =
      std::find_if(meshes.begin(), meshes.end(), [&](const Mesh& candidate) { return candidate.id == id; });
  if (mesh == meshes.end()) fail(ExitCode::input, "unknown mesh {}", id);
  layout.mesh = *mesh;
  for (const Json& split : json.at("splits")) layout.splits.push_back(split_from_json(split));
  for (const Json& pin : json.at("pins"))
    layout.pins.push_back({pin.at("axis").get<std::string>(), integers_from<int>(pin.at("coordinates"))});
  constexpr std::int64_t largest_granule = std::int64_t{1} << 40;  // so that rounding up to it does not overflow
  for (const Split& split : layout.splits) {
    if (split.granule > largest_granule)
      fail(ExitCode::input, "a split has granule {}, but the largest is {}", split.granule, largest_granule);
  }
  check(layout);
  return layout;
}

/// Each rank has coordinates of its own, and they are those of no other number.
void check_places(const std::string& mesh, std::vector<Axis> axes) {
  std::erase_if(axes, [](const Axis& axis) { return axis.size == 1; });
  std::ranges::sort(axes, {}, &Axis::stride);
  int stride = 1;
  for (const Axis& axis : axes) {
    if (axis.stride != stride)
      fail(ExitCode::input, "axis {} of mesh {} has stride {}, but the axes of smaller stride have {}", axis.name, mesh,
           axis.stride, counted(stride, "rank"));
    stride *= axis.size;
  }
}

std::vector<Axis> read_axes(const std::string& mesh, const Json& json) {
  std::vector<Axis> axes;
  int ranks = 1;
  for (const Json& axis : json) {
    const Axis read{axis.at("name").get<std::string>(), integer_from<int>(axis.at("size")),
                    integer_from<int>(axis.at("stride"))};
    if (read.size < 1 || read.stride < 1)
      fail(ExitCode::input, "axis {} has size {} and stride {}, but both must be at least 1", read.name, read.size,
           read.stride);
    if (std::ranges::find(axes, read.name, &Axis::name) != axes.end())
      fail(ExitCode::input, "mesh {} names axis {} twice", mesh, read.name);
    constexpr int most_ranks = 1 << 18;  // a damaged number must not become an allocation
    if (__builtin_mul_overflow(ranks, read.size, &ranks) || ranks > most_ranks)
      fail(ExitCode::input, "mesh {} has too many ranks", mesh);
    axes.push_back(read);
  }
  check_places(mesh, axes);
  return axes;
}

Mesh read_mesh(const Json& json) {
  Mesh mesh{.id = json.at("id").get<std::string>(), .axes = {}};
  mesh.axes = read_axes(mesh.id, json.at("axes"));
  if (!json.contains("expert_axes")) return mesh;
  mesh.expert_axes = read_axes(mesh.id, json.at("expert_axes"));
  const int ranks = world_size(mesh), of_experts = world_size({.id = {}, .axes = mesh.expert_axes});
  if (ranks != of_experts)
    fail(ExitCode::input, "mesh {} has {} ranks by its axes, but {} by its expert axes", mesh.id, ranks, of_experts);
  return mesh;
}

/// What `read` gives; its errors and those of the JSON library become one kind that names the origin.
template <class Read>
auto read_from(const std::string& origin, Read&& read) {
  try {
    return read();
  } catch (const Error& error) {
    fail(ExitCode::input, "{}: {}", origin, error.what());
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::input, "{}: not a layout or mesh: {}", origin, form_problem(error));
  }
}

}  // namespace

void check_shape(const Shape& shape) {
  std::int64_t bytes = 8;
  for (const std::int64_t extent : shape) {
    if (extent < 0) fail(ExitCode::input, "shape {} has a negative extent", to_text(shape));
    if (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes))
      fail(ExitCode::input, "shape {} has too many elements", to_text(shape));
  }
}

Json to_json(const Mesh& mesh) {
  const auto array_of = [](const std::vector<Axis>& axes) {
    Json array = Json::array();
    for (const Axis& axis : axes) array.push_back({{"name", axis.name}, {"size", axis.size}, {"stride", axis.stride}});
    return array;
  };
  Json json{{"id", mesh.id}, {"axes", array_of(mesh.axes)}};
  if (!mesh.expert_axes.empty()) json["expert_axes"] = array_of(mesh.expert_axes);
  return json;
}

Json to_json(const Layout& layout) {
  Json splits = Json::array();
  for (const Split& split : layout.splits) splits.push_back(to_json(split));
  Json pins = Json::array();
  for (const Pin& pin : layout.pins) pins.push_back(to_json(pin));
  Json json = {{"global", layout.global},
               {"dtype", name_of(layout.dtype)},
               {"mesh", layout.mesh.id},
               {"splits", splits},
               {"pins", pins}};
  if (!layout.known.empty()) json["known"] = layout.known;
  return json;
}

Mesh mesh_from_json(const Json& json, const std::string& origin) {
  return read_from(origin, [&] { return read_mesh(json); });
}

Layout layout_from_json(const Json& json, const std::vector<Mesh>& meshes, const std::string& origin) {
  return read_from(origin, [&] { return read_layout(json, meshes); });
}

}  // namespace lockstep
