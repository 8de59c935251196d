// Who shares what of a checkpoint: components, layouts, the holders of a tensor.
#include "base/text.hpp"
#include "base/words.hpp"
#include "layout/layout_json.hpp"
#include "report/table.hpp"
#include "store/inspect.hpp"
#include "store/inspected.hpp"
#include "store/part_file.hpp"
#include "store/write_plan.hpp"

#include <algorithm>
#include <map>

namespace lockstep {

namespace {

Json cells_json(const StoredComponent& component) {
  Json cells = Json::object();
  auto& members = cells.get_ref<Json::object_t&>();
  for (const auto& [name, ranks] : component.cells) members.emplace_back(name, ranks);
  return cells;
}

// The ranks that had a box when it was saved: those of the boxes of the layout that it lies in.
std::vector<Rank> holders_of(const Manifest& manifest, const StoredTensor& tensor, const std::vector<Holding>& holdings,
                             const Box& box) {
  const StoredComponent& component = *find_component(manifest, tensor.component);
  if (component.pattern == Pattern::global) return {0};
  for (const auto& [name, ranks] : component.cells)
    if (!tensor.cell.empty() && name == tensor.cell) return ranks;
  for (const Holding& holding : holdings)
    if (contains(holding.box, box)) return holding.ranks;
  return {};
}

}  // namespace

InspectAnswer show_components(const CheckpointReader& checkpoint) {
  InspectAnswer answer{ExitCode::done, "", {{"path", checkpoint.path().string()}, {"components", Json::array()}}};
  Table table({{"component"}, {"shared"}, {"cells", Table::Align::right}, {"compared"}, {"other ranks"}, {"required"}});
  for (const StoredComponent& component : checkpoint.manifest().components) {
    const std::string cells = component.cells.empty() ? std::string("1") : fmt::format("{}", component.cells.size());
    table.add({component.key, pattern_text(component), cells, std::string(name_of(component.validation)),
               std::string(name_of(component.remap_policy)), component.required ? "yes" : "no"});
    answer.json["components"].push_back({{"key", component.key},
                                         {"pattern", name_of(component.pattern)},
                                         {"equal_along", component.equal_along},
                                         {"validation", name_of(component.validation)},
                                         {"remap", name_of(component.remap_policy)},
                                         {"required", component.required},
                                         {"cells", cells_json(component)}});
  }
  answer.text = table.text();
  return answer;
}

InspectAnswer show_layouts(const CheckpointReader& checkpoint) {
  InspectAnswer answer{ExitCode::done, "", {{"path", checkpoint.path().string()}, {"layouts", Json::array()}}};
  struct Sum {
    std::int64_t tensors = 0, elements = 0;
    std::string example;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const StoredTensor& tensor : checkpoint.manifest().tensors) {
    if (is_values(tensor)) continue;
    const std::string mesh =
        tensor.cell.empty() ? to_text(tensor.layout.mesh) : fmt::format("a cell of {}", tensor.component);
    Sum& sum = sums[{mesh, layout_text(tensor.layout)}];
    if (sum.tensors++ == 0) sum.example = full_name(tensor);
    sum.elements += elements(tensor.layout.global);
  }
  Table table({{"mesh"}, {"layout"}, {"tensors", Table::Align::right}, {"elements", Table::Align::right}, {"such as"}});
  for (const auto& [key, sum] : sums) {
    table.add({key.first, key.second, fmt::format("{}", sum.tensors), human_count(static_cast<double>(sum.elements)),
               sum.example});
    answer.json["layouts"].push_back({{"mesh", key.first},
                                      {"layout", key.second},
                                      {"tensors", sum.tensors},
                                      {"elements", sum.elements},
                                      {"example", sum.example}});
  }
  answer.text = table.text();
  return answer;
}

InspectAnswer show_holders(const CheckpointReader& checkpoint, const std::string& name) {
  const Manifest& manifest = checkpoint.manifest();
  const std::size_t number = find_number(checkpoint, name);
  const StoredTensor& tensor = manifest.tensors[number];
  std::vector<Holding> holdings;
  try {
    if (tensor.cell.empty() && tensor.holding == TensorHolding::layout) holdings = holdings_of(tensor.layout);
  } catch (const Error& error) {
    fail(ExitCode::input, "{}: {}: {}", checkpoint.path().string(), full_name(tensor), error.what());
  }
  InspectAnswer answer{ExitCode::done, "", {{"name", full_name(tensor)}, {"pieces", Json::array()}}};
  Table table({{"piece"}, {"ranks"}, {"file"}, {"dataset"}, {"offset", Table::Align::right}});
  for (const IndexedPiece* stored : checkpoint.pieces_of(number)) {
    const IndexedPiece& piece = *stored;
    const std::vector<Rank> ranks = holders_of(manifest, tensor, holdings, piece.box);
    const std::string& file = manifest.files[piece.file].path;
    const std::int64_t packed_at = piece.record.packed_at;
    std::string dataset =
        dataset_of({full_name(tensor), tensor.layout.global, tensor.layout.dtype, piece.box}, piece.record);
    if (packed_at >= 0) dataset += fmt::format("[{}:{}]", packed_at, packed_at + elements(piece.box));
    table.add({to_text(piece.box), ranks.empty() ? "-" : rank_ranges(ranks), file, dataset,
               fmt::format("{}", piece.record.offset)});
    answer.json["pieces"].push_back({{"begin", piece.box.begin},
                                     {"extent", piece.box.extent},
                                     {"ranks", ranks},
                                     {"file", file},
                                     {"dataset", dataset},
                                     {"offset", piece.record.offset}});
  }
  answer.text = fmt::format("{}  {} {}, {}, saved by {}\n{}", full_name(tensor), name_of(tensor.layout.dtype),
                            to_text(known_shape(tensor.layout)), layout_text(tensor.layout),
                            counted(world_size(manifest.mesh), "rank"), table.text());
  return answer;
}

}  // namespace lockstep
