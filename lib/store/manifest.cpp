#include "store/manifest.hpp"

#include "base/error.hpp"
#include "base/json_form.hpp"
#include "base/json_integer.hpp"
#include "layout/layout_json.hpp"
#include "store/checkpoint_index.hpp"
#include "store/format_1.hpp"
#include "store/listed_path.hpp"
#include "store/part_table.hpp"
#include "store/stored_file.hpp"
#include "store/verdict.hpp"

#include <algorithm>
#include <set>

namespace lockstep {

namespace {

constexpr std::string_view schema = "lockstep.checkpoint";
constexpr int manifest_version = 2;
constexpr std::string_view hash_name = "xxh3-128";
constexpr std::string_view fingerprint_name = "weighted-sums-2x64";
constexpr std::string_view hash_opening = ",\n \"hash\": \"";
constexpr std::string_view hash_closing = "\"\n}\n";

Json to_json(const StoredComponent& component) {
  Json result = {{"key", component.key}, {"pattern", name_of(component.pattern)}};
  if (!component.equal_along.empty()) result["equal_along"] = component.equal_along;
  result["required"] = component.required;
  result["validation"] = name_of(component.validation);
  result["remap"] = name_of(component.remap_policy);
  return result;
}

// [[first, length], …] of the runs of consecutive ranks.
Json to_json(const std::vector<Rank>& ranks) {
  Json runs = Json::array();
  for (const Rank rank : ranks) {
    if (!runs.empty() && runs.back()[0].get<Rank>() + runs.back()[1].get<Rank>() == rank)
      runs.back()[1] = runs.back()[1].get<Rank>() + 1;
    else
      runs.push_back(Json::array({rank, 1}));
  }
  return runs;
}

std::vector<Rank> ranks_from_json(const Json& runs, int world) {
  std::vector<Rank> ranks;
  for (const Json& run : runs) {
    const auto numbers = integers_from<Rank>(run);
    const Rank next = ranks.empty() ? 0 : ranks.back() + 1;  // each once: no list is longer than the world
    const bool inside = numbers.size() == 2 && numbers[0] >= next && numbers[1] > 0 && numbers[0] <= world - numbers[1];
    if (!inside) fail(ExitCode::input, "a node lists ranks that do not exist");
    for (Rank rank = numbers[0]; rank < numbers[0] + numbers[1]; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

// A word that a later version has: the manifest matches its own hash, so it is no damage.
template <class Value>
Value parsed(std::optional<Value> value, const std::string& word, const std::string& software) {
  if (!value) fail_foreign(fmt::format("the value '{}' is not known", word), software);
  return *value;
}

StoredComponent component_from_json(const Json& value, const std::string& software) {
  StoredComponent component;
  component.key = value.at("key");
  const std::string pattern = value.at("pattern");
  const std::string validation = value.at("validation");
  const std::string remap = value.at("remap");
  component.pattern = parsed(parse_pattern(pattern), pattern, software);
  component.validation = parsed(parse_validation(validation), validation, software);
  component.remap_policy = parsed(parse_remap(remap), remap, software);
  component.equal_along = value.value("equal_along", std::vector<AxisName>{});
  component.required = value.at("required");
  return component;
}

Json to_json(const Manifest& manifest) {
  Json result = {{"schema", schema},
                 {"version", manifest_version},
                 {"requires", Json::array()},  // features that a reader must know: none so far
                 {"block_bytes", block_bytes},
                 {"hash_algorithm", hash_name},
                 {"fingerprint_algorithm", fingerprint_name},
                 {"step", manifest.step},
                 {"uuid", manifest.uuid},
                 {"created", manifest.created},
                 {"software", manifest.software},
                 {"ranks", world_size(manifest.mesh)},
                 {"mesh", lockstep::to_json(manifest.mesh)}};
  result["nodes"] = Json::array();
  for (const NodeRanks& node : manifest.nodes)
    result["nodes"].push_back({{"name", node.name}, {"ranks", to_json(node.ranks)}});
  result["metrics"] = Json::object();
  for (const Metric& metric : manifest.metrics)
    result["metrics"][metric.name] = {{"value", metric.value},
                                      {"better", metric.higher_is_better ? "higher" : "lower"}};
  result["state_digest"] = to_hex(manifest.state_digest);
  result["components"] = Json::array();
  for (const StoredComponent& component : manifest.components) result["components"].push_back(to_json(component));
  const StoredFile& index = index_of(manifest);
  result["index"] = {{"path", index.path}, {"bytes", index.bytes}, {"hash", to_hex(index.hash)}};
  result["documents"] = Json::object();
  for (const auto& [name, text] : manifest.documents) result["documents"][name] = text;
  return result;
}

[[noreturn]] void fail_format(const Json& value) {
  const auto software = value.find("software");
  fail_foreign(fmt::format("checkpoint format {} is not known; this program reads formats 1 and {}",
                           to_text(value.at("version")), manifest_version),
               software != value.end() && software->is_string() ? software->get<std::string>() : "");
}

// What later programs may say otherwise: they are named by the word that is not known.
void check_known(const Json& value, const Manifest& manifest) {
  for (const Json& feature : value.at("requires"))
    fail_foreign(fmt::format("it requires the feature {}, which is not known", to_text(feature)), manifest.software);
  for (const auto& [key, word] :
       {std::pair("hash_algorithm", hash_name), std::pair("fingerprint_algorithm", fingerprint_name)}) {
    if (value.at(key) != word)
      fail_foreign(fmt::format("the {} {} is not known", key, to_text(value.at(key))), manifest.software);
  }
  if (value.at("block_bytes") != block_bytes)
    fail_foreign(fmt::format("a block size of {} bytes is not known", to_text(value.at("block_bytes"))),
                 manifest.software);
}

void add_metrics(const Json& metrics, Manifest& manifest) {
  for (const auto& [name, metric] : metrics.items()) {
    const std::string better = metric.at("better");
    if (better != "lower" && better != "higher")
      fail_foreign(fmt::format("the value '{}' is not known", better), manifest.software);
    if (metric.at("value").is_number()) manifest.metrics.push_back({name, metric.at("value"), better == "higher"});
  }
}

/// What is wrong is thrown without the origin.
Manifest from_json(const Json& value) {
  if (value.value("schema", "") != schema) fail(ExitCode::input, "not the manifest of a checkpoint");
  const Json& format = value.at("version");
  if (format != 1 && format != manifest_version) fail_format(value);
  Manifest manifest;
  manifest.format = format;
  manifest.step = integer_from<std::int64_t>(value.at("step"));
  manifest.uuid = value.at("uuid");
  manifest.created = value.at("created");
  manifest.software = value.at("software");
  if (format != 1) check_known(value, manifest);
  manifest.state_digest = hash_from_hex(value.at("state_digest").get<std::string>());
  for (const auto& [name, text] : value.at("documents").items())
    manifest.documents.emplace_back(name, text.get<std::string>());
  for (const Json& component : value.at("components"))
    manifest.components.push_back(component_from_json(component, manifest.software));
  if (format == 1) {
    add_format_1(value, manifest);
    index_of(manifest);
    return manifest;
  }
  manifest.mesh = mesh_from_json(value.at("mesh"), "the mesh");
  const int ranks = world_size(manifest.mesh);
  for (const Json& node : value.at("nodes"))
    manifest.nodes.push_back({node.at("name"), ranks_from_json(node.at("ranks"), ranks)});
  for (StoredComponent& component : manifest.components) add_cells(component, world_of(manifest));
  add_metrics(value.at("metrics"), manifest);
  const Json& index = value.at("index");
  manifest.files.push_back({.path = index.at("path"),
                            .bytes = integer_from<std::uint64_t>(index.at("bytes")),
                            .hash = hash_from_hex(index.at("hash").get<std::string>())});
  check_names(manifest);
  index_of(manifest);
  return manifest;
}

// A text that does not end as this program ends a manifest may be one of a later format: then it is whole JSON.
bool is_of_later_format(const std::string& text, const std::string& origin) {
  Json value;
  try {
    value = parse_json(text, origin);
  } catch (const Error&) {  // truncated
    return false;
  }
  if (!value.is_object() || !value.contains("schema") || value["schema"] != schema) return false;
  const auto number = value.find("version");
  return number != value.end() && number->is_number_integer() && *number > manifest_version;
}

}  // namespace

std::string full_name(const StoredTensor& tensor) {
  return tensor.cell.empty() ? fmt::format("{}/{}", tensor.component, tensor.name)
                             : fmt::format("{}/{}/{}", tensor.cell, tensor.component, tensor.name);
}

bool is_values(const StoredTensor& tensor) { return tensor.name == values_entry; }

Hash128 state_digest(const std::vector<StoredTensor>& tensors) {
  std::vector<std::string> lines;
  for (const StoredTensor& tensor : tensors) {
    lines.push_back(fmt::format("{} {} {} {}\n", full_name(tensor), to_text(known_shape(tensor.layout)),
                                name_of(tensor.layout.dtype), to_hex(tensor.fingerprint)));
  }
  std::sort(lines.begin(), lines.end());
  StreamHash hash;
  for (const std::string& line : lines) hash.add(line);
  return hash.digest();
}

std::string manifest_text(const Manifest& manifest) {
  std::string text = to_text(to_json(manifest), 1);
  text.resize(text.size() - 2);  // without the closing "\n}"
  const Hash128 own = hash128(text);
  text += fmt::format("{}{}{}", hash_opening, to_hex(own), hash_closing);
  return text;
}

Manifest parse_manifest(const std::string& text, const std::string& origin) {
  const std::size_t at = text.rfind(hash_opening);
  const std::size_t digits = at + hash_opening.size();
  const bool hashed =
      at != std::string::npos && text.size() == digits + 32 + hash_closing.size() && text.ends_with(hash_closing);
  if (!hashed && !is_of_later_format(text, origin))
    fail(ExitCode::input, "{}: truncated, or not the manifest of a checkpoint", origin);
  if (hashed && to_hex(hash128(std::string_view(text).substr(0, at))) != text.substr(digits, 32))
    fail(ExitCode::input, "{}: its content does not match its own hash", origin);
  const Json document = parse_json(text, origin);
  try {
    return from_json(document);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", origin, error.what()), error.hint());
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::input, "{}: malformed manifest: {}", origin, form_problem(error));
  }
}

Manifest read_manifest(const Path& checkpoint) {
  const Path path = checkpoint / manifest_file;
  Manifest manifest = parse_manifest(read_stored(path), path.string());
  if (manifest.format > 1) add_index(manifest, read_stored(checkpoint / index_file), checkpoint / index_file);
  return manifest;
}

void add_cells(StoredComponent& stored, const World& world) {
  stored.cells.clear();
  if (stored.pattern == Pattern::global || stored.pattern == Pattern::replicated) return;
  Component component;
  component.key = stored.key;
  component.pattern = stored.pattern;
  component.equal_along = stored.equal_along;
  for (const std::vector<Rank>& cell : cells_of(component, world))
    stored.cells.emplace_back(cell_of(component, world, cell.front()), cell);
}

World world_of(const Manifest& manifest) {
  World world{manifest.mesh, {}};
  if (manifest.nodes.empty()) return world;
  world.node_of_rank.assign(static_cast<std::size_t>(world_size(manifest.mesh)), 0);
  for (std::size_t node = 0; node < manifest.nodes.size(); ++node) {
    world.node_names.push_back(manifest.nodes[node].name);
    for (const Rank rank : manifest.nodes[node].ranks)
      world.node_of_rank[static_cast<std::size_t>(rank)] = static_cast<int>(node);
  }
  return world;
}

std::vector<NodeRanks> nodes_of(const World& world) {
  std::vector<NodeRanks> nodes;
  for (std::size_t rank = 0; rank < world.node_of_rank.size(); ++rank) {
    const auto node = static_cast<std::size_t>(world.node_of_rank[rank]);
    if (node >= nodes.size()) nodes.resize(node + 1);
    nodes[node].ranks.push_back(static_cast<Rank>(rank));
  }
  for (std::size_t node = 0; node < std::min(nodes.size(), world.node_names.size()); ++node)
    nodes[node].name = world.node_names[node];
  return nodes;
}

const StoredFile& index_of(const Manifest& manifest) {
  const auto index = std::ranges::find(manifest.files, index_file, &StoredFile::path);
  if (index == manifest.files.end()) fail(ExitCode::input, "it lists no {}", index_file);
  return *index;
}

void check_names(const Manifest& manifest) {
  std::set<std::string> names;
  for (const StoredTensor& tensor : manifest.tensors) {
    if (!names.insert(full_name(tensor)).second)
      fail(ExitCode::input, "two tensors are called '{}'", full_name(tensor));
    if (find_component(manifest, tensor.component) == nullptr)
      fail(ExitCode::input, "tensor '{}' belongs to component '{}', which is not listed", tensor.name,
           tensor.component);
  }
  for (const StoredFile& file : manifest.files) {
    if (!stays_below(file.path)) fail(ExitCode::input, "the file '{}' does not lie in the checkpoint", file.path);
  }
}

const StoredComponent* find_component(const Manifest& manifest, const std::string& key) {
  const auto found = std::find_if(manifest.components.begin(), manifest.components.end(),
                                  [&](const StoredComponent& component) { return component.key == key; });
  return found == manifest.components.end() ? nullptr : &*found;
}

}  // namespace lockstep
