#include "dialects/lowering.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "options/interpret.hpp"
#include "options/path_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace lockstep {

namespace {

/// The place of a canonical option in a document, made if it is not there.
Node& place_of(Node& document, std::string_view path) {
  Node* at = &document;
  for (const std::string& part : split(std::string(path), '.')) {
    at->kind = Node::Kind::map;
    if (at->find(part) == nullptr) at->entries.push_back({part, Node{}});
    at = at->find(part);
  }
  return *at;
}

/// Lets the origin of a value and of all in it end with its key.
/// An empty key leaves the origin of the node itself as it is.
void name_origins(Node& node, const std::string& key, const std::string& outer) {
  if (node.origin.empty()) node.origin = outer;
  const std::string here = node.origin;
  const std::string prefix = key.empty() ? "" : key + ".";
  for (std::size_t i = 0; i < node.items.size(); ++i) name_origins(node.items[i], fmt::format("{}{}", prefix, i), here);
  for (Node::Entry& entry : node.entries) name_origins(entry.value, prefix + entry.key, here);
  if (!key.empty()) node.origin += ": " + key;
}

void clear_origins(Node& node) {
  node.origin.clear();
  for (Node& item : node.items) clear_origins(item);
  for (Node::Entry& entry : node.entries) clear_origins(entry.value);
}

/// The order in which values take precedence: the command line, files, presets.
int precedence(const Node& value) {
  if (Lowering::of_preset(value)) return 0;
  return value.origin.starts_with("command line") ? 2 : 1;
}

/// Whether both are the same text, or equal numbers: "1" and "1.0".
bool same_text(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const std::optional<double> first = number_in(a), second = number_in(b);
  return first && second && *first == *second;
}

bool same(const Node& a, const Node& b) {
  return a.kind == b.kind && same_text(a.text, b.text) &&
         std::ranges::equal(a.items, b.items, [](const Node& x, const Node& y) { return same(x, y); }) &&
         std::ranges::equal(a.entries, b.entries, [](const Node::Entry& x, const Node::Entry& y) {
           return x.key == y.key && same(x.value, y.value);
         });
}

}  // namespace

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::string text_of(const Node& node) {
  std::vector<std::string> parts;
  switch (node.kind) {
    case Node::Kind::null: return "null";
    case Node::Kind::scalar: return node.text;
    case Node::Kind::list:
      for (const Node& item : node.items) parts.push_back(text_of(item));
      return "[" + join(parts, ", ") + "]";
    case Node::Kind::map:
      for (const Node::Entry& entry : node.entries) parts.push_back(entry.key + ": " + text_of(entry.value));
      return "{" + join(parts, ", ") + "}";
  }
  throw Error(ExitCode::bug, "unknown Node::Kind");
}

Lowering::Lowering(const Dialect& dialect, const Node& document, Problems& problems)
    : dialect_(dialect), problems_(problems) {
  lowered_.kind = Node::Kind::map;
  gather("", document, "");
}

void Lowering::gather(const std::string& prefix, const Node& node, const std::string& origin) {
  for (const Node::Entry& entry : node.entries) {
    const std::string key = prefix + entry.key;
    if (prefix.empty() && entry.key == "lockstep") {
      merge(lowered_, entry.value);
      continue;
    }
    if (find(key) == nullptr && is_group(key)) {
      if (entry.value.kind == Node::Kind::map) {
        gather(key + ".", entry.value, entry.value.origin);
        continue;
      }
      if (entry.value.kind == Node::Kind::null) continue;
    }
    Node value = entry.value;
    if (const DialectKey* const known = find(key)) read_map(*known, value);
    name_origins(value, key, origin);
    given_.emplace_back(key, std::move(value));
  }
}

/// A map may be given as JSON text, or by the name of a file.
void Lowering::read_map(const DialectKey& key, Node& value) {
  if (key.value != DialectKey::Value::map || key.state != DialectKey::State::taken) return;
  const bool is_scalar = value.kind == Node::Kind::scalar;
  const bool is_list = value.kind == Node::Kind::list && !value.items.empty();
  const std::optional<bool> truth = is_scalar ? flag_word(value.text) : std::nullopt;
  if (value.kind == Node::Kind::map || (!is_scalar && !is_list) || (is_scalar && value.text.empty())) return;
  const std::string name(key.name);
  const Node given = value;
  value = {};  // as if it was not given, after a problem
  value.origin = given.origin;
  if (truth && !*truth) return;
  if (truth || is_list) {
    problems_.add_at(fmt::format("{}: {}", given.origin, name), "",
                     fmt::format("{} is refused: it must be a map", text_of(given)));
    return;
  }
  if (trim(given.text).starts_with('{')) {
    Problems found;
    Node map = parse_yaml(given.text, given.origin, found);
    for (const Problems::Entry& problem : found.entries())
      problems_.add_at(fmt::format("{}: {}", given.origin, name), "", problem.text);
    if (!found.empty()) return;
    clear_origins(map);
    value = std::move(map);
    value.origin = given.origin;
    return;
  }
  Node path = given;
  path.origin = fmt::format("{}: {}", given.origin, name);
  if (std::optional<Node> map = file(path, "")) value = std::move(*map);
}

const DialectKey* Lowering::find(std::string_view name) const {
  const auto key = std::ranges::find(dialect_.keys, name, &DialectKey::name);
  return key == dialect_.keys.end() ? nullptr : &*key;
}

bool Lowering::is_group(const std::string& name) const {
  return std::ranges::any_of(dialect_.keys, [&](const DialectKey& key) { return key.name.starts_with(name + "."); });
}

const Node* Lowering::given(std::string_view key) const {
  const auto entry = std::ranges::find(given_, key, &std::pair<std::string, Node>::first);
  return entry == given_.end() || entry->second.kind == Node::Kind::null ? nullptr : &entry->second;
}

const Node* Lowering::given_null(std::string_view key) const {
  const auto entry = std::ranges::find(given_, key, &std::pair<std::string, Node>::first);
  return entry != given_.end() && entry->second.kind == Node::Kind::null ? &entry->second : nullptr;
}

const Node* Lowering::given_beyond_preset(std::string_view key) const {
  const Node* const value = given(key);
  return value == nullptr || of_preset(*value) ? nullptr : value;
}

bool Lowering::is_set_above(std::string_view canonical, const Node& value) const {
  const Node* const before = value_set(canonical);
  return before != nullptr && precedence(*before) > precedence(value);
}

std::string Lowering::text(std::string_view key, const std::string& otherwise) const {
  const Node* const value = given(key);
  return value == nullptr ? otherwise : text_of(*value);
}

std::string Lowering::text(std::string_view key) const {
  const DialectKey* const known = find(key);
  return text(key, known == nullptr ? "" : std::string(known->built_in));
}

bool Lowering::on(std::string_view key, bool otherwise) {
  const Node* const value = given(key);
  if (value == nullptr) return otherwise;
  const std::optional<bool> truth = value->kind == Node::Kind::scalar ? flag_word(value->text) : std::nullopt;
  if (!truth) problems_.add_at(value->origin, "", fmt::format("\"{}\" is not true or false", text_of(*value)));
  return truth.value_or(otherwise);
}

std::optional<std::int64_t> Lowering::integer(std::string_view key) {
  const Node* const value = given(key);
  if (value == nullptr) return std::nullopt;
  std::int64_t number = 0;
  const std::string& text = value->text;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (value->kind == Node::Kind::scalar && error == std::errc{} && end == text.data() + text.size()) return number;
  problems_.add_at(value->origin, "", fmt::format("\"{}\" is not a whole number", text_of(*value)));
  return std::nullopt;
}

std::optional<Node> Lowering::file(const Node& path, const std::string& key) {
  try {
    const std::string name = expand_path(path.text);
    if (kind_of(name) == FileKind::nothing) {
      problems_.add_at(path.origin, "",
                       fmt::format("\"{}\" is no map of settings, and there is no such file", path.text));
      return std::nullopt;
    }
    Node document = parse_yaml(read_file(name), name, problems_);
    if (document.kind == Node::Kind::map) {
      const std::string prefix = key.empty() ? "" : key + ".";
      if (!key.empty())
        for (Node::Entry& entry : document.entries) name_origins(entry.value, prefix + entry.key, name);
      document.origin = name;
      return document;
    }
    problems_.add_at(path.origin, "", fmt::format("{} is no map of settings", path.text));
  } catch (const Error& error) {
    problems_.add_at(path.origin, "", error.what());
  }
  return std::nullopt;
}

void Lowering::part(std::span<const DialectKey> rows, std::string_view whole, const Node& map,
                    const std::string& prefix) {
  for (const auto& [key, value] : map.entries) {
    if (key.starts_with('_')) continue;  // a comment, for JSON has none
    const std::string name = prefix + key;
    const auto named = [&](const DialectKey& row) {
      return row.name == name || (row.name.ends_with('*') && name.starts_with(row.name.substr(0, row.name.size() - 1)));
    };
    const auto inside = [&](const DialectKey& row) { return row.name.starts_with(name + "."); };
    if (const auto known = std::ranges::find_if(rows, named); known != rows.end()) {
      if (value.kind == Node::Kind::null || value.text == "auto") continue;
      const bool is_flag = known->value == DialectKey::Value::flag && known->state == DialectKey::State::taken;
      if (is_flag && !(value.kind == Node::Kind::scalar && flag_word(value.text)))
        problems_.add_at(value.origin, "", fmt::format("\"{}\" is not true or false", text_of(value)));
      else
        take(*known, value);
    } else if (value.kind == Node::Kind::map && std::ranges::any_of(rows, inside)) {
      part(rows, whole, value, name + ".");
    } else if (std::ranges::any_of(rows, inside)) {
      if (value.kind != Node::Kind::null && value.text != "auto") refuse(value, "it must be a map");
    } else {
      std::vector<std::string> names;
      for (const DialectKey& row : rows) names.emplace_back(row.name);
      const std::optional<std::string> meant = nearest(name, names);
      problems_.add_at(value.origin, "",
                       fmt::format("{} has no key \"{}\"{}", whole, name,
                                   meant ? fmt::format(": did you mean \"{}\"?", *meant) : ""));
    }
  }
}

const Node* Lowering::value_set(std::string_view canonical) const {
  const Node* at = &lowered_;
  for (const std::string& part : split(std::string(canonical), '.')) at = at == nullptr ? nullptr : at->find(part);
  return at != nullptr && at->kind != Node::Kind::null ? at : nullptr;
}

void Lowering::set(std::string_view canonical, Node value) {
  Node& place = place_of(lowered_, canonical);
  const bool set_before = !place.origin.empty();
  if (set_before && (of_preset(value) || precedence(value) < precedence(place))) return;
  if (set_before && precedence(value) == precedence(place) && !same(place, value)) {
    problems_.add_at(value.origin, "",
                     fmt::format("{} contradicts {}, which is {}: both set {}", text_of(value), place.origin,
                                 text_of(place), canonical));
    return;
  }
  place = std::move(value);
}

void Lowering::set(std::string_view canonical, const std::string& text, const Node& because_of) {
  Node value;
  value.kind = text == "null" ? Node::Kind::null : Node::Kind::scalar;
  value.text = text;
  value.origin = because_of.origin;
  set(canonical, std::move(value));
}

void Lowering::refuse(const Node& value, const std::string& why) {
  if (!of_preset(value)) problems_.add_at(value.origin, "", fmt::format("{} is refused: {}", text_of(value), why));
}

bool Lowering::switched_off(const DialectKey& key) {
  if (key.below.empty()) return false;
  const DialectKey* const above = find(key.below);
  return !on(key.below, above != nullptr && flag_word(std::string(above->built_in)).value_or(false));
}

void Lowering::note(const Node& value, const std::string& why) {
  if (!of_preset(value)) problems_.note_at(value.origin, fmt::format("{} has no effect: {}", text_of(value), why));
}

bool Lowering::is_harmless(const DialectKey& key, const Node& value) {
  std::string text = text_of(value);
  if (const std::optional<bool> truth = flag_word(text); truth && key.value == DialectKey::Value::flag)
    text = *truth ? "true" : "false";
  const std::vector<std::string> harmless = split(std::string(key.harmless), '|');
  return std::ranges::find(harmless, text) != harmless.end();
}

void Lowering::take(const DialectKey& key, const Node& value) {
  if (key.state == DialectKey::State::moot || switched_off(key)) return;
  if (key.state != DialectKey::State::taken) {
    if (value.kind == Node::Kind::null || is_harmless(key, value)) return;
    if (key.state == DialectKey::State::refused)
      refuse(value, std::string(key.note));
    else
      note(value, std::string(key.note));
    return;
  }
  if (key.lower != nullptr) {
    if (value.kind != Node::Kind::null) key.lower(value, *this);
    return;
  }
  Node copy = value;
  if (key.value == DialectKey::Value::flag && copy.kind == Node::Kind::scalar) {
    if (const std::optional<bool> truth = flag_word(copy.text)) {
      copy.text = *truth ? "true" : "false";
      copy.quoted = false;
    }
  }
  set(key.canonical, std::move(copy));
}

void Lowering::unknown(const std::string& key, const Node& value) {
  std::vector<std::string> names;
  for (const DialectKey& known : dialect_.keys) names.emplace_back(known.name);
  const std::optional<std::string> meant = nearest(key, names);
  problems_.add_at(value.origin.substr(0, value.origin.rfind(": ")), "",
                   fmt::format("unknown key \"{}\" in the dialect {}{}", key, dialect_.name,
                               meant ? fmt::format(": did you mean \"{}\"?", *meant)
                                     : "; Lockstep's own options go into its section lockstep"));
}

void Lowering::check_flags() {
  for (auto& [key, value] : given_) {
    const DialectKey* const known = find(key);
    const bool flag = known != nullptr && known->value == DialectKey::Value::flag;
    if (!flag || known->state != DialectKey::State::taken || value.kind == Node::Kind::null) continue;
    if (value.kind == Node::Kind::scalar && flag_word(value.text)) continue;
    problems_.add_at(value.origin, "", fmt::format("\"{}\" is not true or false", text_of(value)));
    value.kind = Node::Kind::null;
  }
}

Node Lowering::run() {
  check_flags();
  for (const auto& [key, value] : given_) {
    if (const DialectKey* const known = find(key)) {
      take(*known, value);
    } else {
      unknown(key, value);
    }
  }
  if (dialect_.finish != nullptr) dialect_.finish(*this);
  return std::move(lowered_);
}

Node lower(const Dialect& dialect, const Node& document, Problems& problems) {
  return Lowering(dialect, document, problems).run();
}

}  // namespace lockstep
