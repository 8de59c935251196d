#include "options/former_options.hpp"

#include "options/option.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep {

namespace {

Node::Entry* find_entry(Node& map, std::string_view key) {
  const auto found = std::ranges::find(map.entries, key, &Node::Entry::key);
  return found == map.entries.end() ? nullptr : &*found;
}

/// The section of a dotted name, made if there is none.
Node& section_of(Node& document, std::string_view path) {
  const std::string name(path.substr(0, path.find('.')));
  if (Node::Entry* const found = find_entry(document, name)) return found->value;
  document.entries.push_back({name, {}});
  document.entries.back().value.kind = Node::Kind::map;
  return document.entries.back().value;
}

std::string_view key_of(std::string_view path) { return path.substr(path.find('.') + 1); }

}  // namespace

const FormerOption* find_former(const Declaration& declaration, const std::string& path) {
  const std::span<const FormerOption> all = former_options();
  const auto found = std::ranges::find(all, path, &FormerOption::name);
  return found == all.end() || declaration.find(found->now) == nullptr ? nullptr : &*found;
}

void update_names(const Declaration& declaration, Node& saved) {
  for (const FormerOption& option : former_options()) {
    if (find_former(declaration, std::string(option.name)) == nullptr) continue;
    Node& section = section_of(saved, option.name);
    const Node::Entry* const entry = find_entry(section, key_of(option.name));
    if (entry == nullptr) continue;
    Node value = entry->value;
    std::erase_if(section.entries, [&](const Node::Entry& other) { return other.key == key_of(option.name); });
    if (value.kind != Node::Kind::scalar) continue;
    value.text = option.value(value.text);
    Node& now = section_of(saved, option.now);
    Node::Entry* const said = find_entry(now, key_of(option.now));
    if (said == nullptr)
      now.entries.push_back({std::string(key_of(option.now)), value});
    else if (said->value.kind == Node::Kind::null)
      said->value = value;
  }
}

}  // namespace lockstep
