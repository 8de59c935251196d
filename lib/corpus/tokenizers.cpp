#include "corpus/tokenizers.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/nesting.hpp"
#include "corpus/tokenizer_files.hpp"
#include "corpus/utf8.hpp"

#include <filesystem>
#include <utility>

namespace lockstep {

namespace {

using Tree = nlohmann::json;

std::string end_name_in(const Tree& document) {
  const Tree added = document.value("added_tokens", Tree());
  return added.is_array() && !added.empty() ? added[0].value("content", "") : "";
}

// The tokenizers of one character or byte a token, known by the form that their own files have.
std::unique_ptr<Tokenizer> recognised(const Tree& document, SpecialTokens reading) {
  const Tree model = document.is_object() ? document.value("model", Tree()) : Tree();
  if (!model.is_object() || !model.contains("vocab")) return nullptr;
  const std::string type = model.value("type", "");
  if (type == "BPE" && model.value("merges", Tree()).empty()) {
    auto bytes = bytes_tokenizer(end_name_in(document), reading);
    const Tree own = Tree::parse(bytes->files()[0].content);
    return own["model"]["vocab"] == model["vocab"] ? std::move(bytes) : nullptr;
  }
  if (type != "WordLevel") return nullptr;
  std::vector<char32_t> characters;
  for (const auto& [token, id] : model["vocab"].items()) {
    std::size_t position = 0;
    if (!token.empty()) characters.push_back(next_code_point(token, position));
    if (position == 0 || position != token.size() || id != characters.size() - 1) return nullptr;
  }
  return chars_tokenizer(std::move(characters), end_name_in(document), reading);
}

SpecialTokens reading_in(const Path& folder) {
  const Path path = folder / "tokenizer_config.json";
  if (!is_there(path)) return SpecialTokens::special;
  const Json config = parse_json(read_file(path), path.string());
  return config.is_object() ? special_tokens_in(config) : SpecialTokens::special;
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& word, const std::string& end_name, SpecialTokens reading) {
  if (word == "bytes") return bytes_tokenizer(end_name.empty() ? default_end_name : end_name, reading);
  if (word == "chars")
    fail(ExitCode::usage,
         "the tokenizer 'chars' is made from a corpus: prepare-data does it, and the dataset carries it");
  if (!is_there(word)) {
    throw Error(ExitCode::input,
                fmt::format("no tokenizer '{}': neither bytes nor chars, and no such file or folder", word),
                "for byte-level BPE name a folder with tokenizer.json, or with vocab.json and merges.txt");
  }
  return bpe_tokenizer(word, end_name, reading);
}

void save_tokenizer(const Tokenizer& tokenizer, const Path& folder) {
  make_folder(folder);
  for (const TokenizerFile& file : tokenizer.files()) publish_file(folder / file.name, file.content);
}

std::unique_ptr<Tokenizer> load_tokenizer(const Path& folder) {
  const Path json = folder / "tokenizer.json";
  if (is_there(json)) {
    const std::string text = read_file(json);
    refuse_deep_nesting(text, json.string());
    const Tree document = Tree::parse(text, nullptr, false);  // bpe_tokenizer explains what is malformed
    try {
      if (auto tokenizer = recognised(document, reading_in(folder))) return tokenizer;
    } catch (const Tree::exception&) {
      fail(ExitCode::input, "{}: not a tokenizer: a member is of another type than it should be", json.string());
    }
  }
  return bpe_tokenizer(folder);
}

}  // namespace lockstep
