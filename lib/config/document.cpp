#include "config/document.hpp"

#include "base/error.hpp"
#include "base/files.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::size_t max_nested_presets = 16;

/// The value of a key, taken out of the map.
Node take(Node& map, const std::string& key) {
  const auto entry =
      std::ranges::find_if(map.entries, [&](const Node::Entry& candidate) { return candidate.key == key; });
  if (entry == map.entries.end()) return {};
  Node value = std::move(entry->value);
  map.entries.erase(entry);
  return value;
}

/// From the dialect that a file names to the canonical vocabulary, which is the only dialect of this version.
void lower(Node& document, Problems& problems) {
  const Node dialect = take(document, "dialect");
  if (dialect.kind == Node::Kind::null || dialect.text == "lockstep") return;
  if (dialect.text == "forgather" || dialect.text == "xorl" || dialect.text == "transformers") {
    problems.add_unread(
        dialect.origin,
        fmt::format("this version does not read files in the dialect \"{}\": write the options under their names "
                    "in lockstep's own",
                    dialect.text));
  } else {
    problems.add_unread(dialect.origin,
                        fmt::format("there is no dialect \"{}\": the only one is lockstep", dialect.text));
  }
  document.entries.clear();  // its keys mean something else: each would be a problem of its own
}

Node load(const std::string& path, const std::vector<std::string>& outer, Problems& problems);

void put_presets_under(Node& document, const std::string& path, std::vector<std::string> outer, Problems& problems) {
  const Node preset = take(document, "preset");
  if (preset.kind == Node::Kind::null) return;
  outer.push_back(path);
  Node base;
  base.kind = Node::Kind::map;
  for (const Node& name : preset.kind == Node::Kind::list ? preset.items : std::vector{preset}) {
    const std::string& text = name.text;
    if (name.kind != Node::Kind::scalar) {
      problems.add_unread(preset.origin, "a preset is the name of a configuration file");
    } else if (text == "forgather" || text == "xorl" || text == "transformers-fsdp") {
      problems.add_unread(preset.origin,
                          fmt::format("this version does not have the preset \"{}\": name a configuration file", text));
    } else {
      const std::string file = (Path(path).parent_path() / text).string();
      if (outer.size() > max_nested_presets || std::ranges::find(outer, file) != outer.end()) {
        problems.add_unread(preset.origin, fmt::format("preset {} leads back to itself", file));
      } else if (kind_of(file) != FileKind::file) {
        problems.add_unread(preset.origin, fmt::format("there is no preset file {}", file));
      } else {
        merge(base, load(file, outer, problems));
      }
    }
  }
  merge(base, document);
  document = std::move(base);
}

Node load(const std::string& path, const std::vector<std::string>& outer, Problems& problems) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error& error) {
    problems.add_unread("", error.what());
    return {};
  }
  Node document = parse_yaml(text, path, problems);
  if (document.kind == Node::Kind::null) document.kind = Node::Kind::map;
  if (document.kind != Node::Kind::map) {
    problems.add_unread(path, "a configuration file is a map of sections");
    return {};
  }
  lower(document, problems);
  put_presets_under(document, path, outer, problems);
  return document;
}

}  // namespace

Node* Node::find(const std::string& key) {
  const auto entry = std::ranges::find_if(entries, [&](const Node::Entry& candidate) { return candidate.key == key; });
  return entry == entries.end() ? nullptr : &entry->value;
}

const Node* Node::find(const std::string& key) const {
  const auto entry = std::ranges::find_if(entries, [&](const Node::Entry& candidate) { return candidate.key == key; });
  return entry == entries.end() ? nullptr : &entry->value;
}

void merge(Node& base, const Node& over) {
  if (base.kind != Node::Kind::map || over.kind != Node::Kind::map) {
    base = over;
    return;
  }
  for (const auto& [key, value] : over.entries) {
    if (Node* const below = base.find(key)) {
      merge(*below, value);
    } else {
      base.entries.push_back({key, value});
    }
  }
}

Node load_document(const std::string& path, Problems& problems) { return load(path, {}, problems); }

}  // namespace lockstep
