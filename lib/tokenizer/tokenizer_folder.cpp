// A tokenizer as a folder holds it: its own file, and those beside it.
#include "base/error.hpp"
#include "base/json.hpp"
#include "tokenizer/declared_tokens.hpp"
#include "tokenizer/rank_file.hpp"
#include "tokenizer/tokenizer_class.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_json.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <unordered_map>

namespace lockstep {

namespace {

/// A file like tokenizer.json or a rank file, of any name.
TokenizerDescription read_file_of_any_name(const Path& path) {
  std::string text = read_file(path);
  if (is_rank_file(text)) return read_rank_file(text, path.string());
  if (path.filename() != "tokenizer.json") require_tokenizer_json(text, path.string());
  TokenizerDescription tokenizer = parse_tokenizer_json(text, path.string());
  tokenizer.files.push_back({"tokenizer.json", std::move(text)});
  return tokenizer;
}

const ByteLevelClass& class_for_merges(const TokenizerSettings& settings, const Path& folder) {
  const std::string& name = settings.tokenizer_class();
  const ByteLevelClass* const found = byte_level_class(name.empty() ? "GPT2Tokenizer" : name);
  if (found != nullptr) return *found;
  throw Error(
      ExitCode::usage,
      fmt::format("{}: vocab.json and merges.txt of the tokenizer_class {} are not supported", folder.string(), name),
      "save it as tokenizer.json: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)");
}

TokenizerDescription read_vocabulary_and_merges(const Path& folder, const ByteLevelClass& own, bool adds_space) {
  const Path vocabulary = folder / "vocab.json";
  const Path merges = folder / "merges.txt";
  TokenizerDescription tokenizer;
  tokenizer.model =
      parse_vocabulary_and_merges(read_file(vocabulary), vocabulary.string(), read_file(merges), merges.string());
  tokenizer.parts = byte_level_parts(own.rule, own.composes, adds_space);
  tokenizer.normalizer = Normalizer(tokenizer.parts.normalizer, std::string(own.name));
  tokenizer.pre_tokenizer = PreTokenizer(tokenizer.parts.pre_tokenizer, std::string(own.name));
  return tokenizer;
}

/// The tokenizer's own file; absent where a folder has vocab.json and merges.txt alone.
std::optional<Path> own_file(const Path& path) {
  if (!is_folder(path)) return path;
  for (const char* const name : {"tokenizer.json", "tokenizer.model"}) {
    if (is_there(path / name)) return path / name;
  }
  if (is_there(path / "vocab.json") && is_there(path / "merges.txt")) return std::nullopt;
  fail(ExitCode::input,
       "{} has no tokenizer: neither tokenizer.json, nor tokenizer.model, nor vocab.json with "
       "merges.txt",
       path.string());
}

/// Calls `found` with each part of this type within a part.
void for_each_part(const Json& part, std::string_view type, const std::function<void(const Json&)>& found) {
  if (part.is_object() && part.value("type", Json()) == type) found(part);
  for (const char* const key : {"normalizers", "pretokenizers"}) {
    if (!part.is_object() || !part.contains(key)) continue;
    for (const Json& one : part[key]) for_each_part(one, type, found);
  }
}

/// A switch of tokenizer_config.json that its class sets in a part, against tokenizer.json.
struct ClassSwitch {
  const char* key;
  const char* type;
  const char* member;
};
constexpr std::array<ClassSwitch, 4> class_switches{
    {{"do_lower_case", "BertNormalizer", "lowercase"},
     {"strip_accents", "BertNormalizer", "strip_accents"},
     {"tokenize_chinese_chars", "BertNormalizer", "handle_chinese_chars"},
     {"add_prefix_space", "ByteLevel", "add_prefix_space"}}};

bool takes_parts_as_they_are(const std::string& tokenizer_class) {
  return tokenizer_class.empty() || tokenizer_class == "PreTrainedTokenizerFast" ||
         tokenizer_class == "TokenizersBackend";
}

void require_agreement(const TokenizerSettings& settings, const TokenizerParts& parts, const ByteLevelClass* own,
                       const std::string& origin) {
  if (takes_parts_as_they_are(settings.tokenizer_class())) return;
  for (const auto& [key, type, member] : class_switches) {
    const Json wanted = settings.value(key);
    if (!wanted.is_boolean() || (own == nullptr && type == std::string_view("ByteLevel"))) continue;
    for (const Json* const part : {&parts.normalizer, &parts.pre_tokenizer}) {
      for_each_part(*part, type, [&](const Json& one) {
        const Json said = one.value(member, Json());
        if (said.is_boolean() && said != wanted) {
          throw Error(
              ExitCode::usage,
              fmt::format("{}: tokenizer_config.json has {} = {} for a {}, but tokenizer.json has {} = {} in {}",
                          origin, key, to_text(wanted), settings.tokenizer_class(), member, to_text(said), type),
              "make them agree, or set tokenizer_class to PreTrainedTokenizerFast in tokenizer_config.json");
        }
      });
    }
  }
}

/// The tokenizer_config.json that goes along. A class of transformers that would build other parts than tokenizer.json
/// has is replaced by the one that takes these as they are.
Json config_to_keep(const TokenizerSettings& settings, TokenizerDescription& tokenizer, const ByteLevelClass* own) {
  Json config = settings.config_with_named_tokens();
  if (config.is_null() || own == nullptr) return config;
  const TokenizerParts built = byte_level_parts(own->rule, own->composes, settings.value("add_prefix_space") == true);
  const PreTokenizer pre_tokenizer(built.pre_tokenizer, std::string(own->name));
  const bool agrees =
      tokenizer.parts.normalizer == built.normalizer && tokenizer.pre_tokenizer.rule() == pre_tokenizer.rule() &&
      tokenizer.pre_tokenizer.is_byte_level() && tokenizer.pre_tokenizer.adds_space() == pre_tokenizer.adds_space();
  if (agrees) return config;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  tokenizer.notes.push_back(
      fmt::format("tokenizer.json decides the ids; transformers 5 would build a {} with other parts, so the "
                  "tokenizer_class is set to PreTrainedTokenizerFast",
                  own->name));
  for (const auto& [key, content] : own->defaults)
    if (!config.contains(key)) config[std::string(key)] = std::string(content);
  return config;
}

}  // namespace

void add_tokens_beside(const TokenizerSettings& settings, std::span<const NamedToken> defaults,
                       std::span<const AddedToken> pieces, TokenizerDescription& tokenizer) {
  std::unordered_map<std::string_view, std::int32_t> ids;
  for (const auto& [token, id] : tokenizer.model.vocabulary) ids.emplace(token, id);
  const auto id_of = [&](const std::string& content) -> std::optional<std::int32_t> {
    const auto found = ids.find(content);
    return found == ids.end() ? std::nullopt : std::optional(found->second);
  };
  tokenizer.adds_declared = add_declared_tokens(settings.tokens(tokenizer.added_tokens, defaults, pieces), ids.size(),
                                                id_of, tokenizer.added_tokens);
  if (std::string end = settings.end_name(defaults); !end.empty()) tokenizer.end_name = std::move(end);
  tokenizer.reading = settings.reading();
}

TokenizerDescription read_tokenizer(const Path& path) {
  const Path folder = is_folder(path) ? path : absolute_path(path).parent_path();
  const TokenizerSettings settings(folder);
  const std::optional<Path> file = own_file(path);
  const ByteLevelClass* own = file ? byte_level_class(settings.tokenizer_class()) : &class_for_merges(settings, folder);
  TokenizerDescription tokenizer =
      file ? read_file_of_any_name(*file)
           : read_vocabulary_and_merges(folder, *own, settings.value("add_prefix_space") == true);
  if (tokenizer.model.kind != ModelKind::bpe || !tokenizer.pre_tokenizer.is_byte_level()) own = nullptr;
  require_agreement(settings, tokenizer.parts, own, path.string());
  std::vector<NamedToken> defaults;
  if (own != nullptr) defaults.assign(own->defaults.begin(), own->defaults.end());
  if (own == nullptr && tokenizer.padding_token) defaults.push_back({"pad_token", *tokenizer.padding_token});
  add_tokens_beside(settings, defaults, {}, tokenizer);
  if (!file) {
    tokenizer.files.push_back({"tokenizer.json", bpe_tokenizer_json(tokenizer, tokenizer.parts)});
    tokenizer.adds_declared = false;
  }
  const Json config = config_to_keep(settings, tokenizer, own);
  if (config.is_null()) return tokenizer;
  const bool as_it_is = settings.has_config() && config == parse_json(settings.config_text(), "tokenizer_config.json");
  std::erase_if(tokenizer.files, [](const TokenizerFile& one) { return one.name == "tokenizer_config.json"; });
  tokenizer.files.push_back({"tokenizer_config.json", as_it_is ? settings.config_text() : to_text(config, 2) + "\n"});
  return tokenizer;
}

}  // namespace lockstep
