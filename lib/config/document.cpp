#include "config/document.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>

namespace lockstep {

namespace {

constexpr std::size_t max_nested_presets = 16;
constexpr int max_depth = 32;               // levels of lists and maps
constexpr std::int64_t max_nodes = 10'000;  // values, those that aliases repeat included

std::string place(const std::string& source, const YAML::Mark& mark) {
  return mark.line < 0 ? source : fmt::format("{}:{}", source, mark.line + 1);
}

/// Turns what yaml-cpp read into nodes with places.
class Reader {
 public:
  Reader(std::string source, Problems& problems) : source_(std::move(source)), problems_(problems) {}

  Node read(const YAML::Node& yaml) {
    Node node;
    node.origin = place(source_, yaml.Mark());
    if (!within_limits(node)) return node;
    ++depth_;
    read_content(yaml, node);
    --depth_;
    return node;
  }

 private:
  /// An alias may stand inside its own anchor, or anchors multiply: neither may exhaust stack or memory.
  bool within_limits(const Node& node) {
    if (refused_) return false;
    refused_ = depth_ > max_depth || ++nodes_ > max_nodes;
    if (!refused_) return true;
    const bool deep = depth_ > max_depth;
    problems_.add_unread(node.origin, deep ? fmt::format("more than {} levels of lists and maps", max_depth)
                                           : fmt::format("more than {} values", max_nodes));
    return false;
  }

  void read_content(const YAML::Node& yaml, Node& node) {
    switch (yaml.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null: break;
      case YAML::NodeType::Scalar: read_scalar(yaml, node); break;
      case YAML::NodeType::Sequence:
        node.kind = Node::Kind::list;
        for (const YAML::Node& item : yaml) node.items.push_back(read(item));
        break;
      case YAML::NodeType::Map:
        node.kind = Node::Kind::map;
        for (const auto& entry : yaml) read_entry(entry.first, entry.second, node);
        break;
    }
  }

  static void read_scalar(const YAML::Node& yaml, Node& node) {
    node.text = yaml.Scalar();
    node.quoted = yaml.Tag() == "!";
    const bool null = !node.quoted && (node.text.empty() || node.text == "~" || node.text == "null" ||
                                       node.text == "Null" || node.text == "NULL");
    node.kind = null ? Node::Kind::null : Node::Kind::scalar;
  }

  void read_entry(const YAML::Node& key, const YAML::Node& value, Node& map) {
    const std::string where = place(source_, key.Mark());
    if (!key.IsScalar()) {
      problems_.add_at(where, "", "a key must be a name");
      return;
    }
    Node node = read(value);
    node.origin = where;
    if (Node* const before = map.find(key.Scalar())) {
      problems_.add_at(where, "", fmt::format("\"{}\" is given twice, first at {}", key.Scalar(), before->origin));
      return;
    }
    map.entries.push_back({key.Scalar(), std::move(node)});
  }

  std::string source_;
  Problems& problems_;
  int depth_ = 0;
  std::int64_t nodes_ = 0;
  bool refused_ = false;
};

/// Sees where documents begin, and nothing else.
class DocumentStart : public YAML::EventHandler {
 public:
  YAML::Mark mark;
  void OnDocumentStart(const YAML::Mark& at) override { mark = at; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

/// Where a second document begins. Not asked of yaml-cpp's LoadAll, which never ends where a stray bracket follows the
/// first.
std::optional<YAML::Mark> second_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStart start;
  if (!parser.HandleNextDocument(start) || !parser.HandleNextDocument(start)) return std::nullopt;
  return start.mark;
}

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

Node parse_yaml(const std::string& text, const std::string& source, Problems& problems) {
  if (const std::optional<std::size_t> bad = first_invalid_utf8(text)) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*bad), '\n');
    problems.add_unread(fmt::format("{}:{}", source, line), "not valid UTF-8");
    return {};
  }
  try {
    if (const auto second = second_document(text))
      problems.add_at(place(source, *second), "", "a configuration file holds one document, here a second one begins");
    return Reader(source, problems).read(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    problems.add_unread(place(source, error.mark), fmt::format("not valid YAML: {}", error.msg));
    return {};
  }
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
