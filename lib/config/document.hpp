// A configuration file as written: a tree of texts that remember where they stand. Files are put over one another in
// config/layers.hpp; what the texts mean is decided by the declaration (config/interpret.hpp).
#pragma once

#include "config/problems.hpp"

#include <string>
#include <vector>

namespace lockstep {

struct Node {
  struct Entry;
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;            // of a scalar
  bool quoted = false;         // a quoted scalar is text, whatever it looks like
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map, in order, keys distinct
  std::string origin;          // "tiny.yaml:4", "command line"

  Node* find(const std::string& key);
  const Node* find(const std::string& key) const;
};

struct Node::Entry {
  std::string key;
  Node value;
};

/// A YAML document (JSON is one). Syntax errors and keys given twice become problems; what could be read is returned.
/// `source` names it.
Node parse_yaml(const std::string& text, const std::string& source, Problems& problems);

/// The elements of a list as a map whose keys are 0, 1, … Pure.
Node named_by_position(const Node& list);

/// Puts `over` on `base`: maps merge by key, lists and scalars replace.
void merge(Node& base, const Node& over);

}  // namespace lockstep
