#include "program/layout_text.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "program/step_program.hpp"
#include "report/table.hpp"

#include <algorithm>

namespace lockstep {

namespace {

std::string mesh_text(const Mesh& mesh) {
  std::string text = counted(world_size(mesh), "rank");
  for (const Axis& axis : mesh.axes)
    text += fmt::format("{} {} {}", &axis == &mesh.axes.front() ? ":" : " x", axis.name, axis.size);
  return text;
}

std::string_view held_whole(StateShape of) {
  switch (of) {
    case StateShape::elements: return "";
    case StateShape::rows: return " of all rows";
    case StateShape::columns: return " of all columns";
  }
  fail(ExitCode::bug, "unknown StateShape {}", static_cast<int>(of));
}

/// What of a tensor is kept: "weights fp32, gradient fp32, exp_avg fp32".
std::string kept_text(const UnitTypes& types) {
  std::string text = fmt::format("weights {}, gradient {}", name_of(types.kept()), name_of(types.master));
  if (types.compute != types.kept())
    text = fmt::format("weights {} and {}, gradient {}", name_of(types.kept()), name_of(types.compute),
                       name_of(types.master));
  std::vector<std::string> ways;
  for (const std::vector<StateDescription>& kept : types.states) {
    std::string& way = ways.emplace_back();
    for (const StateDescription& state : kept)
      way += fmt::format(", {} {}{}", state.name, name_of(state.dtype), held_whole(state.of));
  }
  std::erase(ways, "");
  return text + join(ways, ", or");
}

/// A rank of each box, in the order of the boxes.
std::vector<Rank> owners_of(const Layout& layout) {
  Rank first = 0;
  for (const Pin& pin : layout.pins) first += pin.coordinates.front() * find_axis(layout.mesh, pin.axis)->stride;
  std::vector<AxisName> axes;
  for (const Split& split : layout.splits) axes.insert(axes.end(), split.axes.begin(), split.axes.end());
  std::vector<Rank> owners = group_along(layout.mesh, first, axes);
  std::erase_if(owners, [&](Rank rank) { return empty(box_of(layout, rank)); });
  return owners;
}

}  // namespace

std::vector<TensorLayout> tensor_layouts(const Mesh& mesh, const ModelPlan& plan,
                                         const std::vector<ParameterPlan>& parameters, const UnitTypes& types,
                                         const std::vector<PipelinePart>& parts) {
  std::vector<TensorLayout> tensors;
  for (std::size_t index = 0; index < plan.units.size(); ++index) {
    const UnitPlan& unit = plan.units[index];
    std::vector<Pin> pins;
    if (parts.size() > 1) {
      Pin pin{.axis = pipeline_axis, .coordinates = {}};
      for (std::size_t part = 0; part < parts.size(); ++part)
        if (std::ranges::binary_search(parts[part].units, static_cast<int>(index)))
          pin.coordinates.push_back(static_cast<int>(part));
      pins.push_back(std::move(pin));
    }
    for (const int parameter : unit.parameters) {
      const ParameterPlan& of = parameters[static_cast<std::size_t>(parameter)];
      std::vector<Split> splits;
      if (of.cut) splits.push_back(*of.cut);
      if (unit.is_cut()) splits.push_back({.axes = unit.shard_axes, .dim = 0});
      tensors.push_back({of.name, unit.name, {of.shape, types.kept(), mesh, splits, pins}});
    }
  }
  return tensors;
}

std::string layout_text(const std::vector<TensorLayout>& tensors, const UnitTypes& types, std::optional<Rank> rank) {
  constexpr std::size_t most_boxes = 8, first_boxes = 3;
  invariant(!tensors.empty(), "a model has at least one tensor");
  const Mesh& mesh = tensors.front().layout.mesh;
  if (rank && *rank >= world_size(mesh))
    fail(ExitCode::usage, "the plan has no rank {}: its ranks are 0 to {}", *rank, world_size(mesh) - 1);
  std::string text =
      fmt::format("layout of {}\nfor its box of each tensor a rank keeps: {}\n", mesh_text(mesh), kept_text(types));
  Table table({{"tensor"}, {"shape"}, {"unit"}, {"box"}, {"ranks"}});
  for (const TensorLayout& tensor : tensors) {
    const Layout& layout = tensor.layout;
    const auto add = [&](const Box& box, const std::string& ranks) {
      table.add({tensor.name, to_text(layout.global), tensor.unit, to_text(box), ranks});
    };
    if (rank) {
      const Box box = box_of(layout, *rank);
      if (!empty(box)) add(box, fmt::to_string(*rank));
      continue;
    }
    const std::vector<Rank> owners = owners_of(layout);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (owners.size() > most_boxes && i == first_boxes) {
        i = owners.size() - 1;
        table.add({"", "", "", fmt::format("… {} boxes", owners.size()), ""});
      }
      add(box_of(layout, owners[i]), to_text(replicas_of(layout, owners[i])));
    }
  }
  return text + table.text();
}

}  // namespace lockstep
