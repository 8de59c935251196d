#include "store/component.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace lockstep {

namespace {

constexpr std::array<std::pair<Pattern, std::string_view>, 5> patterns{{{Pattern::global, "global"},
                                                                        {Pattern::replicated, "replicated"},
                                                                        {Pattern::per_rank, "per_rank"},
                                                                        {Pattern::per_group, "per_group"},
                                                                        {Pattern::per_node, "per_node"}}};
constexpr std::array<std::pair<Validation, std::string_view>, 5> validations{{{Validation::none, "none"},
                                                                              {Validation::quick, "quick"},
                                                                              {Validation::rolling, "rolling"},
                                                                              {Validation::tensor, "tensor"},
                                                                              {Validation::full, "full"}}};
constexpr std::array<std::pair<Remap, std::string_view>, 4> remaps{
    {{Remap::exact, "exact"}, {Remap::derive, "derive"}, {Remap::redistribute, "redistribute"}, {Remap::drop, "drop"}}};

template <class Table, class Value>
std::string_view word_of(const Table& table, Value value) {
  for (const auto& [candidate, word] : table) {
    if (candidate == value) return word;
  }
  return "unknown";
}

template <class Value, std::size_t N>
std::optional<Value> parse_word(const std::array<std::pair<Value, std::string_view>, N>& table, std::string_view name) {
  for (const auto& [value, word] : table) {
    if (word == name) return value;
  }
  return std::nullopt;
}

bool named(const std::vector<AxisName>& axes, const AxisName& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Tells whether the declaration says that ranks which differ along `axis` hold equal state.
bool declared_equal(const Component& component, const AxisName& axis) {
  return component.pattern != Pattern::per_group || named(component.equal_along, axis);
}

// The declaration that fits all logical tensors of the tree: equal along the axes along which every one of them is.
std::string right_group(const StateTree& state) {
  std::vector<AxisName> equal;
  for (const Axis& axis : state.tensors().front().layout.mesh.axes) {
    const bool everywhere = std::all_of(state.tensors().begin(), state.tensors().end(), [&](const StateTensor& tensor) {
      return find_axis(tensor.layout.mesh, axis.name) == nullptr || named(replicated_axes(tensor.layout), axis.name);
    });
    if (everywhere) equal.push_back(axis.name);
  }
  return equal.empty() ? "per_group, equal along no axis" : fmt::format("per_group({})", join(equal, ", "));
}

void check_logical(const Component& component, const StateTree& state) {
  for (const StateTensor& tensor : state.tensors()) {
    const std::vector<AxisName> equal = replicated_axes(tensor.layout);
    for (const Axis& axis : tensor.layout.mesh.axes) {
      if (axis.size == 1 || named(equal, axis.name) || !declared_equal(component, axis.name)) continue;
      const std::string declared = component.pattern == Pattern::per_group
                                       ? fmt::format("per_group({})", join(component.equal_along, ", "))
                                       : std::string(name_of(component.pattern));
      throw Error(
          ExitCode::usage,
          fmt::format("component '{}' is declared {}, but ranks that differ along {} hold different boxes of '{}'",
                      component.key, declared, axis.name, tensor.name),
          fmt::format("declare it {}", right_group(state)));
    }
  }
}

void check_cell_owned(const Component& component, const StateTree& state) {
  for (const StateTensor& tensor : state.tensors()) {
    if (tensor.layout.splits.empty() && tensor.layout.pins.empty()) continue;
    throw Error(
        ExitCode::usage,
        fmt::format(
            "component '{}' is declared {}, so each cell owns whole tensors, but '{}' is sharded over the ranks",
            component.key, name_of(component.pattern), tensor.name),
        fmt::format("declare it {}", right_group(state)));
  }
}

}  // namespace

std::string_view name_of(Pattern pattern) { return word_of(patterns, pattern); }
std::optional<Pattern> parse_pattern(std::string_view name) { return parse_word(patterns, name); }
std::string_view name_of(Validation validation) { return word_of(validations, validation); }
std::optional<Validation> parse_validation(std::string_view name) { return parse_word(validations, name); }
std::string_view name_of(Remap remap) { return word_of(remaps, remap); }
std::optional<Remap> parse_remap(std::string_view name) { return parse_word(remaps, name); }

World single_axis_world(int ranks) { return {make_mesh("world", {{"dp_replicate", ranks}}), {}}; }

std::string cell_of(const Component& component, const World& world, Rank rank) {
  switch (component.pattern) {
    case Pattern::global:
    case Pattern::replicated: return "all";
    case Pattern::per_rank: return fmt::format("rank={}", rank);
    case Pattern::per_group: return cell_name(world.mesh, rank, component.equal_along);
    case Pattern::per_node: break;
  }
  return fmt::format("node={}", world.node_of_rank.empty() ? 0 : world.node_of_rank.at(static_cast<std::size_t>(rank)));
}

std::vector<std::vector<Rank>> cells_of(const Component& component, const World& world) {
  std::vector<std::vector<Rank>> cells;
  std::map<std::string, std::size_t> number;
  for (Rank rank = 0; rank < world_size(world.mesh); ++rank) {
    const auto [cell, is_new] = number.try_emplace(cell_of(component, world, rank), cells.size());
    if (is_new) cells.emplace_back();
    cells[cell->second].push_back(rank);
  }
  return cells;
}

void check(const Component& component, const StateTree& state) {
  const bool word = !component.key.empty() && std::all_of(component.key.begin(), component.key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  invariant(word, fmt::format("the component key '{}' is a lower-case word", component.key));
  for (const StateAlias& alias : state.aliases()) {
    const bool found = std::any_of(state.tensors().begin(), state.tensors().end(),
                                   [&](const StateTensor& tensor) { return tensor.name == alias.target; });
    invariant(found, fmt::format("the target '{}' of the alias '{}' is a tensor of component '{}'", alias.target,
                                 alias.name, component.key));
  }
  if (cell_owned(component.pattern)) {
    check_cell_owned(component, state);
  } else {
    check_logical(component, state);
  }
}

}  // namespace lockstep
