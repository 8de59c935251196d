// Translation of a document of a dialect into the canonical vocabulary: the keys given, and the options set so far. The
// tables of the dialects use it (dialects/dialect.hpp).
#pragma once

#include "dialects/dialect.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

class Lowering {
 public:
  Lowering(const Dialect& dialect, const Node& document, Problems& problems);

  /// Returns the value of a key; nullptr if it is null or not given. The origin of the value ends with the key.
  const Node* given(std::string_view key) const;
  /// Returns the value of a key that is given as null; nullptr otherwise.
  const Node* given_null(std::string_view key) const;
  /// Returns the value as text; `otherwise` if it is not given.
  std::string text(std::string_view key, const std::string& otherwise) const;
  /// Returns the value as text; if it is not given, the default of its own trainer.
  std::string text(std::string_view key) const;
  /// Returns whether a flag is on; `otherwise` if it is not given. A value that is not a flag is a problem.
  bool on(std::string_view key, bool otherwise);
  /// Returns a whole number; nothing if it is not given. A value that is not a number is a problem.
  std::optional<std::int64_t> integer(std::string_view key);

  /// Returns the map in the YAML or JSON file that a value names; nothing if there is none, which is a problem. The
  /// origins in it end with keys that begin with `key`, unless that is empty.
  std::optional<Node> file(const Node& path, const std::string& key);

  /// Translates the keys of a map by a table of its own. A name that ends with ".*" stands for all keys below it. Null
  /// and "auto" leave the value to others. Keys that begin with "_" are comments. An unknown key is a problem of
  /// `whole`: "DeepSpeed has no key …".
  void part(std::span<const DialectKey> rows, std::string_view whole, const Node& map, const std::string& prefix = "");

  /// Returns whether a canonical option is set.
  bool is_set(std::string_view canonical) const { return value_set(canonical) != nullptr; }
  /// Returns the value of a canonical option; nullptr if it is not set.
  const Node* value_set(std::string_view canonical) const;
  /// Sets a canonical option. The command line takes precedence over files, and files over presets, also between
  /// vocabularies. Of two places of one kind the second must have an equal value. Otherwise it is a problem that names
  /// both.
  void set(std::string_view canonical, Node value);
  void set(std::string_view canonical, const std::string& text, const Node& because_of);
  /// Adds a problem: the value is refused. Values from a preset of defaults are never refused.
  void refuse(const Node& value, const std::string& why);
  /// Adds a note for the log: the value has no effect. Values from a preset of defaults get none.
  void note(const Node& value, const std::string& why);
  /// Adds a line for the log about a value that has another effect than there.
  void tell(const Node& value, const std::string& text) { problems_.note_at(value.origin, text); }
  static bool of_preset(const Node& value) { return value.origin.starts_with("preset "); }
  /// Returns the value of a key that a file or the command line gives; nullptr if only a preset does.
  const Node* given_beyond_preset(std::string_view key) const;
  /// Returns whether a canonical option is set at a place that takes precedence over that of `value`.
  bool is_set_above(std::string_view canonical, const Node& value) const;

  /// Translates every key by its row, then the keys that have a meaning only together.
  Node run();

 private:
  void take(const DialectKey& key, const Node& value);
  static bool is_harmless(const DialectKey& key, const Node& value);
  void gather(const std::string& prefix, const Node& node, const std::string& origin);
  void read_map(const DialectKey& key, Node& value);
  void unknown(const std::string& key, const Node& value);
  const DialectKey* find(std::string_view name) const;
  bool is_group(const std::string& name) const;
  void check_flags();
  bool switched_off(const DialectKey& key);

  const Dialect& dialect_;
  Problems& problems_;
  std::vector<std::pair<std::string, Node>> given_;  // in the order of the document
  Node lowered_;
};

/// Returns a scalar, list or map of the dialect as text, for messages: "3", "[a, b]".
std::string text_of(const Node& node);

/// Returns the number that is the whole text; nothing if it is none.
std::optional<double> number_in(std::string_view text);

}  // namespace lockstep
