#include "options/document.hpp"

#include <algorithm>

namespace lockstep {

Node* Node::find(const std::string& key) {
  const auto entry = std::ranges::find_if(entries, [&](const Node::Entry& candidate) { return candidate.key == key; });
  return entry == entries.end() ? nullptr : &entry->value;
}

const Node* Node::find(const std::string& key) const {
  const auto entry = std::ranges::find_if(entries, [&](const Node::Entry& candidate) { return candidate.key == key; });
  return entry == entries.end() ? nullptr : &entry->value;
}

Node named_by_position(const Node& list) {
  Node map;
  map.kind = Node::Kind::map;
  map.origin = list.origin;
  for (const Node& item : list.items) map.entries.push_back({std::to_string(map.entries.size()), item});
  return map;
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

}  // namespace lockstep
