#include "tokenizer/tokenizers.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/nesting.hpp"
#include "chat/chat_template_file.hpp"
#include "remote/hub_cache.hpp"
#include "tokenizer/sentencepiece.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_json.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

namespace lockstep {

namespace {

using Tree = nlohmann::json;

std::string end_name_in(const Tree& document) {
  const Tree added = document.value("added_tokens", Tree());
  return added.is_array() && !added.empty() ? added[0].value("content", "") : "";
}

// Whether a document cuts text and makes ids of it as this tokenizer's own file does.
bool is_form_of(const Tree& document, const Tokenizer& tokenizer) {
  const Tree own = Tree::parse(tokenizer.files()[0].content);
  return std::ranges::all_of(std::array{"model", "normalizer", "pre_tokenizer", "added_tokens"},
                             [&](const char* key) { return own.value(key, Tree()) == document.value(key, Tree()); });
}

// The tokenizers of one character or byte a token, known by the form that their own files have.
std::unique_ptr<Tokenizer> recognised(const Tree& document, SpecialTokens reading) {
  const Tree model = document.is_object() ? document.value("model", Tree()) : Tree();
  if (!model.is_object() || !model.contains("vocab")) return nullptr;
  const std::string type = model.value("type", "");
  std::unique_ptr<Tokenizer> tokenizer;
  if (type == "BPE" && model.value("merges", Tree()).empty()) {
    tokenizer = bytes_tokenizer(end_name_in(document), reading);
  } else if (type == "WordLevel") {
    std::vector<char32_t> characters;
    for (const auto& [token, id] : model["vocab"].items()) {
      std::size_t position = 0;
      if (!token.empty()) characters.push_back(next_code_point(token, position));
      if (position == 0 || position != token.size() || id != characters.size() - 1) return nullptr;
    }
    tokenizer = chars_tokenizer(std::move(characters), end_name_in(document), reading);
  }
  return tokenizer && is_form_of(document, *tokenizer) ? std::move(tokenizer) : nullptr;
}

SpecialTokens reading_in(const Path& folder) {
  const Path path = folder / "tokenizer_config.json";
  if (!is_there(path)) return SpecialTokens::special;
  const Json config = parse_json(read_file(path), path.string());
  return config.is_object() ? special_tokens_in(config) : SpecialTokens::special;
}

/// With the chat templates that lie in files of the folder.
std::unique_ptr<Tokenizer> with_chat_templates(std::unique_ptr<Tokenizer> tokenizer, const Path& folder) {
  std::map<std::string, std::string> templates;
  if (const Path path = folder / template_file; is_there(path)) templates[default_template] = read_file(path);
  for (const Path& path : additional_template_files(folder)) templates[path.stem().string()] = read_file(path);
  tokenizer->set_chat_templates(std::move(templates));
  return tokenizer;
}

std::unique_ptr<Tokenizer> tokenizer_alone(const Path& path, const std::string& end_name,
                                           std::optional<SpecialTokens> reading) {
  const bool in_folder = is_folder(path);
  const Path model = in_folder ? path / "tokenizer.model" : path;
  if (is_there(model) && !(in_folder && is_there(path / "tokenizer.json"))) {
    if (std::string bytes = read_file(model); is_sentencepiece(bytes))
      return sentencepiece_in_folder(std::move(bytes), model, end_name, reading);
  }
  return json_tokenizer(read_tokenizer(path), path.string(), end_name, reading);
}

// Bytes of a tokenizer.json with all characters there are.
constexpr std::uint64_t most_of_own_form = std::uint64_t{8} << 20;

/// The tokenizer that save_tokenizer left in the folder, where it is of a plug-in or known by the form of its file;
/// null otherwise. `reading` absent: as tokenizer_config.json says.
std::unique_ptr<Tokenizer> own_tokenizer(const Path& folder, std::optional<SpecialTokens> reading) {
  if (auto tokenizer = load_plugin_tokenizer(folder)) return with_chat_templates(std::move(tokenizer), folder);
  const Path json = folder / "tokenizer.json";
  if (!is_there(json) || length_of(json) > most_of_own_form) return nullptr;
  const std::string text = read_file(json);
  refuse_deep_nesting(text, json.string());
  const Tree document = Tree::parse(text, nullptr, false);  // file_tokenizer explains what is malformed
  try {
    auto tokenizer = recognised(document, reading.value_or(reading_in(folder)));
    return tokenizer ? with_chat_templates(std::move(tokenizer), folder) : nullptr;
  } catch (const Tree::exception&) {
    fail(ExitCode::input, "{}: not a tokenizer: a member has the wrong type", json.string());
  }
}

/// Whether the tokenizer_config.json in the folder, if there is one, has no more in it than the tokenizer's own.
bool says_what_lies_in(const Tokenizer& tokenizer, const Path& folder) {
  const Path path = folder / "tokenizer_config.json";
  const auto own = std::ranges::find(tokenizer.files(), path.filename().string(), &TokenizerFile::name);
  if (!is_there(path) || own == tokenizer.files().end()) return true;
  Json here = parse_json(read_file(path), path.string());
  Json there = parse_json(own->content, own->name);
  for (Json* const config : {&here, &there})
    if (config->is_object()) config->erase(special_tokens_key);
  return here == there;
}

}  // namespace

std::unique_ptr<Tokenizer> file_tokenizer(const Path& path, const std::string& end_name,
                                          std::optional<SpecialTokens> reading) {
  const Path folder = is_folder(path) ? path : absolute_path(path).parent_path();
  return with_chat_templates(tokenizer_alone(path, end_name, reading), folder);
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& word, const std::string& end_name, SpecialTokens reading) {
  if (word == "bytes") return bytes_tokenizer(end_name.empty() ? default_end_name : end_name, reading);
  if (word == "chars")
    fail(ExitCode::usage,
         "the tokenizer 'chars' is made from a corpus: use prepare-data, which stores it in the dataset");
  if (auto tokenizer = plugin_tokenizer(word, end_name, reading)) return tokenizer;
  if (!is_there(word)) {
    if (const auto folder = cached_model(word)) return file_tokenizer(*folder, end_name, reading);
    throw Error(
        ExitCode::input,
        fmt::format(
            "no tokenizer '{}': it is neither bytes nor chars, nor a file or folder, nor a model in the cache of the "
            "Hugging Face Hub",
            word),
        "name tokenizer.json, tokenizer.model, or a folder with one of them or with vocab.json and merges.txt");
  }
  if (end_name.empty() && is_folder(word)) {
    if (auto own = own_tokenizer(word, reading); own && says_what_lies_in(*own, word)) return own;
  }
  return file_tokenizer(word, end_name, reading);
}

bool holds_tokenizer(const Path& folder) {
  const auto has = [&](const char* name) { return is_there(folder / name); };
  return has("tokenizer.json") || has("tokenizer.model") || has(plugin_tokenizer_file) ||
         (has("vocab.json") && has("merges.txt"));
}

std::vector<TokenizerFile> saved_files(const Tokenizer& tokenizer) {
  std::vector<TokenizerFile> files = tokenizer.files();
  for (const auto& [name, text] : tokenizer.chat_templates())
    files.push_back(
        {name == default_template ? template_file : fmt::format("{}/{}.jinja", additional_templates_folder, name),
         text});
  return files;
}

void save_tokenizer(const Tokenizer& tokenizer, const Path& folder) {
  make_folder(folder);
  for (const TokenizerFile& file : saved_files(tokenizer)) {
    const Path path = folder / file.name;
    make_folder(path.parent_path());
    publish_file(path, file.content);
  }
}

std::unique_ptr<Tokenizer> load_tokenizer(const Path& folder) {
  if (auto own = own_tokenizer(folder, {})) return own;
  return file_tokenizer(folder);
}

}  // namespace lockstep
