#include "corpus/bpe_files.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/nesting.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <filesystem>

namespace lockstep {

namespace {

// Vocabularies are large objects: looked up by key in O(log n), unlike Json, which keeps the order of keys.
using Tree = nlohmann::json;

Tree parse_tree(const std::string& text, const std::string& origin) {
  refuse_deep_nesting(text, origin);
  Tree tree = Tree::parse(text, nullptr, false);
  if (tree.is_discarded()) parse_json(text, origin);   // throws, naming the place
  return tree;
}

std::string shown(const Tree& value) {
  if (value.is_object() && value.contains("type")) return value["type"].dump();
  const std::string text = value.dump();
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

/// An id that an integer holds and a vocabulary may have.
std::int32_t id_from(const Tree& value, const std::string& where) {
  constexpr std::int64_t most = std::int64_t{1} << 22;   // memory is taken for every id up to the largest
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() < most;
  if (!fits) fail(ExitCode::input, "{}: the id {} is not a whole number from 0 to {}", where, shown(value), most - 1);
  return value.get<std::int32_t>();
}

[[noreturn]] void refuse(const std::string& origin, const std::string& what) {
  throw Error(ExitCode::usage, fmt::format("{}: {} is not supported", origin, what),
              "supported are byte-level BPE tokenizers as GPT-2 has them: model BPE, pre_tokenizer ByteLevel, no normalizer");
}

// A member that must be absent, null or one of the listed values.
void require_idle(const Tree& object, const std::string& key, const std::vector<Tree>& idle, const std::string& where) {
  const auto member = object.find(key);
  if (member == object.end() || member->is_null() || std::ranges::find(idle, *member) != idle.end()) return;
  refuse(where, fmt::format("{} = {}", key, shown(*member)));
}

void require_known_keys(const Tree& object, const std::vector<std::string>& known, const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) == known.end()) refuse(where, fmt::format("the key '{}'", key));
  }
}

void read_pre_tokenizer(const Tree& rule, const std::string& origin, BpeDescription& bpe) {
  const std::string where = origin + ": pre_tokenizer";
  if (!rule.is_object() || rule.value("type", "") != "ByteLevel") refuse(origin, fmt::format("pre_tokenizer {}", shown(rule)));
  require_known_keys(rule, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, where);
  bpe.prefix_space = rule.value("add_prefix_space", true) ? PrefixSpace::add : PrefixSpace::never;
  bpe.pieces = rule.value("use_regex", true) ? PieceRule::gpt2_pattern : PieceRule::whole_text;
}

void read_model(const Tree& model, const std::string& origin, BpeDescription& bpe) {
  const std::string where = origin + ": model";
  if (model.value("type", "BPE") != "BPE") refuse(origin, fmt::format("model {}", shown(model)));
  require_known_keys(model, {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
                             "ignore_merges", "vocab", "merges"}, where);
  require_idle(model, "dropout", {0.0, 0}, where);
  require_idle(model, "continuing_subword_prefix", {""}, where);
  require_idle(model, "end_of_word_suffix", {""}, where);
  if (!model.at("vocab").is_object() || !model.at("merges").is_array()) fail(ExitCode::input, "{}: vocab is not an object, or merges not a list", where);
  bpe.whole_pieces_first = model.value("ignore_merges", false);
  for (const auto& [token, id] : model.at("vocab").items()) bpe.vocabulary.emplace_back(token, id_from(id, where));
  for (const Tree& merge : model.at("merges")) {
    if (merge.is_string()) {
      const auto parts = split(merge.get<std::string>(), ' ');
      if (parts.size() != 2) fail(ExitCode::input, "{}: the merge '{}' does not name two tokens", where, merge.get<std::string>());
      bpe.merges.emplace_back(parts[0], parts[1]);
    } else {
      bpe.merges.emplace_back(merge.at(0).get<std::string>(), merge.at(1).get<std::string>());
    }
  }
}

void read_added_tokens(const Tree& tokens, const std::string& origin, BpeDescription& bpe) {
  for (const Tree& token : tokens) {
    const std::string where = fmt::format("{}: added token {}", origin, shown(token.at("content")));
    require_idle(token, "single_word", {false}, where);
    require_idle(token, "lstrip", {false}, where);
    require_idle(token, "rstrip", {false}, where);
    bpe.added_tokens.push_back({id_from(token.at("id"), where), token.at("content").get<std::string>(), token.value("normalized", true)});
  }
}

void read_tokenizer_json(const Tree& document, const std::string& origin, BpeDescription& bpe) {
  require_known_keys(document, {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder",
                                "model"}, origin);
  for (const char* const key : {"truncation", "padding", "normalizer"}) require_idle(document, key, {}, origin);
  for (const char* const key : {"post_processor", "decoder"}) {   // a ByteLevel one moves offsets, no ids
    const Tree value = document.value(key, Tree());
    if (!value.is_null() && value.value("type", "") != "ByteLevel") refuse(origin, fmt::format("{} {}", key, shown(value)));
  }
  read_pre_tokenizer(document.at("pre_tokenizer"), origin, bpe);
  read_model(document.at("model"), origin, bpe);
  if (document.contains("added_tokens") && !document["added_tokens"].is_null()) read_added_tokens(document["added_tokens"], origin, bpe);
}

void read_merges_txt(const std::string& text, const std::string& origin, BpeDescription& bpe) {
  std::size_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    const std::string_view body = line.ends_with('\r') ? std::string_view(line).substr(0, line.size() - 1) : std::string_view(line);
    if (body.empty() || body.starts_with("#version")) continue;
    const auto parts = split(body, ' ');
    if (parts.size() != 2) fail(ExitCode::input, "{}:{}: '{}' does not name two tokens to merge", origin, number, body);
    bpe.merges.emplace_back(parts[0], parts[1]);
  }
}

// The end-of-text name of a tokenizer_config.json: a string, or an added token's content.
std::string end_name_of(const std::string& config, const std::string& origin) {
  const Tree document = parse_tree(config, origin);
  const Tree end = document.is_object() ? document.value("eos_token", Tree()) : Tree();
  if (end.is_string()) return end.get<std::string>();
  return end.is_object() && end.contains("content") && end["content"].is_string() ? end["content"].get<std::string>() : "";
}

}  // namespace

BpeDescription read_bpe(const Path& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  const Path folder = is_folder ? path : path.parent_path();
  BpeDescription bpe;
  const auto take = [&](const std::string& name) -> const std::string& {
    bpe.files.push_back({name, read_file(folder / name)});
    return bpe.files.back().content;
  };
  if (!is_folder && path.filename() != "tokenizer.json" && std::filesystem::exists(path)) {
    throw Error(ExitCode::usage, fmt::format("cannot read {} as a tokenizer", path.string()),
                "name a folder with tokenizer.json, or with vocab.json and merges.txt, or a file tokenizer.json");
  }
  const Path json = folder / "tokenizer.json";
  try {
    if (!is_folder || std::filesystem::exists(json)) {
      read_tokenizer_json(parse_tree(take("tokenizer.json"), json.string()), json.string(), bpe);
    } else if (std::filesystem::exists(folder / "vocab.json") && std::filesystem::exists(folder / "merges.txt")) {
      const Tree vocabulary = parse_tree(take("vocab.json"), (folder / "vocab.json").string());
      if (!vocabulary.is_object()) fail(ExitCode::input, "{} is not an object", (folder / "vocab.json").string());
      for (const auto& [token, id] : vocabulary.items()) bpe.vocabulary.emplace_back(token, id_from(id, (folder / "vocab.json").string()));
      read_merges_txt(take("merges.txt"), (folder / "merges.txt").string(), bpe);
    } else {
      fail(ExitCode::input, "{} holds no tokenizer: neither tokenizer.json nor vocab.json with merges.txt", folder.string());
    }
  } catch (const Tree::exception&) {
    fail(ExitCode::input, "{}: not a tokenizer: a member is missing or of another type than it should be", folder.string());
  }
  if (std::filesystem::exists(folder / "tokenizer_config.json")) {
    bpe.end_name = end_name_of(take("tokenizer_config.json"), (folder / "tokenizer_config.json").string());
  }
  return bpe;
}

}  // namespace lockstep
