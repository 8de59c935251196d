// A document of a dialect on its way to the canonical vocabulary: what it says, and what has become of it. Used by the
// tables of the dialects (config/dialect.hpp).
#pragma once

#include "config/dialect.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

class Lowering {
 public:
  Lowering(const Dialect& dialect, const Node& document, Problems& problems);

  /// What is said under a key, if it is not null; its origin ends with the key.
  const Node* said(std::string_view key) const;
  /// The same as text; `otherwise` where nothing is said.
  std::string text(std::string_view key, const std::string& otherwise) const;
  /// The same; where nothing is said, what its own trainer takes.
  std::string text(std::string_view key) const;
  /// Whether a flag is on; `otherwise` where nothing is said. What is no flag is a problem.
  bool on(std::string_view key, bool otherwise);
  /// A whole number; nothing where none is said. What is no number is a problem.
  std::optional<std::int64_t> integer(std::string_view key);

  /// Whether a canonical option is set already.
  bool is_set(std::string_view canonical) const;
  /// Sets a canonical option. A second, different value is a problem that names both places.
  void set(std::string_view canonical, Node value);
  void set(std::string_view canonical, const std::string& text, const Node& because_of);
  /// A value that a preset of built-in values says is never refused.
  void refuse(const Node& value, const std::string& why);
  static bool of_preset(const Node& value) { return value.origin.starts_with("preset "); }

  /// Lowers every key by its row, then what several say together.
  Node run();

 private:
  void take(const DialectKey& key, const Node& value);
  void gather(const std::string& prefix, const Node& node, const std::string& origin);
  void unknown(const std::string& key, const Node& value);
  const DialectKey* find(std::string_view name) const;
  bool is_group(const std::string& name) const;
  void check_flags();
  bool switched_off(const DialectKey& key);

  const Dialect& dialect_;
  Problems& problems_;
  std::vector<std::pair<std::string, Node>> said_;  // in the order of the document
  Node lowered_;
};

/// A scalar, list or map of the dialect as text: "3", "[a, b]". For messages.
std::string text_of(const Node& node);

}  // namespace lockstep
