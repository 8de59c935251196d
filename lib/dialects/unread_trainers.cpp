#include "dialects/unread_trainers.hpp"

#include "base/text.hpp"
#include "options/interpret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <span>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

/// A key and the option of train that stands for it. The first row of an option whose key is there gives its value.
struct MainKey {
  std::string_view key;  // dotted; a number is a position in a list
  std::string_view option;
  std::string_view placeholder = {};  // printed if no key of the option is there; empty: the option is left out
  // Not set: the value as it is. An empty result: as if the key was not there.
  std::string (*translate)(const std::string& value, const Node& document) = nullptr;
};

struct Unsupported {
  std::string_view key;
  std::string_view contains;  // a part of the value; empty: every value but false
  std::string_view missing;
};

struct Trainer {
  std::string_view name;
  std::span<const std::string_view> marks;  // a file has at least two of these keys
  std::span<const MainKey> keys;
  std::span<const Unsupported> unsupported = {};
};

const Node* at(const Node& document, std::string_view path) {
  const Node* node = &document;
  for (const std::string& part : split(path, '.')) {
    if (node->kind == Node::Kind::list) {
      const auto position = static_cast<std::size_t>(part.front() - '0');
      if (position >= node->items.size()) return nullptr;
      node = &node->items[position];
    } else {
      node = node->find(part);
    }
    if (node == nullptr) return nullptr;
  }
  return node->kind == Node::Kind::null ? nullptr : node;
}

std::optional<long> factor_of(std::string_view text) {
  text = trim(text);
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The value of "12" or "5 * 8".
std::optional<long> product_of(const std::string& text) {
  long product = 1;
  for (const std::string& part : split(text, '*')) {
    const std::optional<long> factor = factor_of(part);
    if (!factor) return std::nullopt;
    product *= *factor;
  }
  return product;
}

std::string positive(const std::string& value, const Node&) { return value.starts_with('-') ? "" : value; }

std::string axolotl_records(const std::string& type, const Node&) {
  if (type.starts_with("alpaca")) return "instruction";
  if (type.starts_with("chat_template") || type.starts_with("sharegpt")) return "messages";
  return "";
}

std::string torchtitan_data(const std::string& name, const Node&) { return name == "c4" ? "allenai/c4" : name; }

std::string torchtitan_part(const std::string& name, const Node&) { return name == "c4" ? "en" : ""; }

std::string nanogpt_data(const std::string& name, const Node&) {
  return name.starts_with("shakespeare") ? fmt::format("data/{}/input.txt", name) : name;
}

std::string nanogpt_model(const std::string& start, const Node&) { return start.starts_with("gpt2") ? start : ""; }

/// All micro batches of a step, as its accumulation counts those of all ranks.
std::string nanogpt_batch(const std::string& micro_batch, const Node& document) {
  const Node* const accumulation = at(document, "gradient_accumulation_steps");
  const std::optional<long> parts = accumulation == nullptr ? 1 : product_of(accumulation->text);
  const std::optional<long> rows = product_of(micro_batch);
  return parts && rows ? fmt::to_string(*parts * *rows) : "";
}

constexpr std::array<std::string_view, 6> axolotl_marks{"base_model",       "sequence_len", "sample_packing",
                                                        "micro_batch_size", "adapter",      "datasets"};
constexpr std::array axolotl_keys{
    MainKey{"base_model", "model.path", "FOLDER"},
    MainKey{"datasets.0.path", "data.path"},
    MainKey{"pretraining_dataset.0.path", "data.path"},
    MainKey{"pretraining_dataset", "data.path", "FILES"},
    MainKey{"datasets.0.type", "data.records", "", axolotl_records},
    MainKey{"sequence_len", "data.sequence_length"},
    MainKey{"micro_batch_size", "train.micro_batch", "SEQUENCES"},
    MainKey{"gradient_accumulation_steps", "train.accumulation"},
    MainKey{"max_steps", "train.max_steps", "", positive},
    MainKey{"num_epochs", "train.epochs"},
    MainKey{"learning_rate", "optimizer.lr", "RATE"},
};
constexpr std::array axolotl_unsupported{
    Unsupported{"adapter", "", "adapters"}, Unsupported{"load_in_4bit", "", "training on 4-bit weights"},
    Unsupported{"load_in_8bit", "", "training on 8-bit weights"}, Unsupported{"rl", "", "training on preferences"}};

constexpr std::array<std::string_view, 5> torchtitan_marks{"model.flavor", "training.seq_len", "training.steps",
                                                           "parallelism.data_parallel_shard_degree", "job.dump_folder"};
constexpr std::array torchtitan_keys{
    MainKey{"model.hf_assets_path", "model.config"},
    MainKey{"model.tokenizer_path", "model.config", "FOLDER"},
    MainKey{"training.dataset_path", "data.path"},
    MainKey{"training.dataset", "data.path", "FILES", torchtitan_data},
    MainKey{"training.dataset", "data.name", "", torchtitan_part},
    MainKey{"training.seq_len", "data.sequence_length"},
    MainKey{"training.global_batch_size", "train.global_batch", "", positive},
    MainKey{"training.local_batch_size", "train.micro_batch"},
    MainKey{"training.batch_size", "train.micro_batch", "SEQUENCES"},
    MainKey{"training.steps", "train.max_steps"},
    MainKey{"optimizer.lr", "optimizer.lr", "RATE"},
};
constexpr std::array torchtitan_unsupported{Unsupported{"model.converters", "float8", "fp8"},
                                            Unsupported{"model.converters", "mx", "MX formats"}};

constexpr std::array<std::string_view, 6> nanogpt_marks{"block_size", "max_iters", "lr_decay_iters",
                                                        "n_layer",    "init_from", "eval_iters"};
constexpr std::array nanogpt_keys{
    MainKey{"init_from", "model.path", "", nanogpt_model},
    MainKey{"init_from", "model.config", "FILE", [](const std::string&, const Node&) { return std::string(); }},
    MainKey{"dataset", "data.path", "FILES", nanogpt_data},
    MainKey{"block_size", "data.sequence_length"},
    MainKey{"batch_size", "train.global_batch", "SEQUENCES", nanogpt_batch},
    MainKey{"max_iters", "train.max_steps"},
    MainKey{"learning_rate", "optimizer.lr", "RATE"},
};

constexpr std::array trainers{Trainer{"axolotl", axolotl_marks, axolotl_keys, axolotl_unsupported},
                              Trainer{"torchtitan", torchtitan_marks, torchtitan_keys, torchtitan_unsupported},
                              Trainer{"nanoGPT", nanogpt_marks, nanogpt_keys}};

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_-./:,=+@").find(c) != std::string::npos;
}

/// For a command line.
std::string quoted(const std::string& value) {
  return std::ranges::all_of(value, is_plain) ? value : fmt::format("'{}'", value);
}

/// model.path and model.config are two ways to give one value.
std::string_view value_given_by(std::string_view option) { return option.starts_with("model.") ? "model" : option; }

std::string options_of(const Trainer& trainer, const Node& document) {
  std::vector<std::string> words;
  std::vector<std::string_view> given;
  for (const MainKey& row : trainer.keys) {
    if (std::ranges::find(given, value_given_by(row.option)) != given.end()) continue;
    const Node* const value = at(document, row.key);
    std::string text;
    if (value != nullptr && value->kind == Node::Kind::scalar)
      text = quoted(row.translate == nullptr ? value->text : row.translate(value->text, document));
    if (text.empty()) text = row.placeholder;
    if (text.empty()) continue;
    given.push_back(value_given_by(row.option));
    words.push_back(fmt::format("--{} {}", row.option, text));
  }
  return join(words, " ");
}

bool asks_for(const Unsupported& row, const Node& document) {
  const Node* const value = at(document, row.key);
  if (value == nullptr || (value->kind == Node::Kind::scalar && value->text.empty())) return false;
  return row.contains.empty() ? flag_word(value->text).value_or(true)
                              : value->text.find(row.contains) != std::string::npos;
}

}  // namespace

std::optional<OtherTrainer> find_other_trainer(const Node& document) {
  for (const Trainer& trainer : trainers) {
    const auto marks =
        std::ranges::count_if(trainer.marks, [&](std::string_view mark) { return at(document, mark) != nullptr; });
    if (marks < 2) continue;
    OtherTrainer found{.name = std::string(trainer.name), .options = options_of(trainer, document), .missing = {}};
    std::vector<std::string> missing;
    for (const Unsupported& row : trainer.unsupported)
      if (asks_for(row, document)) missing.emplace_back(row.missing);
    found.missing = join(missing, " and ");
    return found;
  }
  return std::nullopt;
}

namespace {

bool is_key(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::ranges::all_of(text, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
         });
}

/// A value without its quotes, or without the comment behind it.
std::string plain_value(std::string_view text) {
  text = trim(text);
  if (!text.empty() && (text.front() == '"' || text.front() == '\''))
    return std::string(text.substr(1, text.find(text.front(), 1) - 1));
  return std::string(trim(text.substr(0, text.find('#'))));
}

void assign(Node& document, const std::string& path, std::string value) {
  Node* node = &document;
  for (const std::string& part : split(path, '.')) {
    node->kind = Node::Kind::map;
    if (node->find(part) == nullptr) node->entries.push_back({part, Node{}});
    node = node->find(part);
  }
  node->kind = Node::Kind::scalar;
  node->text = std::move(value);
}

}  // namespace

std::optional<Node> read_assignments(std::string_view text) {
  Node document;
  std::string table;
  char open = '\0';  // the end of a value over several lines
  for (const std::string& whole : split(text, '\n')) {
    const std::string_view line = trim(whole);
    if (open != '\0') {
      if (line.find(open) != std::string_view::npos) open = '\0';
      continue;
    }
    if (line.empty() || line.starts_with('#') || line.starts_with("import ") || line.starts_with("from ")) continue;
    if (line.starts_with('[')) {
      const std::size_t end = line.find(']');
      const std::size_t begin = line.find_first_not_of('[');
      if (end == std::string_view::npos || begin >= end || !is_key(line.substr(begin, end - begin)))
        return std::nullopt;
      table = std::string(line.substr(begin, end - begin)) + ".";
      continue;
    }
    const std::size_t sign = line.find('=');
    if (sign == std::string_view::npos || line.substr(sign).starts_with("==")) return std::nullopt;
    const std::string_view key = trim(line.substr(0, sign)), value = trim(line.substr(sign + 1));
    if (!is_key(key) || value.empty()) return std::nullopt;
    if (value.starts_with('[') && value.find(']') == std::string_view::npos) open = ']';
    assign(document, table + std::string(key), plain_value(value));
  }
  if (document.kind != Node::Kind::map) return std::nullopt;
  return document;
}

std::string explain(const OtherTrainer& trainer) {
  return fmt::format("a configuration of {} is not read; its main settings as options of train: {}{}", trainer.name,
                     trainer.options,
                     trainer.missing.empty() ? "" : fmt::format(" ({}: not supported)", trainer.missing));
}

}  // namespace lockstep
