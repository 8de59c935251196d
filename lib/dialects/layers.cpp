#include "dialects/layers.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "dialects/foreign_template.hpp"
#include "dialects/unread_trainers.hpp"
#include "options/path_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

class Loader {
 public:
  Loader(const Declaration* canonical, Problems& problems) : canonical_(canonical), problems_(problems) {}

  /// All files in one dialect, or nothing but problems.
  Layers load(const std::vector<std::string>& files, std::optional<const Dialect*> named) {
    Layers layers;
    layers.document.kind = Node::Kind::map;
    if (named) stated_.emplace_back("--dialect", *named);
    for (const std::string& file : files) merge(layers.document, load(file, {}));
    const auto other =
        std::ranges::find_if(stated_, [&](const auto& place) { return place.second != stated_.front().second; });
    if (!stated_.empty())
      layers.dialect = stated_.front().second;
    else if (canonical_ != nullptr && !read_.empty())
      layers.dialect = likely_dialect(read_, *canonical_, problems_);
    if (other != stated_.end()) {
      problems_.add_unread("", fmt::format("{} is in the dialect {}, but {} in {}: all files must use one dialect",
                                           stated_.front().first, name_of(stated_.front().second), other->first,
                                           name_of(other->second)));
      layers.document.entries.clear();
    }
    return layers;
  }

 private:
  static std::string name_of(const Dialect* dialect) {
    return dialect == nullptr ? "lockstep" : std::string(dialect->name);
  }

  /// The folder of a run stands for the configuration that the run has kept.
  static std::string file_of(const std::string& path) {
    const std::string kept = (Path(path) / "config.yaml").string();
    return is_folder(path) && is_there(kept) ? kept : path;
  }

  Node load(const std::string& given, const std::vector<std::string>& outer) {
    const std::string path = file_of(given);
    std::string text;
    try {
      text = read_file(path);
    } catch (const Error& error) {
      problems_.add_unread("", error.what());
      return {};
    }
    if (const auto assignments = read_assignments(text)) {
      const auto other = find_other_trainer(*assignments);
      problems_.add_unread(path, other ? explain(*other) : "it looks like TOML, but only YAML and JSON are read");
      return {};
    }
    Problems found;
    Node document = parse_yaml(text, path, found);
    const bool is_map = document.kind == Node::Kind::map || document.kind == Node::Kind::null;
    const auto foreign = found.empty() && is_map ? std::nullopt : find_foreign_template(text);
    if (foreign) {
      problems_.add_unread(fmt::format("{}:{}", path, foreign->line),
                           fmt::format("{} belongs to a template, and only YAML and JSON are read: write the values "
                                       "that its own program prints as plain keys",
                                       foreign->seen));
      return {};
    }
    problems_.add(found);
    if (document.kind == Node::Kind::null) document.kind = Node::Kind::map;
    if (document.kind != Node::Kind::map) {
      problems_.add_unread(path, "a configuration file is a map of sections");
      return {};
    }
    if (const auto other = find_other_trainer(document)) {
      problems_.add_unread(path, explain(*other));
      return {};
    }
    if (document.find("model_type") != nullptr && document.find("vocab_size") != nullptr) {
      problems_.add_unread(path, fmt::format("it is the config.json of a model, not a configuration of a run: "
                                             "--model.config {} trains such a model from scratch",
                                             path));
      return {};
    }
    document.origin = path;
    if (const auto dialect = stated_dialect(document, problems_)) stated_.emplace_back(path, *dialect);
    take(document, "dialect");
    read_.push_back(document);
    put_presets_under(document, path, outer);
    return document;
  }

  /// Empty after a problem.
  std::string preset_file(const std::string& beside, const std::string& text, const std::string& origin) {
    try {
      return (Path(beside).parent_path() / expand_path(text)).string();
    } catch (const Error& error) {
      problems_.add_unread(origin, fmt::format("preset: {}", error.what()));
      return {};
    }
  }

  void put_presets_under(Node& document, const std::string& path, std::vector<std::string> outer) {
    const Node preset = take(document, "preset");
    if (preset.kind == Node::Kind::null) return;
    outer.push_back(path);
    Node base;
    base.kind = Node::Kind::map;
    for (const Node& name : preset.kind == Node::Kind::list ? preset.items : std::vector{preset}) {
      const std::string& text = name.text;
      if (name.kind != Node::Kind::scalar) {
        problems_.add_unread(preset.origin, "preset must be the name of a configuration file");
      } else if (const Dialect* const dialect = dialect_of_preset(text)) {
        merge(base, preset_document(*dialect));
      } else {
        const std::string file = preset_file(path, text, preset.origin);
        if (file.empty()) continue;
        if (outer.size() > max_nested_presets || std::ranges::find(outer, file) != outer.end()) {
          problems_.add_unread(preset.origin, fmt::format("preset {} includes itself", file));
        } else if (kind_of(file) != FileKind::file) {
          problems_.add_unread(preset.origin, fmt::format("there is no preset file {}", file));
        } else {
          merge(base, load(file, outer));
        }
      }
    }
    merge(base, document);
    base.origin = document.origin;
    document = std::move(base);
  }

  const Declaration* canonical_;
  Problems& problems_;
  std::vector<std::pair<std::string, const Dialect*>> stated_;  // by the command line and by files
  std::vector<Node> read_;                                      // files, without their presets
};

}  // namespace

Layers load_layers(const std::vector<std::string>& files, const std::string& named, const Declaration* canonical,
                   Problems& problems) {
  const std::optional<const Dialect*> dialect = named.empty() ? std::nullopt : dialect_named(named);
  if (!named.empty() && !dialect) problems.add_unread("command line", no_such_dialect(named));
  return Loader(canonical, problems).load(files, dialect);
}

Node canonical_document(Layers layers, Problems& problems) {
  return layers.dialect == nullptr ? std::move(layers.document) : lower(*layers.dialect, layers.document, problems);
}

}  // namespace lockstep
