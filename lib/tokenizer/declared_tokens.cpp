#include "tokenizer/declared_tokens.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "tokenizer/tokenizer_files.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace lockstep {

namespace {

constexpr const char* config_name = "tokenizer_config.json";
constexpr const char* map_name = "special_tokens_map.json";
constexpr const char* added_name = "added_tokens.json";
constexpr const char* numbered_key = "added_tokens_decoder";
constexpr const char* extra_key = "extra_special_tokens";
constexpr const char* former_extra_key = "additional_special_tokens";  // before version 5

constexpr std::array<std::string_view, 7> named_keys{"bos_token", "eos_token", "unk_token", "sep_token",
                                                     "pad_token", "cls_token", "mask_token"};

bool is_named_key(std::string_view key) { return std::ranges::find(named_keys, key) != named_keys.end(); }

/// The object that a file holds; null if it is absent.
std::shared_ptr<const Json> object_in(const Path& path, const std::string& text) {
  Json object = parse_json(text, path.string());
  if (!object.is_object()) fail(ExitCode::input, "{} is not a JSON object", path.string());
  return std::make_shared<const Json>(std::move(object));
}

std::shared_ptr<const Json> object_in(const Path& path) {
  return is_there(path) ? object_in(path, read_file(path)) : nullptr;
}

/// SpecialByItself says whether a token is special where nothing else is said.
enum class SpecialByItself { yes, no };

bool flag_in(const Json& token, const char* key, bool otherwise, const std::string& where) {
  const auto found = token.find(key);
  if (found == token.end() || found->is_null()) return otherwise;
  if (!found->is_boolean()) fail(ExitCode::input, "{}: {} is not true or false", where, key);
  return found->get<bool>();
}

/// A token as a string, which is special, or as an object with flags.
AddedToken token_from(const Json& value, SpecialByItself special, const std::string& where) {
  AddedToken token;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    return token;
  }
  const auto content = value.is_object() ? value.find("content") : value.end();
  if (content == value.end() || !content->is_string())
    fail(ExitCode::input, "{} is neither a string nor an object with content", where);
  token.content = content->get<std::string>();
  token.special = flag_in(value, "special", special == SpecialByItself::yes, where);
  token.normalized = flag_in(value, "normalized", !token.special, where);
  token.single_word = flag_in(value, "single_word", false, where);
  token.lstrip = flag_in(value, "lstrip", false, where);
  token.rstrip = flag_in(value, "rstrip", false, where);
  return token;
}

std::int32_t id_from(const std::string& text, const std::string& where) {
  const bool is_number =
      !text.empty() && text.size() < 9 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number) fail(ExitCode::input, "{}: '{}' is not an id", where, text);
  return std::stoi(text);
}

/// The member, or null where it is absent or says nothing.
Json member(const std::shared_ptr<const Json>& object, const std::string& key) {
  if (!object) return {};
  Json value = object->value(key, Json());
  const bool is_empty = (value.is_string() || value.is_structured()) && value.empty();
  return is_empty || value == "" ? Json() : value;
}

bool have_same_flags(const AddedToken& a, const AddedToken& b) {
  return a.normalized == b.normalized && a.special == b.special && a.single_word == b.single_word &&
         a.lstrip == b.lstrip && a.rstrip == b.rstrip;
}

}  // namespace

TokenizerSettings::TokenizerSettings(const Path& folder) : folder_(folder) {
  if (const Path path = folder / config_name; is_there(path)) {
    config_text_ = read_file(path);
    config_ = object_in(path, config_text_);
  }
  class_ = tokenizer_class_of(config_ ? *config_ : Json(), folder);
  if (config_ && config_->contains(numbered_key)) return;  // it says all that the others would
  map_ = object_in(folder / map_name);
  added_ = object_in(folder / added_name);
}

Json TokenizerSettings::value(const std::string& key) const { return config_ ? config_->value(key, Json()) : Json(); }

bool TokenizerSettings::has_config() const { return config_ != nullptr; }

SpecialTokens TokenizerSettings::reading() const {
  return config_ ? special_tokens_in(*config_) : SpecialTokens::special;
}

Json TokenizerSettings::config_with_named_tokens() const {
  if (!config_ && !map_) return {};
  Json config = config_ ? *config_ : parse_json(tokenizer_config_json("", SpecialTokens::special), config_name);
  for (const Named& named : named({}))
    if (named.file == map_name) config[named.key] = named.token.content;
  return config;
}

std::vector<TokenizerSettings::Named> TokenizerSettings::named(std::span<const NamedToken> defaults) const {
  std::vector<Named> all;
  const auto add = [&](const std::string& key, const Json& value, const char* file) {
    const std::string where = fmt::format("{}: {}", (folder_ / file).string(), key);
    AddedToken token = token_from(value, SpecialByItself::yes, where);
    token.special = true;
    if (!token.content.empty()) all.push_back({key, std::move(token), file});
  };
  for (const std::string_view name : named_keys) {
    const std::string key(name);
    const auto own = std::ranges::find(defaults, name, &NamedToken::key);
    if (map_ && map_->contains(key)) {
      if (const Json in_map = member(map_, key); !in_map.is_null()) add(key, in_map, map_name);
    } else if (config_ && config_->contains(key)) {
      if (const Json in_config = member(config_, key); !in_config.is_null()) add(key, in_config, config_name);
    } else if (own != defaults.end()) {
      add(key, Json(std::string(own->content)), config_name);
    }
  }
  // A model may have others, under keys of its own: objects and those of the map come first.
  const auto add_others = [&](const std::shared_ptr<const Json>& object, const char* file, bool as_text) {
    if (!object) return;
    for (const auto& [key, value] : object->items())
      if (key.ends_with("_token") && !is_named_key(key) && (value.is_object() || value.is_string()) &&
          value.is_string() == as_text)
        add(key, value, file);
  };
  add_others(config_, config_name, false);
  add_others(map_, map_name, false);
  add_others(map_, map_name, true);
  add_others(config_, config_name, true);
  for (const auto& [object, file] : {std::pair(&config_, config_name), std::pair(&map_, map_name)}) {
    if (const Json extra = member(*object, extra_key); extra.is_object())
      for (const auto& [key, value] : extra.items()) add(key, value, file);
  }
  return all;
}

std::vector<TokenizerSettings::Extra> TokenizerSettings::extra(std::span<const AddedToken> pieces) const {
  std::vector<Extra> tokens;
  const auto add = [&](const Json& list, const char* key, const char* file, SpecialByItself special) {
    const std::string where = fmt::format("{}: {}", (folder_ / file).string(), key);
    if (list.is_object() && key == std::string_view(extra_key)) return;  // these are named
    if (!list.is_array()) fail(ExitCode::input, "{} is not a list", where);
    const bool marks_added = file != map_name || key == std::string_view(extra_key);
    for (const Json& token : list) tokens.push_back({token_from(token, special, where), file, marks_added});
  };
  const Json own = member(config_, extra_key);
  const Json former = member(config_, former_extra_key);
  const bool are_named = own.is_object();  // then the former key counts as if these were absent
  const bool in_config = config_ && (config_->contains(extra_key) || config_->contains(former_extra_key));
  const bool has_own = (in_config && !are_named) || (map_ && map_->contains(extra_key));
  const Json in_map = member(map_, former_extra_key);
  if (!own.is_null()) {
    add(own, extra_key, config_name, SpecialByItself::no);
  } else if (!former.is_null()) {
    add(former, former_extra_key, config_name, SpecialByItself::no);
  }
  if (!has_own && !pieces.empty()) {
    for (const AddedToken& piece : pieces) tokens.push_back({piece, "tokenizer.model", false});
  } else if (!has_own && !in_map.is_null()) {
    add(in_map, former_extra_key, map_name, SpecialByItself::yes);
  } else if (!has_own && !former.is_null()) {
    add(former, former_extra_key, config_name, SpecialByItself::no);
  }
  if (const Json more = member(map_, extra_key); !more.is_null()) add(more, extra_key, map_name, SpecialByItself::yes);
  return tokens;
}

std::vector<DeclaredToken> TokenizerSettings::numbered() const {
  std::map<std::int32_t, DeclaredToken> by_id;
  if (const Json listed = member(config_, numbered_key); !listed.is_null()) {
    const std::string where = fmt::format("{}: {}", (folder_ / config_name).string(), numbered_key);
    if (!listed.is_object()) fail(ExitCode::input, "{} is not an object", where);
    for (const auto& [number, token] : listed.items()) {
      const std::int32_t id = id_from(number, where);
      by_id[id] = {token_from(token, SpecialByItself::no, where), id, config_name};
    }
  }
  if (added_) {
    const std::string where = (folder_ / added_name).string();
    for (const auto& [content, number] : added_->items()) {
      if (!number.is_number_unsigned()) fail(ExitCode::input, "{}: the id of '{}' is not a number", where, content);
      const auto id = integer_from<std::int32_t>(number);
      AddedToken token;
      token.content = content;
      token.special = false;
      token.normalized = true;
      const auto [place, is_new] = by_id.emplace(id, DeclaredToken{token, id, added_name});
      if (!is_new)
        fail(ExitCode::input, "{}: '{}' and '{}' have the id {}", where, place->second.token.content, content, id);
    }
  }
  std::vector<DeclaredToken> tokens;
  for (auto& [id, token] : by_id) tokens.push_back(std::move(token));
  return tokens;
}

std::vector<DeclaredToken> TokenizerSettings::tokens(std::span<const AddedToken> own,
                                                     std::span<const NamedToken> defaults,
                                                     std::span<const AddedToken> pieces) const {
  const std::vector<Named> all_named = named(defaults);
  const std::vector<Extra> all_extra = extra(pieces);
  const auto find_own = [&](const std::string& content) {
    return std::ranges::find(own, content, &AddedToken::content);
  };
  std::vector<DeclaredToken> tokens;
  std::set<std::string> known;
  for (const AddedToken& token : own) known.insert(token.content);
  for (DeclaredToken& declared : numbered()) {
    AddedToken& token = declared.token;
    const bool is_named =
        std::ranges::any_of(all_named, [&](const Named& one) { return one.token.content == token.content; });
    const bool is_marked = std::ranges::any_of(
        all_extra, [&](const Extra& one) { return one.marks_added && one.token.content == token.content; });
    if (declared.file == added_name && (is_named || is_marked)) {
      token.special = true;
      token.normalized = false;
    }
    const auto in_own = find_own(token.content);
    known.insert(token.content);
    if (in_own != own.end() && (declared.file == added_name || have_same_flags(*in_own, token))) {
      declared.token = *in_own;  // only its id is compared
    } else if (is_named) {
      token.special = true;
    }
    tokens.push_back(std::move(declared));
  }
  // Of two with one content the flags of the later one count.
  const auto add_unknown = [&](const AddedToken& token, const std::string& file) {
    if (!token.content.empty() && !known.contains(token.content)) tokens.push_back({token, std::nullopt, file});
  };
  for (const Named& one : all_named) add_unknown(one.token, one.file);
  for (const Extra& one : all_extra) add_unknown(one.token, one.file);
  return tokens;
}

std::string TokenizerSettings::end_name(std::span<const NamedToken> defaults) const {
  const std::vector<Named> all = named(defaults);
  const auto found = std::ranges::find(all, "eos_token", &Named::key);
  return found == all.end() ? std::string() : found->token.content;
}

bool add_declared_tokens(std::span<const DeclaredToken> declared, std::size_t vocabulary,
                         const std::function<std::optional<std::int32_t>(const std::string&)>& id_of,
                         std::vector<AddedToken>& added) {
  bool changed = false;
  auto next = static_cast<std::int32_t>(vocabulary);
  for (const AddedToken& token : added) next = std::max(next, token.id + 1);
  for (const DeclaredToken& one : declared) {
    if (one.token.content.empty()) continue;
    AddedToken token = one.token;
    const auto known = std::ranges::find(added, token.content, &AddedToken::content);
    const auto in_vocabulary = known == added.end() ? id_of(token.content) : std::optional(known->id);
    token.id = in_vocabulary.value_or(next);
    if (one.stated.value_or(token.id) != token.id) {
      throw Error(ExitCode::usage,
                  fmt::format("{} gives '{}' the id {}, but the tokenizers library gives it {}", one.file,
                              token.content, *one.stated, token.id),
                  "number the added tokens after the vocabulary, without gaps");
    }
    next = std::max(next, token.id + 1);
    if (known == added.end()) {
      added.push_back(std::move(token));
      changed = true;
    } else if (!have_same_flags(*known, token)) {
      token.special = token.special || known->special;  // the library keeps it among its special tokens
      *known = std::move(token);
      changed = true;
    }
  }
  return changed;
}

}  // namespace lockstep
