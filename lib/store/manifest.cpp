#include "store/manifest.hpp"

#include "base/error.hpp"
#include "base/json_form.hpp"
#include "base/json_integer.hpp"
#include "layout/layout_json.hpp"
#include "store/listed_path.hpp"
#include "store/stored_file.hpp"
#include "store/verdict.hpp"

#include <algorithm>
#include <set>

namespace lockstep {

namespace {

constexpr std::string_view schema = "lockstep.checkpoint";
constexpr int version = 1;
constexpr std::string_view hash_opening = ",\n \"hash\": \"";
constexpr std::string_view hash_closing = "\"\n}\n";

std::vector<Mesh> meshes_of(const Manifest& manifest) {
  std::vector<Mesh> meshes{manifest.mesh};
  for (const StoredTensor& tensor : manifest.tensors) {
    const auto same =
        std::find_if(meshes.begin(), meshes.end(), [&](const Mesh& mesh) { return mesh.id == tensor.layout.mesh.id; });
    if (same == meshes.end()) {
      meshes.push_back(tensor.layout.mesh);
    } else {
      invariant(*same == tensor.layout.mesh, fmt::format("the mesh '{}' is the same for all tensors", same->id));
    }
  }
  return meshes;
}

Json to_json(const StoredComponent& component) {
  Json result = {{"key", component.key}, {"pattern", name_of(component.pattern)}};
  if (!component.equal_along.empty()) result["equal_along"] = component.equal_along;
  result["required"] = component.required;
  result["validation"] = name_of(component.validation);
  result["remap"] = name_of(component.remap_policy);
  for (const auto& [name, ranks] : component.cells) result["cells"][name] = ranks;
  return result;
}

Json to_json(const StoredTensor& tensor) {
  Json result = {{"component", tensor.component}};
  if (!tensor.cell.empty()) result["cell"] = tensor.cell;
  result["name"] = tensor.name;
  result.update(to_json(tensor.layout));
  if (!tensor.aliases.empty()) result["aliases"] = tensor.aliases;
  result["fingerprint"] = to_hex(tensor.fingerprint);
  return result;
}

// A word that a later version has: the manifest matches its own hash, so it is no damage.
template <class Value>
Value parsed(std::optional<Value> value, const std::string& word, const std::string& software) {
  if (!value) fail_foreign(fmt::format("the word '{}' is not known", word), software);
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
  if (const auto cells = value.find("cells"); cells != value.end()) {
    for (const auto& [name, ranks] : cells->items()) component.cells.emplace_back(name, integers_from<Rank>(ranks));
  }
  return component;
}

StoredTensor tensor_from_json(const Json& value, const std::vector<Mesh>& meshes) {
  StoredTensor tensor;
  tensor.component = value.at("component");
  tensor.cell = value.value("cell", "");
  tensor.name = value.at("name");
  tensor.layout = layout_from_json(value, meshes, fmt::format("tensor '{}'", tensor.name));
  tensor.aliases = value.value("aliases", std::vector<std::string>{});
  tensor.fingerprint = fingerprint_from_hex(value.at("fingerprint").get<std::string>());
  return tensor;
}

Json to_json(const Manifest& manifest) {
  Json result = {{"schema", schema},
                 {"version", version},
                 {"step", manifest.step},
                 {"uuid", manifest.uuid},
                 {"created", manifest.created},
                 {"software", manifest.software},
                 {"ranks", world_size(manifest.mesh)}};
  result["metrics"] = Json::object();
  for (const auto& [name, value] : manifest.metrics) result["metrics"][name] = value;
  result["state_digest"] = to_hex(manifest.state_digest);
  for (const Mesh& mesh : meshes_of(manifest)) result["meshes"].push_back(to_json(mesh));
  result["components"] = Json::array();
  for (const StoredComponent& component : manifest.components) result["components"].push_back(to_json(component));
  result["files"] = Json::array();
  for (const StoredFile& file : manifest.files)
    result["files"].push_back({{"path", file.path}, {"bytes", file.bytes}, {"hash", to_hex(file.hash)}});
  result["tensors"] = Json::array();
  for (const StoredTensor& tensor : manifest.tensors) result["tensors"].push_back(to_json(tensor));
  result["documents"] = Json::object();
  for (const auto& [name, text] : manifest.documents) result["documents"][name] = text;
  return result;
}

void check_names(const Manifest& manifest) {
  std::set<std::string> names;
  for (const StoredTensor& tensor : manifest.tensors) {
    if (!names.insert(full_name(tensor)).second)
      fail(ExitCode::input, "two tensors are called '{}'", full_name(tensor));
    if (find_component(manifest, tensor.component) == nullptr)
      fail(ExitCode::input, "tensor '{}' is of component '{}', which is not listed", tensor.name, tensor.component);
  }
  for (const StoredFile& file : manifest.files) {
    if (!stays_below(file.path)) fail(ExitCode::input, "the file '{}' does not lie in the checkpoint", file.path);
  }
}

[[noreturn]] void fail_format(const Json& value) {
  const auto software = value.find("software");
  fail_foreign(fmt::format("checkpoint format {} is not known; this program reads format {}",
                           to_text(value.at("version")), version),
               software != value.end() && software->is_string() ? software->get<std::string>() : "");
}

/// What is wrong is thrown without the origin.
Manifest from_json(const Json& value) {
  if (value.value("schema", "") != schema) fail(ExitCode::input, "not the manifest of a checkpoint");
  if (value.at("version") != version) fail_format(value);
  Manifest manifest;
  manifest.step = integer_from<std::int64_t>(value.at("step"));
  manifest.uuid = value.at("uuid");
  manifest.created = value.at("created");
  manifest.software = value.at("software");
  for (const auto& [name, number] : value.at("metrics").items()) {
    if (number.is_number()) manifest.metrics.emplace_back(name, number.get<double>());
  }
  manifest.state_digest = hash_from_hex(value.at("state_digest").get<std::string>());
  std::vector<Mesh> meshes;
  for (const Json& mesh : value.at("meshes")) meshes.push_back(mesh_from_json(mesh, "a mesh"));
  if (meshes.empty()) fail(ExitCode::input, "no mesh is described");
  manifest.mesh = meshes.front();
  for (const Json& component : value.at("components"))
    manifest.components.push_back(component_from_json(component, manifest.software));
  for (const Json& file : value.at("files")) {
    manifest.files.push_back({file.at("path"), integer_from<std::uint64_t>(file.at("bytes")),
                              hash_from_hex(file.at("hash").get<std::string>())});
  }
  for (const Json& tensor : value.at("tensors")) manifest.tensors.push_back(tensor_from_json(tensor, meshes));
  for (const auto& [name, text] : value.at("documents").items())
    manifest.documents.emplace_back(name, text.get<std::string>());
  check_names(manifest);
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
  return number != value.end() && number->is_number_integer() && *number > version;
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
  return parse_manifest(read_stored(path), path.string());
}

const StoredComponent* find_component(const Manifest& manifest, const std::string& key) {
  const auto found = std::find_if(manifest.components.begin(), manifest.components.end(),
                                  [&](const StoredComponent& component) { return component.key == key; });
  return found == manifest.components.end() ? nullptr : &*found;
}

}  // namespace lockstep
