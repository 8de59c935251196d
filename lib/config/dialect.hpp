// Configurations in the words of other trainers. A dialect is a table of its keys: what each becomes here, or why it
// has no effect, or why it is refused. Presets, files and command line are gathered in the words of the dialect, put
// over one another and lowered once to the canonical vocabulary; values keep the place and the key where the user said
// them. From the tables come also the declaration that sorts a command line, --explain and lockstep-dialects(5).
#pragma once

#include "config/document.hpp"
#include "config/option.hpp"
#include "config/problems.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class Lowering;

/// What a key of a dialect means here. Aggregates of it are the tables.
struct DialectKey {
  enum class Value { flag, number, text, list, map };
  enum class State {
    taken,    // works: becomes what `canonical` names
    moot,     // nothing depends on it, whatever it says
    refused,  // unless it says what `harmless` lists
  };
  std::string_view name;  // dotted: "train.lr"
  Value value = Value::text;
  std::string_view built_in = {};  // as YAML, what its own trainer takes where nothing is said; empty: nothing
  State state = State::taken;
  std::string_view canonical = {};  // of taken: "optimizer.lr", or several with commas between
  std::string_view note = {};       // of taken: what differs; of moot and refused: why, and what to use
  std::string_view harmless = {};   // of refused: "false|null", the values that are moot
  std::string_view below = {};      // the key of a switch: while it is off this key is moot
  void (*lower)(const Node& value, Lowering& lowering) = nullptr;  // of taken; null: copied, or done by finish
};

/// One of the dialects.
struct Dialect {
  std::string_view name;    // "xorl"
  std::string_view preset;  // the name of the preset with its built-in values
  std::span<const DialectKey> keys;
  std::span<const DialectKey> parts = {};        // of the values of some keys, for readers: their keys lower them
  void (*finish)(Lowering& lowering) = nullptr;  // lowers what several keys say together
};

/// All but Lockstep's own. Local.
std::span<const Dialect* const> dialects();
const Dialect* find_dialect(std::string_view name);
const Dialect* dialect_of_preset(std::string_view preset);

/// The dialect whose words a document has: as it says under "dialect" or by its preset, otherwise the one that knows
/// all of its keys where Lockstep's own vocabulary does not. Null: Lockstep's own. What cannot be decided is a problem.
const Dialect* dialect_of(const Node& document, const Declaration& canonical, Problems& problems);

/// The built-in values of the trainer, as a document of the dialect.
Node preset_document(const Dialect& dialect);

/// What sorts a command line in the words of a dialect: its keys; the options of `program` that stand in no section or
/// only on command lines; and all others behind "lockstep.". The options are bound to nothing.
Declaration declaration_of(const Dialect& dialect, const Declaration& program);

/// A document of the dialect in the canonical vocabulary; what stands in its section "lockstep" is there already. The
/// origin of each value is "FILE:LINE: KEY". Keys that are unknown, refused or contradict each other are problems.
Node lower(const Dialect& dialect, const Node& document, Problems& problems);

/// What `key` is in each dialect that has it, in lines; empty: no dialect has it.
std::string explain_key(std::string_view key);

/// The rows of a dialect as lists of an mdoc page.
std::string mdoc_dialect(const Dialect& dialect);

/// true, yes, t, y, 1, on and their opposites in any case; nothing for other words.
std::optional<bool> flag_word(const std::string& text);

}  // namespace lockstep
