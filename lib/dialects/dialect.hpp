// Configurations in the vocabulary of other trainers. A dialect is a table of keys. A row gives the option that the key
// becomes, or the reason why it has no effect or is refused. Presets, files and command line are merged in the dialect,
// then translated once (dialects/lowering.hpp). The tables also give the declaration for command lines, --explain and
// lockstep-dialects(5).
#pragma once

#include "options/document.hpp"
#include "options/option.hpp"
#include "options/problems.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class Lowering;

/// A row of a dialect's table: a key and its meaning here.
struct DialectKey {
  enum class Value { flag, number, text, list, map };
  enum class State {
    taken,    // translated to the options in `canonical`
    moot,     // ignored, with any value
    noted,    // ignored, with a line in the log; values in `harmless` without
    refused,  // refused, except for values in `harmless`
  };
  std::string_view name;  // dotted: "train.lr"
  Value value = Value::text;
  std::string_view built_in = {};  // default of its own trainer, as YAML; empty: none
  State state = State::taken;
  std::string_view canonical = {};  // of taken: "optimizer.lr"; several are separated by commas
  std::string_view note = {};       // of taken: differences; of moot and refused: the reason, and the alternative
  std::string_view harmless = {};   // of noted and refused: values that are ignored, "false|null"
  std::string_view below = {};      // key of a switch; while the switch is off, this key is ignored
  // Of taken. Not set: the value is copied, or finish() translates the key.
  void (*lower)(const Node& value, Lowering& lowering) = nullptr;
};

/// The vocabulary of one trainer.
struct Dialect {
  std::string_view name;    // "xorl"
  std::string_view preset;  // name of the preset with the trainer's defaults
  std::span<const DialectKey> keys;
  std::span<const DialectKey> parts = {};  // keys inside values, only documented; the outer key's row translates them
  void (*finish)(Lowering& lowering) = nullptr;  // translates keys that have a meaning only together
};

/// All dialects except Lockstep's own vocabulary. Local.
std::span<const Dialect* const> dialects();
const Dialect* find_dialect(std::string_view name);
const Dialect* dialect_of_preset(std::string_view preset);

/// Returns the dialect of this name; in the result, nullptr is Lockstep's own vocabulary, "lockstep". Nothing if there
/// is none.
std::optional<const Dialect*> dialect_named(std::string_view name);

/// Returns the text of the error for another name.
std::string no_such_dialect(std::string_view name);

/// Returns the dialect that a file states by its key "dialect", or by naming the preset of a dialect; nothing if it
/// states none. An unknown name is a problem.
std::optional<const Dialect*> stated_dialect(const Node& document, Problems& problems);

/// Returns the dialect that knows the most keys of the files. Lockstep's own vocabulary, nullptr, wins a tie; a tie of
/// other dialects is a problem. `canonical` holds the options of all programs.
const Dialect* likely_dialect(std::span<const Node> documents, const Declaration& canonical, Problems& problems);

/// Returns the defaults of the trainer, as a document of the dialect.
Node preset_document(const Dialect& dialect);

/// Returns a declaration that sorts a command line in a dialect. It has the keys of the dialect, the options of
/// `program` outside sections, and under "lockstep." all options that a file may set or that stand in a section. The
/// options are not bound to variables.
Declaration declaration_of(const Dialect& dialect, const Declaration& program);

/// Translates a document of the dialect to the canonical vocabulary. Its section "lockstep" is canonical already. The
/// origin of each value is "FILE:LINE: KEY". Keys that are unknown, refused or contradictory are problems.
Node lower(const Dialect& dialect, const Node& document, Problems& problems);

/// Returns one line for each dialect with this key, with its meaning. For another name of a feature that this version
/// does not have, such as "lora.r" or "dpo_beta", it returns the reason; empty: the key is not known.
std::string explain_key(std::string_view key);

/// Returns the rows of a dialect as a list of an mdoc(7) page.
std::string mdoc_dialect(const Dialect& dialect);

}  // namespace lockstep
