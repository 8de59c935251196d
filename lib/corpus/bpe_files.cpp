#include "corpus/bpe_files.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/nesting.hpp"
#include "corpus/tokenizer_files.hpp"
#include "corpus/tokenizers.hpp"

#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <optional>

namespace lockstep {

namespace {

// Vocabularies are large: read by simdjson, and explained by parse_json where they are malformed.
using Value = simdjson::dom::element;
using Object = simdjson::dom::object;

Value parse_document(simdjson::dom::parser& parser, const std::string& text, const std::string& origin) {
  refuse_deep_nesting(text, origin);
  Value value;
  const auto error = parser.parse(text).get(value);
  if (error == simdjson::SUCCESS) return value;
  parse_json(text, origin);  // throws, naming the place
  fail(ExitCode::input, "{}: {}", origin, simdjson::error_message(error));
}

/// The member; nothing if it is absent or null.
std::optional<Value> member(const Object& object, std::string_view key) {
  Value value;
  if (object.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

std::string text_or(const Object& object, std::string_view key, std::string_view otherwise) {
  const auto value = member(object, key);
  return std::string(value ? value->get_string().value() : otherwise);
}

bool is_set(const Object& object, std::string_view key, bool otherwise) {
  const auto value = member(object, key);
  return value ? value->get_bool().value() : otherwise;
}

std::string shown(const Value& value) {
  Value type;
  if (value.is_object() && value["type"].get(type) == simdjson::SUCCESS) return simdjson::minify(type);
  const std::string text = simdjson::minify(value);
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

/// An id that an integer holds and a vocabulary may have.
std::int32_t id_from(const Value& value, const std::string& where) {
  constexpr std::uint64_t most = std::uint64_t{1} << 22;  // memory is taken for every id up to the largest
  std::uint64_t id = most;
  if (value.get_uint64().get(id) != simdjson::SUCCESS || id >= most) {
    fail(ExitCode::input, "{}: the id {} is not a whole number from 0 to {}", where, shown(value), most - 1);
  }
  return static_cast<std::int32_t>(id);
}

void read_vocabulary(const Object& vocabulary, const std::string& where, BpeDescription& bpe) {
  bpe.vocabulary.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary) bpe.vocabulary.emplace_back(token, id_from(id, where));
}

/// A merge of the two tokens that `text` names with a space between them; false if it does not.
bool add_merge(std::string_view text, BpeDescription& bpe) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) return false;
  bpe.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  return true;
}

[[noreturn]] void refuse(const std::string& origin, const std::string& what) {
  throw Error(
      ExitCode::usage, fmt::format("{}: {} is not supported", origin, what),
      "supported are byte-level BPE tokenizers as GPT-2 has them: model BPE, pre_tokenizer ByteLevel, no normalizer");
}

// Values that change no ids.
bool is_zero(const Value& value) { return value.is_number() && value.get_double().value() == 0; }
bool is_false(const Value& value) { return value.is_bool() && !value.get_bool().value(); }
bool is_empty_text(const Value& value) { return value.is_string() && value.get_string().value().empty(); }
bool never(const Value&) { return false; }

// A member that must be absent, null or idle.
void require_idle(const Object& object, const std::string& key, bool (*is_idle)(const Value&),
                  const std::string& where) {
  const auto value = member(object, key);
  if (value && !is_idle(*value)) refuse(where, fmt::format("{} = {}", key, shown(*value)));
}

void require_known_keys(const Object& object, const std::vector<std::string_view>& known, const std::string& where) {
  for (const auto& [key, value] : object) {
    if (std::ranges::find(known, key) == known.end()) refuse(where, fmt::format("the key '{}'", key));
  }
}

void read_pre_tokenizer(const Value& rule, const std::string& origin, BpeDescription& bpe) {
  if (!rule.is_object() || text_or(rule, "type", "") != "ByteLevel")
    refuse(origin, fmt::format("pre_tokenizer {}", shown(rule)));
  require_known_keys(rule, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, origin + ": pre_tokenizer");
  bpe.prefix_space = is_set(rule, "add_prefix_space", true) ? PrefixSpace::add : PrefixSpace::never;
  bpe.pieces = is_set(rule, "use_regex", true) ? PieceRule::gpt2_pattern : PieceRule::whole_text;
}

void read_merge(const Value& merge, const std::string& where, BpeDescription& bpe) {
  std::string_view text;
  if (merge.get(text) != simdjson::SUCCESS) {
    bpe.merges.emplace_back(merge.at(0).get_string().value(), merge.at(1).get_string().value());
  } else if (!add_merge(text, bpe)) {
    fail(ExitCode::input, "{}: the merge '{}' does not name two tokens", where, text);
  }
}

void read_model(const Value& model, const std::string& origin, BpeDescription& bpe) {
  const std::string where = origin + ": model";
  if (text_or(model, "type", "BPE") != "BPE") refuse(origin, fmt::format("model {}", shown(model)));
  require_known_keys(model,
                     {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                      "byte_fallback", "ignore_merges", "vocab", "merges"},
                     where);
  require_idle(model, "dropout", is_zero, where);
  require_idle(model, "continuing_subword_prefix", is_empty_text, where);
  require_idle(model, "end_of_word_suffix", is_empty_text, where);
  const Value vocabulary = model["vocab"];
  const Value merges = model["merges"];
  if (!vocabulary.is_object() || !merges.is_array())
    fail(ExitCode::input, "{}: vocab is not an object, or merges not a list", where);
  bpe.whole_pieces_first = is_set(model, "ignore_merges", false);
  read_vocabulary(vocabulary, where, bpe);
  for (const Value merge : merges.get_array()) read_merge(merge, where, bpe);
}

void read_added_tokens(const Value& tokens, const std::string& origin, BpeDescription& bpe) {
  for (const Object token : tokens.get_array()) {
    const std::string where = fmt::format("{}: added token {}", origin, shown(token["content"]));
    require_idle(token, "single_word", is_false, where);
    require_idle(token, "lstrip", is_false, where);
    require_idle(token, "rstrip", is_false, where);
    bpe.added_tokens.push_back({id_from(token["id"], where), std::string(token["content"].get_string().value()),
                                is_set(token, "normalized", true), is_set(token, "special", false)});
  }
}

void read_tokenizer_json(const Object& document, const std::string& origin, BpeDescription& bpe) {
  require_known_keys(document,
                     {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                      "post_processor", "decoder", "model"},
                     origin);
  for (const char* const key : {"truncation", "padding", "normalizer"}) require_idle(document, key, never, origin);
  for (const char* const key : {"post_processor", "decoder"}) {  // a ByteLevel one moves offsets, no ids
    const auto value = member(document, key);
    if (value && text_or(*value, "type", "") != "ByteLevel") refuse(origin, fmt::format("{} {}", key, shown(*value)));
  }
  read_pre_tokenizer(document["pre_tokenizer"], origin, bpe);
  read_model(document["model"], origin, bpe);
  if (const auto added = member(document, "added_tokens")) read_added_tokens(*added, origin, bpe);
}

void read_merges_txt(std::string_view text, const std::string& origin, BpeDescription& bpe) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version") || add_merge(line, bpe)) continue;
    fail(ExitCode::input, "{}:{}: '{}' does not name two tokens to merge", origin, number, line);
  }
}

// What a tokenizer_config.json says: the end-of-text name, a string or an added token's content, and how special tokens
// are read.
void read_tokenizer_config(const std::string& text, const std::string& origin, BpeDescription& bpe) {
  const Json config = parse_json(text, origin);
  if (!config.is_object()) fail(ExitCode::input, "{} is not a JSON object", origin);
  bpe.reading = special_tokens_in(config);
  Json end = config.value("eos_token", Json());
  if (end.is_object()) end = end.value("content", Json());
  if (end.is_string()) bpe.end_name = end.get<std::string>();
}

/// For a file that is named itself and is no tokenizer.json: what it is instead. Returns if it may be one.
void refuse_other_files(const std::string& text, const std::string& origin) {
  const auto refuse_file = [&](const std::string& what) {
    throw Error(ExitCode::usage, fmt::format("cannot read {} as a tokenizer: {}", origin, what),
                "name a file like tokenizer.json, or a folder with tokenizer.json or with vocab.json and merges.txt");
  };
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) refuse_file("it is empty");
  if (text.find('\0') != std::string::npos || text.front() == '\n')
    refuse_file("it is not text; SentencePiece models (tokenizer.model) are not supported");
  if (text.starts_with("#version")) refuse_file("it holds merges alone, without their vocabulary");
  if (text[begin] != '{') refuse_file("it is not a JSON object");
  simdjson::dom::parser parser;
  const Value document = parse_document(parser, text, origin);
  if (member(document, "model")) return;
  const Object object = document;
  const bool vocabulary = object.size() > 0 && std::all_of(object.begin(), object.end(),
                                                           [](const auto& entry) { return entry.value.is_uint64(); });
  refuse_file(vocabulary ? "it holds a vocabulary alone, without its merges" : "it has no member 'model'");
}

/// A file like tokenizer.json, whatever its name.
void read_json_file(const Path& path, BpeDescription& bpe) {
  bpe.files.push_back({"tokenizer.json", read_file(path)});
  const std::string& text = bpe.files.back().content;
  if (path.filename() != "tokenizer.json") refuse_other_files(text, path.string());
  simdjson::dom::parser parser;
  read_tokenizer_json(parse_document(parser, text, path.string()), path.string(), bpe);
}

void read_vocabulary_and_merges(const Path& folder, BpeDescription& bpe) {
  const std::string origin = (folder / "vocab.json").string();
  simdjson::dom::parser parser;
  const Value vocabulary = parse_document(parser, read_file(origin), origin);
  if (!vocabulary.is_object()) fail(ExitCode::input, "{} is not an object", origin);
  read_vocabulary(vocabulary, origin, bpe);
  const std::string merges = (folder / "merges.txt").string();
  read_merges_txt(read_file(merges), merges, bpe);
  for (const auto& [token, id] : bpe.vocabulary) {
    if (token == default_end_name) bpe.added_tokens.push_back({id, token});
  }
}

}  // namespace

BpeDescription read_bpe(const Path& path) {
  const bool is_folder = lockstep::is_folder(path);
  const Path folder = is_folder ? path : path.parent_path();
  BpeDescription bpe;
  try {
    if (!is_folder) {
      read_json_file(path, bpe);
    } else if (is_there(folder / "tokenizer.json")) {
      read_json_file(folder / "tokenizer.json", bpe);
    } else if (is_there(folder / "vocab.json") && is_there(folder / "merges.txt")) {
      read_vocabulary_and_merges(folder, bpe);
    } else {
      fail(ExitCode::input, "{} holds no tokenizer: neither tokenizer.json nor vocab.json with merges.txt",
           folder.string());
    }
  } catch (const simdjson::simdjson_error&) {
    fail(ExitCode::input, "{}: not a tokenizer: a member is missing or of another type than it should be",
         path.string());
  }
  const Path config = folder / "tokenizer_config.json";
  if (is_there(config)) {
    bpe.files.push_back({"tokenizer_config.json", read_file(config)});
    read_tokenizer_config(bpe.files.back().content, config.string(), bpe);
  }
  return bpe;
}

std::string bpe_tokenizer_json(const BpeDescription& bpe) {
  std::vector<std::pair<std::string, std::int32_t>> ordered = bpe.vocabulary;
  std::ranges::stable_sort(ordered, {}, [](const auto& entry) { return entry.second; });
  Json vocabulary = Json::object();
  for (const auto& [token, id] : ordered) vocabulary[token] = id;
  Json merges = Json::array();
  for (const auto& [left, right] : bpe.merges) merges.push_back(Json::array({left, right}));
  Json added = Json::array();
  for (const AddedToken& token : bpe.added_tokens) added.push_back(added_token_json(token.id, token.content));
  const Json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return hf_tokenizer_json(added, byte_level, byte_level, bpe_model_json(vocabulary, merges));
}

}  // namespace lockstep
