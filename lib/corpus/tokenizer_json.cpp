#include "corpus/tokenizer_json.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/nesting.hpp"
#include "corpus/json_member.hpp"
#include "corpus/rank_file.hpp"
#include "corpus/tokenizer_files.hpp"
#include "corpus/tokenizer_part.hpp"
#include "corpus/tokenizers.hpp"

#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <unordered_map>

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
  const auto value = member_of(object, key);
  return value && !value->is_null() ? value : std::nullopt;
}

/// The same of one that has to be there.
Value required(const Object& object, std::string_view key) {
  const auto value = member_of(object, key);
  if (!value) throw simdjson::simdjson_error(simdjson::NO_SUCH_FIELD);
  return *value;
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
  if (value.is_object())
    if (const auto type = member_of(value, "type")) return simdjson::minify(*type);
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

void read_vocabulary(const Object& vocabulary, const std::string& where, ModelDescription& model) {
  model.vocabulary.reserve(vocabulary.size());
  std::unordered_map<std::string_view, std::size_t> places;  // of a token given twice the last id counts
  places.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary) {
    const std::int32_t number = id_from(id, where);
    const auto [place, is_new] = places.emplace(token, model.vocabulary.size());
    if (is_new)
      model.vocabulary.emplace_back(token, number);
    else
      model.vocabulary[place->second].second = number;
  }
}

/// A merge of the two tokens that `text` names with a space between them; false if it does not.
bool add_merge(std::string_view text, ModelDescription& model) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) return false;
  model.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  return true;
}

[[noreturn]] void refuse(const std::string& origin, const std::string& what) {
  throw Error(ExitCode::usage, fmt::format("{}: {} is not supported", origin, what),
              "lockstep's manual, prepare-data(1), lists what is");
}

// Values that change no ids.
bool is_zero(const Value& value) { return value.is_number() && value.get_double().value() == 0; }
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

/// A small member as a Json; null where it is absent.
Json part_of(const Object& document, const std::string& key, const std::string& origin) {
  const auto value = member(document, key);
  return value ? parse_json(simdjson::minify(*value), origin) : Json();
}

void read_merge(const Value& merge, const std::string& where, ModelDescription& model) {
  std::string_view text;
  if (merge.get(text) != simdjson::SUCCESS) {
    model.merges.emplace_back(merge.at(0).get_string().value(), merge.at(1).get_string().value());
  } else if (!add_merge(text, model)) {
    fail(ExitCode::input, "{}: the merge '{}' does not name two tokens", where, text);
  }
}

Object vocabulary_of(const Object& file, const std::string& where) {
  const Value vocabulary = required(file, "vocab");
  if (!vocabulary.is_object()) fail(ExitCode::input, "{}: vocab is not an object", where);
  return vocabulary;
}

void read_bpe(const Object& file, const std::string& where, ModelDescription& model) {
  require_known_keys(file,
                     {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                      "byte_fallback", "ignore_merges", "vocab", "merges"},
                     where);
  require_idle(file, "dropout", is_zero, where);
  if (member(file, "unk_token")) model.unknown = text_or(file, "unk_token", "");
  model.prefix = text_or(file, "continuing_subword_prefix", "");
  model.suffix = text_or(file, "end_of_word_suffix", "");
  model.fuse_unknown = is_set(file, "fuse_unk", false);
  model.byte_fallback = is_set(file, "byte_fallback", false);
  model.whole_pieces_first = is_set(file, "ignore_merges", false);
  const Value vocabulary = required(file, "vocab");
  const Value merges = required(file, "merges");
  if (!vocabulary.is_object() || !merges.is_array())
    fail(ExitCode::input, "{}: vocab is not an object, or merges not a list", where);
  read_vocabulary(vocabulary, where, model);
  for (const Value merge : merges.get_array()) read_merge(merge, where, model);
}

void read_word_piece(const Object& file, const std::string& where, ModelDescription& model) {
  require_known_keys(file, {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"},
                     where);
  model.unknown = text_or(file, "unk_token", "[UNK]");
  model.prefix = text_or(file, "continuing_subword_prefix", "##");
  if (const auto most = member(file, "max_input_chars_per_word")) model.longest_word = most->get_uint64().value();
  read_vocabulary(vocabulary_of(file, where), where, model);
}

void read_word_level(const Object& file, const std::string& where, ModelDescription& model) {
  require_known_keys(file, {"type", "unk_token", "vocab"}, where);
  model.unknown = text_or(file, "unk_token", "<unk>");
  read_vocabulary(vocabulary_of(file, where), where, model);
}

void read_unigram(const Object& file, const std::string& where, ModelDescription& model) {
  require_known_keys(file, {"type", "unk_id", "vocab", "byte_fallback", "fuse_unk"}, where);
  model.byte_fallback = is_set(file, "byte_fallback", false);
  model.fuse_unknown = is_set(file, "fuse_unk", true);
  for (const Value entry : required(file, "vocab").get_array()) {
    const auto id = static_cast<std::int32_t>(model.vocabulary.size());
    model.vocabulary.emplace_back(entry.at(0).get_string().value(), id);
    model.scores.push_back(entry.at(1).get_double().value());
  }
  if (model.vocabulary.empty()) fail(ExitCode::input, "{}: the vocabulary is empty", where);
  if (const auto id = member(file, "unk_id")) {
    model.unknown_id = id_from(*id, where);
    if (static_cast<std::size_t>(*model.unknown_id) >= model.vocabulary.size())
      fail(ExitCode::input, "{}: unk_id is {}, the vocabulary has {} entries", where, *model.unknown_id,
           model.vocabulary.size());
  }
}

void read_model(const Value& file, const std::string& origin, ModelDescription& model) {
  const std::string where = origin + ": model";
  const std::string type = text_or(file, "type", "BPE");
  model.kind = type == "BPE"         ? ModelKind::bpe
               : type == "WordPiece" ? ModelKind::word_piece
               : type == "WordLevel" ? ModelKind::word_level
               : type == "Unigram"   ? ModelKind::unigram
                                     : (refuse(origin, fmt::format("model {}", shown(file))), ModelKind::bpe);
  switch (model.kind) {
    case ModelKind::bpe: return read_bpe(file, where, model);
    case ModelKind::word_piece: return read_word_piece(file, where, model);
    case ModelKind::word_level: return read_word_level(file, where, model);
    case ModelKind::unigram: return read_unigram(file, where, model);
  }
}

void read_added_tokens(const Value& tokens, const std::string& origin, TokenizerDescription& tokenizer) {
  for (const Object token : tokens.get_array()) {
    const std::string where = fmt::format("{}: added token {}", origin, shown(required(token, "content")));
    require_known_keys(token, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}, where);
    tokenizer.added_tokens.push_back(
        {id_from(required(token, "id"), where), std::string(required(token, "content").get_string().value()),
         is_set(token, "normalized", true), is_set(token, "special", false), is_set(token, "single_word", false),
         is_set(token, "lstrip", false), is_set(token, "rstrip", false)});
  }
}

// Whether a template leaves a text as it is but for special tokens around it: the text itself stands in it once.
bool frames_a_text(const Json& single) {
  if (!single.is_array()) return false;
  std::size_t texts = 0;
  for (const Json& piece : single) {
    if (!piece.is_object()) return false;
    const Json sequence = piece.value("Sequence", Json());
    if (sequence.is_null()) continue;
    if (!sequence.is_object() || sequence.value("id", Json()) != "A") return false;
    ++texts;
  }
  return texts == 1;
}

// What is asked for is encode(text, add_special_tokens=False) of the library, of which post-processors leave the ids as
// they are: they add special tokens around a text, or change where tokens are said to lie.
void check_post_processor(const TokenizerPart& part) {
  if (part.type() == "Sequence") {
    for (const TokenizerPart& one : part.parts("processors")) check_post_processor(one);
  } else if (part.type() == "TemplateProcessing") {
    if (!frames_a_text(part.value("single"))) part.refuse("single");
  } else if (part.type() != "ByteLevel" && part.type() != "BertProcessing" && part.type() != "RobertaProcessing") {
    part.refuse();
  }
}

void read_document(const Object& document, const std::string& origin, TokenizerDescription& tokenizer) {
  require_known_keys(document,
                     {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                      "post_processor", "decoder", "model"},
                     origin);
  for (const char* const key : {"truncation", "padding"}) require_idle(document, key, never, origin);
  const auto part = [&](const char* key) { return part_of(document, key, origin); };
  if (const Json processor = part("post_processor"); !processor.is_null())
    check_post_processor(TokenizerPart(processor, origin + ": post_processor"));
  tokenizer.normalizer = Normalizer(part("normalizer"), origin + ": normalizer");
  tokenizer.pre_tokenizer = PreTokenizer(part("pre_tokenizer"), origin + ": pre_tokenizer");
  tokenizer.decoder = TokenDecoder(part("decoder"), origin + ": decoder");
  read_model(required(document, "model"), origin, tokenizer.model);
  if (const auto added = member(document, "added_tokens")) read_added_tokens(*added, origin, tokenizer);
}

void read_merges_txt(std::string_view text, const std::string& origin, ModelDescription& model) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version") || add_merge(line, model)) continue;
    fail(ExitCode::input, "{}:{}: '{}' does not name two tokens to merge", origin, number, line);
  }
}

// What a tokenizer_config.json says: the end-of-text name, a string or an added token's content, and how special tokens
// are read.
void read_tokenizer_config(const std::string& text, const std::string& origin, TokenizerDescription& tokenizer) {
  const Json config = parse_json(text, origin);
  if (!config.is_object()) fail(ExitCode::input, "{} is not a JSON object", origin);
  tokenizer.reading = special_tokens_in(config);
  Json end = config.value("eos_token", Json());
  if (end.is_object()) end = end.value("content", Json());
  if (end.is_string()) tokenizer.end_name = end.get<std::string>();
}

/// For a file that is named itself and is no tokenizer.json: what it is instead. Returns if it may be one.
void refuse_other_files(const std::string& text, const std::string& origin) {
  const auto refuse_file = [&](const std::string& what) {
    throw Error(ExitCode::usage, fmt::format("cannot read {} as a tokenizer: {}", origin, what),
                "name a file like tokenizer.json or tokenizer.model, or a folder with one or with vocab.json and "
                "merges.txt");
  };
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) refuse_file("it is empty");
  if (text.find('\0') != std::string::npos) refuse_file("it is not text, and no model of sentencepiece");
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

/// A file like tokenizer.json or a rank file, whatever its name.
TokenizerDescription read_file_of_any_name(const Path& path) {
  std::string text = read_file(path);
  if (is_rank_file(text)) return read_rank_file(text, path.string());
  if (path.filename() != "tokenizer.json") refuse_other_files(text, path.string());
  TokenizerDescription tokenizer = parse_tokenizer_json(text, path.string());
  tokenizer.files.push_back({"tokenizer.json", std::move(text)});
  return tokenizer;
}

TokenizerDescription read_vocabulary_and_merges(const Path& folder) {
  TokenizerDescription tokenizer;
  const std::string origin = (folder / "vocab.json").string();
  simdjson::dom::parser parser;
  const Value vocabulary = parse_document(parser, read_file(origin), origin);
  if (!vocabulary.is_object()) fail(ExitCode::input, "{} is not an object", origin);
  read_vocabulary(vocabulary, origin, tokenizer.model);
  const std::string merges = (folder / "merges.txt").string();
  read_merges_txt(read_file(merges), merges, tokenizer.model);
  for (const auto& [token, id] : tokenizer.model.vocabulary) {
    if (token == default_end_name) tokenizer.added_tokens.push_back({id, token});
  }
  tokenizer.pre_tokenizer = PreTokenizer(PieceRule::gpt2);
  tokenizer.files.push_back({"tokenizer.json", bpe_tokenizer_json(tokenizer, PieceRule::gpt2)});
  return tokenizer;
}

TokenizerDescription read_any(const Path& path) {
  if (!is_folder(path)) return read_file_of_any_name(path);
  for (const char* const name : {"tokenizer.json", "tokenizer.model"}) {
    if (is_there(path / name)) return read_file_of_any_name(path / name);
  }
  if (is_there(path / "vocab.json") && is_there(path / "merges.txt")) return read_vocabulary_and_merges(path);
  fail(ExitCode::input,
       "{} holds no tokenizer: neither tokenizer.json, nor tokenizer.model, nor vocab.json with "
       "merges.txt",
       path.string());
}

}  // namespace

TokenizerDescription parse_tokenizer_json(const std::string& text, const std::string& origin) {
  try {
    simdjson::dom::parser parser;
    TokenizerDescription tokenizer;
    read_document(parse_document(parser, text, origin), origin, tokenizer);
    return tokenizer;
  } catch (const simdjson::simdjson_error&) {
    fail(ExitCode::input, "{}: not a tokenizer: a member is missing or of another type than it should be", origin);
  }
}

TokenizerDescription read_tokenizer(const Path& path) {
  TokenizerDescription tokenizer;
  try {
    tokenizer = read_any(path);
  } catch (const simdjson::simdjson_error&) {
    fail(ExitCode::input, "{}: not a tokenizer: a member is missing or of another type than it should be",
         path.string());
  }
  const Path config = (is_folder(path) ? path : path.parent_path()) / "tokenizer_config.json";
  if (is_there(config)) {
    std::erase_if(tokenizer.files, [](const TokenizerFile& file) { return file.name == "tokenizer_config.json"; });
    tokenizer.files.push_back({"tokenizer_config.json", read_file(config)});
    read_tokenizer_config(tokenizer.files.back().content, config.string(), tokenizer);
  }
  return tokenizer;
}

std::string bpe_tokenizer_json(const TokenizerDescription& bpe, PieceRule rule) {
  std::vector<std::pair<std::string, std::int32_t>> ordered = bpe.model.vocabulary;
  std::ranges::stable_sort(ordered, {}, [](const auto& entry) { return entry.second; });
  Json vocabulary = Json::object();
  auto& entries = vocabulary.get_ref<Json::object_t&>();  // tokens differ: no look-up for each
  for (auto& [token, id] : ordered) entries.emplace_back(std::move(token), id);
  Json merges = Json::array();
  for (const auto& [left, right] : bpe.model.merges) merges.push_back(Json::array({left, right}));
  Json added = Json::array();
  for (const AddedToken& token : bpe.added_tokens) added.push_back(added_token_json(token.id, token.content));
  const bool is_gpt2 = rule == PieceRule::gpt2;
  const auto byte_level = [](bool uses_expression) {
    return Json{
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", uses_expression}};
  };
  Json pre_tokenizer = byte_level(is_gpt2);
  if (!is_gpt2) {
    const Json split{
        {"type", "Split"}, {"pattern", {{"Regex", expression_of(rule)}}}, {"behavior", "Isolated"}, {"invert", false}};
    pre_tokenizer = Json{{"type", "Sequence"}, {"pretokenizers", Json::array({split, pre_tokenizer})}};
  }
  Json model = bpe_model_json(vocabulary, merges);
  model["ignore_merges"] = bpe.model.whole_pieces_first;
  return hf_tokenizer_json(added, pre_tokenizer, byte_level(true), model);
}

}  // namespace lockstep
