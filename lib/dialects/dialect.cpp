#include "dialects/dialect.hpp"

#include "base/text.hpp"
#include "dialects/dialect_hf.hpp"
#include "dialects/dialect_tables.hpp"
#include "options/faces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep {

namespace {

/// Features that this version does not have, by words that are parts of the names of their options.
struct AbsentFeature {
  std::string_view words;  // between blanks
  std::string_view reason;
};
constexpr std::array<AbsentFeature, 4> absent_features{{
    {" adapter adapters lora qlora dora rslora peft ", hf::no_adapters},
    {" fp8 float8 fp4 nvfp4 mxfp4 mxfp8 ", "this version trains in fp64, fp32, bf16 or fp16 (precision.dtype)"},
    {" bnb bitsandbytes nf4 gptq awq 4bit 8bit quantization quantized ",
     "this version trains no quantized weights; finalize-quantize exports weights in 8 bits"},
    {" dpo ipo kto orpo simpo ppo grpo rloo rlhf reward preference ", hf::no_preferences},
}};

/// The reason in a line; empty: no word of the name is in the table.
std::string reason_of_absence(std::string_view name) {
  std::string words = lower_ascii(name);
  std::ranges::replace_if(words, [](char letter) { return letter == '_' || letter == '-'; }, '.');
  for (const std::string& word : split(words, '.'))
    for (const AbsentFeature& feature : absent_features)
      if (!word.empty() && feature.words.find(" " + word + " ") != std::string_view::npos)
        return fmt::format("{}\n", feature.reason);
  return {};
}

OptionType type_of(DialectKey::Value value) {
  switch (value) {
    case DialectKey::Value::flag: return {.kind = OptionType::Kind::boolean, .optional = true};
    case DialectKey::Value::number:
    case DialectKey::Value::text: return {.kind = OptionType::Kind::text, .optional = true};
    case DialectKey::Value::list:
    case DialectKey::Value::map:
      return {.kind = OptionType::Kind::list, .optional = true, .element = {{.kind = OptionType::Kind::text}}};
  }
  throw Error(ExitCode::bug, "unknown DialectKey::Value");
}

/// The dotted names of all values of a document, down to `depth` maps.
void leaves(const Node& node, const std::string& prefix, int depth, std::vector<std::string>& names) {
  for (const Node::Entry& entry : node.entries) {
    const std::string name = prefix + entry.key;
    if (entry.value.kind == Node::Kind::map && depth > 0) {
      leaves(entry.value, name + ".", depth - 1, names);
    } else {
      names.push_back(name);
    }
  }
}

bool knows(const Dialect& dialect, const std::string& name) {
  return std::ranges::any_of(dialect.keys, [&](const DialectKey& key) {
    return key.name == name || name.starts_with(std::string(key.name) + ".");
  });
}

bool knows(const Declaration& canonical, const std::string& name) {
  return std::ranges::any_of(canonical.options(), [&](const Option& option) {
    return option.path == name || name.starts_with(option.path + ".");
  });
}

/// What a row says of its key.
std::string meaning(const DialectKey& key) {
  std::string text;
  switch (key.state) {
    case DialectKey::State::taken:
      text = key.canonical.empty() ? "" : fmt::format("becomes {}", key.canonical);
      if (!key.note.empty()) text += (text.empty() ? "" : "; ") + std::string(key.note);
      break;
    case DialectKey::State::moot: text = fmt::format("has no effect: {}", key.note); break;
    case DialectKey::State::noted: text = fmt::format("has no effect, as the log says: {}", key.note); break;
    case DialectKey::State::refused:
      text = key.harmless.empty() ? fmt::format("is refused: {}", key.note)
                                  : fmt::format("has no effect as {}; otherwise refused: {}",
                                                join(split(std::string(key.harmless), '|'), " or "), key.note);
      break;
  }
  if (!key.below.empty()) text += fmt::format("; used only if {} is on", key.below);
  return text;
}

}  // namespace

std::span<const Dialect* const> dialects() {
  static const std::array<const Dialect*, 3> all{&forgather_dialect(), &transformers_dialect(), &xorl_dialect()};
  return all;
}

const Dialect* find_dialect(std::string_view name) {
  const auto all = dialects();
  const auto found = std::ranges::find_if(all, [&](const Dialect* dialect) { return dialect->name == name; });
  return found == all.end() ? nullptr : *found;
}

const Dialect* dialect_of_preset(std::string_view preset) {
  const auto all = dialects();
  const auto found = std::ranges::find_if(all, [&](const Dialect* dialect) { return dialect->preset == preset; });
  return found == all.end() ? nullptr : *found;
}

std::optional<const Dialect*> stated_dialect(const Node& document, Problems& problems) {
  if (const Node* const stated = document.find("dialect"); stated != nullptr && stated->kind != Node::Kind::null) {
    const std::optional<const Dialect*> dialect = dialect_named(stated->text);
    if (!dialect) problems.add_unread(stated->origin, no_such_dialect(stated->text));
    return dialect;
  }
  const Node* const preset = document.find("preset");
  if (preset == nullptr) return std::nullopt;
  for (const Node& name : preset->kind == Node::Kind::list ? preset->items : std::vector{*preset})
    if (const Dialect* const dialect = dialect_of_preset(name.text)) return dialect;
  return std::nullopt;
}

std::optional<const Dialect*> dialect_named(std::string_view name) {
  if (name == "lockstep") return nullptr;
  const Dialect* const dialect = find_dialect(name);
  return dialect == nullptr ? std::nullopt : std::optional(dialect);
}

std::string no_such_dialect(std::string_view name) {
  std::vector<std::string> names{"lockstep"};
  for (const Dialect* const dialect : dialects()) names.emplace_back(dialect->name);
  return fmt::format("there is no dialect \"{}\": it is one of {}", name, join(names, ", "));
}

const Dialect* likely_dialect(std::span<const Node> documents, const Declaration& canonical, Problems& problems) {
  std::vector<std::string> names;
  for (const Node& document : documents) leaves(document, "", 1, names);
  std::erase_if(names, [](const std::string& name) {
    return name == "preset" || name == "lockstep" || name.starts_with("lockstep.");
  });
  const auto known = [&](const auto& vocabulary) {
    return std::ranges::count_if(names, [&](const std::string& name) { return knows(vocabulary, name); });
  };
  auto most = known(canonical);
  std::vector<const Dialect*> likely{nullptr};
  for (const Dialect* const dialect : dialects()) {
    const auto count = known(*dialect);
    if (count > most) likely.clear();
    if (count > most || (count == most && likely.front() != nullptr)) likely.push_back(dialect);
    most = std::max(most, count);
  }
  if (likely.size() > 1) {
    std::vector<std::string> which;
    for (const Dialect* const dialect : likely) which.push_back(fmt::format("\"dialect: {}\"", dialect->name));
    problems.add_unread(documents.front().origin,
                        fmt::format("its keys belong to several trainers: add {}", join(which, " or ")));
  }
  return likely.front();
}

Node preset_document(const Dialect& dialect) {
  Node document;
  document.kind = Node::Kind::map;
  document.origin = fmt::format("preset {}", dialect.preset);
  Problems none;
  for (const DialectKey& key : dialect.keys) {
    if (key.built_in.empty()) continue;
    Node* at = &document;
    for (const std::string& part : split(std::string(key.name), '.')) {
      at->kind = Node::Kind::map;
      if (at->find(part) == nullptr) at->entries.push_back({part, Node{}});
      at = at->find(part);
    }
    *at = parse_yaml(std::string(key.built_in), document.origin, none);
    at->origin = document.origin;
  }
  return document;
}

Declaration declaration_of(const Dialect& dialect, const Declaration& program) {
  Declaration words;
  for (const DialectKey& key : dialect.keys) {
    Option option;
    option.path = key.name;
    option.type = type_of(key.value);
    option.facts.brief = meaning(key);
    option.facts.of_dialect = true;
    words.add(std::move(option));
  }
  for (const Option& option : program.options()) {
    const bool in_section = option.path.find('.') != std::string::npos;
    if (in_section || !option.facts.command_line_only) {
      Option own = option;
      own.path = "lockstep." + option.path;
      own.facts.positional = false;
      words.add(std::move(own));
    }
    if (!in_section) words.add(option);
  }
  return words;
}

std::string explain_key(std::string_view key) {
  std::string text;
  for (const Dialect* const dialect : dialects()) {
    for (const std::span<const DialectKey> rows : {dialect->keys, dialect->parts}) {
      for (const DialectKey& row : rows) {
        if (row.name != key && !row.name.ends_with("." + std::string(key))) continue;
        text += fmt::format("{} (dialect {}) {}\n", row.name, dialect->name, meaning(row));
      }
    }
  }
  return text.empty() ? reason_of_absence(key) : text;
}

std::string mdoc_dialect(const Dialect& dialect) {
  std::string text = ".Bl -tag -width Ds -compact\n";
  std::vector<DialectKey> rows(dialect.keys.begin(), dialect.keys.end());
  rows.insert(rows.end(), dialect.parts.begin(), dialect.parts.end());
  for (const DialectKey& key : rows) {
    text += fmt::format(".It Cm {}\n{}.\n", key.name, mdoc_text(capitalised(meaning(key))));
  }
  return text + ".El\n";
}

}  // namespace lockstep
