// A configuration file as written: a tree of texts with their places in the file. Files are merged in
// dialects/layers.hpp; options/interpret.hpp interprets the texts.
#pragma once

#include "options/problems.hpp"

#include <string>
#include <vector>

namespace lockstep {

struct Node {
  struct Entry;
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;            // of a scalar
  bool quoted = false;         // a quoted scalar is text, even if it looks like a number
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map, in order; keys are distinct
  std::string origin;          // "tiny.yaml:4", "command line"

  Node* find(const std::string& key);
  const Node* find(const std::string& key) const;
};

struct Node::Entry {
  std::string key;
  Node value;
};

/// Parses a YAML document (JSON is valid YAML). Syntax errors and duplicate keys become problems; the readable part is
/// returned. `source` is the name of the text.
Node parse_yaml(const std::string& text, const std::string& source, Problems& problems);

/// Returns the elements of a list as a map with the keys 0, 1, … Pure.
Node named_by_position(const Node& list);

/// Merges `over` into `base`: maps merge by key; lists and scalars replace.
void merge(Node& base, const Node& over);

}  // namespace lockstep
