#include "store/inspect.hpp"

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "layout/layout_json.hpp"
#include "report/table.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/edit_values.hpp"
#include "store/element_values.hpp"
#include "store/inspected.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep {

namespace {

std::uint64_t bytes_of(const StoredTensor& tensor) {
  return static_cast<std::uint64_t>(elements(tensor.layout.global)) *
         static_cast<std::uint64_t>(size_of(tensor.layout.dtype));
}

// Elements and bytes of a component, tensors and values apart.
struct Totals {
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
};

std::map<std::string, Totals> totals_of(const Manifest& manifest) {
  std::map<std::string, Totals> totals;
  for (const StoredTensor& tensor : manifest.tensors) {
    Totals& sum = totals[tensor.component];
    sum.bytes += bytes_of(tensor);
    if (is_values(tensor)) continue;
    ++sum.tensors;
    sum.elements += elements(tensor.layout.global);
  }
  return totals;
}

Json number_json(double value) {
  return value == value && value - value == 0 ? Json(value) : Json(fmt::format("{}", value));
}

/// A document that is JSON of the kind of `absent`, which is what it is without one.
Json json_document(const CheckpointReader& checkpoint, std::string_view wanted, const Json& absent) {
  for (const auto& [name, text] : checkpoint.manifest().documents) {
    if (name != wanted) continue;
    Json document = parse_json(text, checkpoint.path().string());
    if (document.type() != absent.type())
      fail(ExitCode::input, "{}: its document {} has the wrong type", checkpoint.path().string(), name);
    return document;
  }
  return absent;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : to_text(value); }

InspectAnswer show_values(const CheckpointReader& checkpoint, const std::string& component) {
  InspectAnswer answer{ExitCode::done, "", {{"component", component}, {"values", Json::object()}}};
  for (const StoredTensor& tensor : checkpoint.manifest().tensors) {
    if (tensor.component != component || !is_values(tensor)) continue;
    const std::string cell = tensor.cell.empty() ? "all" : tensor.cell;
    const Json values = parse_json(checkpoint.values_text(component, cell), checkpoint.path().string());
    answer.json["values"][cell] = values;
    answer.text += (cell == "all" ? "" : cell + ": ") + to_text(values, 2) + "\n";
  }
  if (answer.text.empty()) answer.text = fmt::format("component '{}' has no values, only tensors\n", component);
  return answer;
}

}  // namespace

InspectAnswer summarise(const CheckpointReader& checkpoint) {
  const Manifest& manifest = checkpoint.manifest();
  std::uint64_t bytes = 0;
  for (const StoredFile& file : manifest.files) bytes += file.bytes;
  Table facts({{""}, {""}});
  facts.add({"step", fmt::format("{}", manifest.step)});
  facts.add({"saved", fmt::format("{} by {}", manifest.created, manifest.software)});
  facts.add({"ranks", fmt::format("{} ({})", world_size(manifest.mesh), to_text(manifest.mesh))});
  facts.add({"files", fmt::format("{}, {}", manifest.files.size(), human_bytes(bytes))});
  facts.add({"digest", to_hex(manifest.state_digest)});
  for (const Metric& metric : manifest.metrics) facts.add({metric.name, number_text(metric.value)});
  for (const auto& [name, text] : manifest.documents)
    facts.add({"document", fmt::format("{}, {}", name, human_bytes(text.size()))});
  const Json best = json_document(checkpoint, "best_evaluations", Json::array());
  if (!best.empty() && best.front().is_object()) {
    const Json& first = best.front();
    const bool by_loss = !first.contains("metric");
    facts.add(
        {"best so far",
         fmt::format("{}{} after step {}", by_loss ? std::string() : text_of(first.at("metric")) + " ",
                     to_text(first.value(by_loss ? "loss" : "value", Json())), to_text(first.value("step", Json())))});
  }
  // What the run's user says of it.
  const Json metadata = json_document(checkpoint, "metadata", Json::object());
  for (const auto& [key, value] : metadata.items()) facts.add({"metadata", fmt::format("{}={}", key, text_of(value))});
  const std::vector<Json> edits = edits_of(manifest);
  for (const Json& edit : edits)
    facts.add(
        {"edited", fmt::format("{}.{} was {}, is {}: {} by {}", edit.value("component", "?"), edit.value("key", "?"),
                               to_text(edit.value("old", Json())), to_text(edit.value("new", Json())),
                               edit.value("time", "?"), edit.value("user", "?"))});

  InspectAnswer answer;
  answer.json = {{"path", checkpoint.path().string()},
                 {"step", manifest.step},
                 {"uuid", manifest.uuid},
                 {"created", manifest.created},
                 {"software", manifest.software},
                 {"mesh", to_json(manifest.mesh)},
                 {"files", manifest.files.size()},
                 {"bytes", bytes},
                 {"state_digest", to_hex(manifest.state_digest)},
                 {"components", Json::array()},
                 {"metrics", Json::object()},
                 {"best_evaluations", best},
                 {"metadata", metadata},
                 {"edits", edits}};
  for (const Metric& metric : manifest.metrics) answer.json["metrics"][metric.name] = metric.value;
  std::map<std::string, Totals> totals = totals_of(manifest);
  Table components({{"component"},
                    {"pattern"},
                    {"tensors", Table::Align::right},
                    {"elements", Table::Align::right},
                    {"bytes", Table::Align::right}});
  for (const StoredComponent& component : manifest.components) {
    const Totals& sum = totals[component.key];
    components.add({component.key, pattern_text(component), fmt::format("{}", sum.tensors),
                    human_count(static_cast<double>(sum.elements)), human_bytes(sum.bytes)});
    answer.json["components"].push_back({{"key", component.key},
                                         {"pattern", pattern_text(component)},
                                         {"tensors", sum.tensors},
                                         {"elements", sum.elements},
                                         {"bytes", sum.bytes}});
  }
  answer.text = facts.text() + "\n" + components.text();
  return answer;
}

InspectAnswer show_tree(const CheckpointReader& checkpoint) {
  InspectAnswer answer{ExitCode::done, "", {{"path", checkpoint.path().string()}, {"tensors", Json::array()}}};
  const Manifest& manifest = checkpoint.manifest();
  std::string component;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const StoredTensor& tensor = manifest.tensors[i];
    if (tensor.component != component) {
      component = tensor.component;
      answer.text += fmt::format("{} ({})\n", component, pattern_text(*find_component(manifest, component)));
    }
    const std::string name = tensor.cell.empty() ? tensor.name : tensor.cell + "/" + tensor.name;
    answer.text +=
        fmt::format("  {}  {} {}  {}{}\n", name, name_of(tensor.layout.dtype), to_text(known_shape(tensor.layout)),
                    layout_text(tensor.layout), tensor.aliases.empty() ? "" : "; also " + join(tensor.aliases, ", "));
    Json row = to_json(tensor.layout);
    row.update(Json{{"name", full_name(tensor)},
                    {"aliases", tensor.aliases},
                    {"fingerprint", to_hex(tensor.fingerprint)},
                    {"pieces", Json::array()}});
    for (const IndexedPiece* piece : checkpoint.pieces_of(i)) {
      const std::string& file = manifest.files[piece->file].path;
      answer.text += fmt::format("    {}  {}\n", to_text(piece->box), file);
      row["pieces"].push_back({{"begin", piece->box.begin},
                               {"extent", piece->box.extent},
                               {"file", file},
                               {"offset", piece->record.offset}});
    }
    answer.json["tensors"].push_back(std::move(row));
  }
  return answer;
}

InspectAnswer show_config(const CheckpointReader& checkpoint) {
  const auto& documents = checkpoint.manifest().documents;
  const auto config = std::find_if(documents.begin(), documents.end(),
                                   [](const auto& document) { return document.first == "config.yaml"; });
  if (config == documents.end())
    fail(ExitCode::input, "{} was saved without a configuration", checkpoint.path().string());
  const bool ends = config->second.ends_with('\n');
  return {ExitCode::done,
          ends ? config->second : config->second + "\n",
          {{"path", checkpoint.path().string()}, {"config", config->second}}};
}

InspectAnswer show_tensor(const CheckpointReader& checkpoint, const std::string& name) {
  if (find_component(checkpoint.manifest(), name) != nullptr) return show_values(checkpoint, name);
  const std::size_t number = find_number(checkpoint, name);
  const StoredTensor& tensor = checkpoint.manifest().tensors[number];
  Statistics statistics;
  std::vector<double> head;
  for_each_element(checkpoint, number, [&](std::span<const std::byte> bytes) {
    const double value = value_of(tensor.layout.dtype, bytes);
    statistics.add(value);
    if (head.size() < 8) head.push_back(value);
  });
  std::vector<std::string> first;
  Json first_json = Json::array();
  for (const double value : head) {
    first.push_back(number_text(value));
    first_json.push_back(number_json(value));
  }
  Table table({{""}, {""}});
  table.add({"tensor", fmt::format("{}  {} {}", full_name(tensor), name_of(tensor.layout.dtype),
                                   to_text(known_shape(tensor.layout)))});
  table.add({"layout", layout_text(tensor.layout)});
  table.add({"range", fmt::format("{} to {}", number_text(statistics.min), number_text(statistics.max))});
  table.add({"mean", number_text(statistics.mean)});
  table.add({"deviation", number_text(statistics.deviation())});
  table.add({"nan", fmt::format("{}", statistics.nan)});
  table.add({"infinite", fmt::format("{}", statistics.infinite)});
  table.add({"zeros", fmt::format("{}", statistics.zeros)});
  table.add({"first", join(first, " ")});
  table.add({"fingerprint", to_hex(tensor.fingerprint)});
  Json json = to_json(tensor.layout);
  json.update(Json{{"name", full_name(tensor)},
                   {"elements", elements(tensor.layout.global)},
                   {"min", statistics.min},
                   {"max", statistics.max},
                   {"mean", statistics.mean},
                   {"std", statistics.deviation()},
                   {"nan", statistics.nan},
                   {"inf", statistics.infinite},
                   {"zeros", statistics.zeros},
                   {"head", first_json},
                   {"fingerprint", to_hex(tensor.fingerprint)}});
  return {ExitCode::done, table.text(), std::move(json)};
}

namespace {

/// A tensor of both checkpoints, by its numbers in their manifests.
struct InBoth {
  const CheckpointReader& a;
  const CheckpointReader& b;
  std::size_t in_a, in_b;
};

/// How the contents differ, as text and as members of the answer.
std::pair<std::string, Json> difference_of_values(const InBoth& both) {
  const StoredTensor& tensor = both.a.manifest().tensors[both.in_a];
  const std::string cell = tensor.cell.empty() ? "all" : tensor.cell;
  const Json left = parse_json(both.a.values_text(tensor.component, cell), both.a.path().string());
  const Json right = parse_json(both.b.values_text(tensor.component, cell), both.b.path().string());
  std::vector<std::string> keys;
  if (!left.is_object() || !right.is_object()) return {"", Json::object()};
  for (const Json* const values : {&left, &right})
    for (const auto& [key, value] : values->items())
      if (left.value(key, Json()) != right.value(key, Json()) && std::ranges::find(keys, key) == keys.end())
        keys.push_back(key);
  const auto shown = [](const Json& values, const std::string& key) {
    constexpr std::size_t longest = 60;
    const std::string text = to_text(values.value(key, Json()));
    return text.size() <= longest ? text : text.substr(0, longest) + "...";
  };
  std::vector<std::string> texts;
  for (const std::string& key : keys)
    texts.push_back(fmt::format("{} {} against {}", key, shown(left, key), shown(right, key)));
  return {join(texts, ", "), Json{{"keys", keys}}};
}

std::pair<std::string, Json> difference_of_elements(const InBoth& both) {
  const TensorDistance distance = distance_of(both.a, both.in_a, both.b, both.in_b);
  const Shape place =
      place_of_element(distance.first.value_or(0), known_shape(both.a.manifest().tensors[both.in_a].layout));
  const bool relative = distance.norm_a > 0;
  std::string text = fmt::format("{} of {}, first at {}, at most {} apart", distance.different,
                                 counted(distance.elements, "element"), to_text(place), number_text(distance.max_abs));
  text += relative ? fmt::format(", relative norm {}", number_text(distance.norm / distance.norm_a))
                   : fmt::format(", norm {}", number_text(distance.norm));
  if (distance.nonfinite > 0) text += fmt::format(", {} not finite", distance.nonfinite);
  return {text, Json{{"elements", distance.different},
                     {"first", place},
                     {"max_abs", distance.max_abs},
                     {"norm", distance.norm},
                     {"relative_norm", relative ? Json(distance.norm / distance.norm_a) : Json(nullptr)},
                     {"nonfinite", distance.nonfinite}}};
}

}  // namespace

InspectAnswer compare(const CheckpointReader& a, const CheckpointReader& b) {
  std::map<std::string, std::size_t> in_b;
  for (std::size_t i = 0; i < b.manifest().tensors.size(); ++i) in_b[full_name(b.manifest().tensors[i])] = i;
  InspectAnswer answer{
      ExitCode::done,
      "",
      {{"a", a.path().string()}, {"b", b.path().string()}, {"equal", 0}, {"differences", Json::array()}}};
  std::int64_t equal = 0;
  const auto differ = [&](const std::string& name, const std::string& how, const std::pair<std::string, Json>& more) {
    answer.text += fmt::format("{}: {}{}\n", name, how, more.first.empty() ? "" : ": " + more.first);
    Json row = {{"name", name}, {"difference", how}};
    row.update(more.second);
    answer.json["differences"].push_back(std::move(row));
  };
  const std::pair<std::string, Json> nothing{"", Json::object()};
  for (std::size_t i = 0; i < a.manifest().tensors.size(); ++i) {
    const StoredTensor& tensor = a.manifest().tensors[i];
    const std::string name = full_name(tensor);
    const auto other = in_b.find(name);
    if (other == in_b.end()) {
      differ(name, "only in A", nothing);
      continue;
    }
    const StoredTensor& other_tensor = b.manifest().tensors[other->second];
    const Layout& left = tensor.layout;
    const Layout& right = other_tensor.layout;
    if (!is_values(tensor) && (known_shape(left) != known_shape(right) || left.dtype != right.dtype)) {
      differ(name,
             fmt::format("{} {} against {} {}", name_of(left.dtype), to_text(known_shape(left)), name_of(right.dtype),
                         to_text(known_shape(right))),
             nothing);
    } else if (tensor.fingerprint != other_tensor.fingerprint) {
      std::pair<std::string, Json> more = nothing;
      try {
        const InBoth both{a, b, i, other->second};
        more = is_values(tensor) ? difference_of_values(both) : difference_of_elements(both);
      } catch (const Error& error) {  // the fingerprints in the manifests are the verdict
        answer.warnings.push_back(fmt::format("cannot tell how far {} is apart: {}", name, error.what()));
      }
      differ(name, "different content", more);
    } else {
      ++equal;
    }
    in_b.erase(other);
  }
  for (const auto& [name, number] : in_b) differ(name, "only in B", nothing);
  const std::size_t differences = answer.json["differences"].size();
  answer.json["equal"] = equal;
  answer.code = differences == 0 ? ExitCode::done : ExitCode::verdict;
  answer.text += fmt::format("{} equal, {} different\n", equal, differences);
  return answer;
}

}  // namespace lockstep
