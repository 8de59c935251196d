#include "tokenizer/tokenizer_json.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_member.hpp"
#include "base/nesting.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_part.hpp"

#include <simdjson.h>

#include <algorithm>
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
              "prepare-data(1) lists the supported ones");
}

// Values that change no ids.
bool is_zero(const Value& value) { return value.is_number() && value.get_double().value() == 0; }

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
      fail(ExitCode::input, "{}: unk_id is {}, but the vocabulary has {} entries", where, *model.unknown_id,
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
  for (const char* const key : {"truncation", "padding"}) {
    if (member(document, key))
      tokenizer.notes.push_back(fmt::format("{}: {} is ignored, as in transformers", origin, key));
  }
  if (const auto padding = member(document, "padding")) tokenizer.padding_token = text_or(*padding, "pad_token", "");
  const auto part = [&](const char* key) { return part_of(document, key, origin); };
  if (const Json processor = part("post_processor"); !processor.is_null())
    check_post_processor(TokenizerPart(processor, origin + ": post_processor"));
  tokenizer.parts = {part("normalizer"), part("pre_tokenizer")};
  tokenizer.normalizer = Normalizer(tokenizer.parts.normalizer, origin + ": normalizer");
  tokenizer.pre_tokenizer = PreTokenizer(tokenizer.parts.pre_tokenizer, origin + ": pre_tokenizer");
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

}  // namespace

TokenizerDescription parse_tokenizer_json(const std::string& text, const std::string& origin) {
  try {
    simdjson::dom::parser parser;
    TokenizerDescription tokenizer;
    read_document(parse_document(parser, text, origin), origin, tokenizer);
    return tokenizer;
  } catch (const simdjson::simdjson_error&) {
    fail(ExitCode::input, "{}: not a tokenizer: a member is missing or has the wrong type", origin);
  }
}

ModelDescription parse_vocabulary_and_merges(const std::string& vocabulary, const std::string& vocabulary_origin,
                                             std::string_view merges, const std::string& merges_origin) {
  ModelDescription model;
  simdjson::dom::parser parser;
  const Value document = parse_document(parser, vocabulary, vocabulary_origin);
  if (!document.is_object()) fail(ExitCode::input, "{} is not an object", vocabulary_origin);
  read_vocabulary(document, vocabulary_origin, model);
  read_merges_txt(merges, merges_origin, model);
  return model;
}

void require_tokenizer_json(const std::string& text, const std::string& origin) {
  const auto refuse_file = [&](const std::string& what) {
    throw Error(
        ExitCode::usage, fmt::format("cannot read {} as a tokenizer: {}", origin, what),
        "name a file like tokenizer.json or tokenizer.model, or a folder with such a file or with vocab.json and "
        "merges.txt");
  };
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) refuse_file("it is empty");
  if (text.find('\0') != std::string::npos) refuse_file("it is neither text nor a sentencepiece model");
  if (text.starts_with("#version")) refuse_file("it has merges but no vocabulary");
  if (text[begin] != '{') refuse_file("it is not a JSON object");
  simdjson::dom::parser parser;
  const Value document = parse_document(parser, text, origin);
  if (member(document, "model")) return;
  const Object object = document;
  const bool vocabulary = object.size() > 0 && std::all_of(object.begin(), object.end(),
                                                           [](const auto& entry) { return entry.value.is_uint64(); });
  refuse_file(vocabulary ? "it has a vocabulary but no merges" : "it has no member 'model'");
}

TokenizerParts byte_level_parts(PieceRule rule, bool composes, bool adds_space) {
  const bool is_gpt2 = rule == PieceRule::gpt2;
  const auto byte_level = [&](bool uses_expression) {
    return Json{{"type", "ByteLevel"},
                {"add_prefix_space", adds_space},
                {"trim_offsets", true},
                {"use_regex", uses_expression}};
  };
  TokenizerParts parts{composes ? Json{{"type", "NFC"}} : Json(), byte_level(is_gpt2)};
  if (!is_gpt2) {
    const Json split{
        {"type", "Split"}, {"pattern", {{"Regex", expression_of(rule)}}}, {"behavior", "Isolated"}, {"invert", false}};
    parts.pre_tokenizer = Json{{"type", "Sequence"}, {"pretokenizers", Json::array({split, parts.pre_tokenizer})}};
  }
  return parts;
}

std::string bpe_tokenizer_json(const TokenizerDescription& bpe, const TokenizerParts& parts) {
  std::vector<std::pair<std::string, std::int32_t>> ordered = bpe.model.vocabulary;
  std::ranges::stable_sort(ordered, {}, [](const auto& entry) { return entry.second; });
  Json vocabulary = Json::object();
  auto& entries = vocabulary.get_ref<Json::object_t&>();  // tokens differ: no look-up for each
  for (auto& [token, id] : ordered) entries.emplace_back(std::move(token), id);
  Json merges = Json::array();
  for (const auto& [left, right] : bpe.model.merges) merges.push_back(Json::array({left, right}));
  Json added = Json::array();
  for (const AddedToken& token : bpe.added_tokens) added.push_back(added_token_json(token));
  Json model = bpe_model_json(vocabulary, merges);
  model["ignore_merges"] = bpe.model.whole_pieces_first;
  const Json decoder{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return hf_tokenizer_json(parts.normalizer, added, parts.pre_tokenizer, decoder, model);
}

}  // namespace lockstep
