// A model of sentencepiece within a folder. Tokens that files beside it declare and the model lacks make it a tokenizer
// of the tokenizers library, as LlamaTokenizer of transformers builds it; alone it is read as sentencepiece does.
#include "base/error.hpp"
#include "base/json.hpp"
#include "tokenizer/declared_tokens.hpp"
#include "tokenizer/sentencepiece.hpp"
#include "tokenizer/token_model.hpp"
#include "tokenizer/tokenizer_class.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_json.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>
#include <unordered_map>

namespace lockstep {

namespace {

/// Whether the sentencepiece library reads the token in a text, or it is one that marks unknown text or ends.
bool is_read_alike(const SentencePieceModel& model, const std::string& content) {
  const auto found = std::ranges::find(model.pieces, content, &SentencePiece::text);
  if (found == model.pieces.end()) return false;
  if (found->type == PieceType::user_defined || found->type == PieceType::unknown) return true;
  if (found->type != PieceType::control) return false;
  return model.end_id == found - model.pieces.begin() || content == "<s>" || content == "</s>" || content == "<pad>";
}

// Every cut of a piece into two pieces is a merge; those of pieces with lower ids come first.
Json merges_of(const SentencePieceModel& model, const std::unordered_map<std::string_view, std::size_t>& ids) {
  Json merges = Json::array();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const std::string_view whole = model.pieces[id].text;
    if (ids.at(whole) != id) continue;
    for (std::size_t cut = 0; cut < whole.size();) {
      next_code_point(whole, cut);
      const std::string_view left = whole.substr(0, cut), right = whole.substr(cut);
      if (cut < whole.size() && ids.contains(left) && ids.contains(right)) merges.push_back(Json::array({left, right}));
    }
  }
  return merges;
}

std::string llama_tokenizer_json(const SentencePieceModel& model, const TokenizerSettings& settings) {
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) ids.insert_or_assign(model.pieces[id].text, id);
  Json vocabulary = Json::object();
  auto& entries = vocabulary.get_ref<Json::object_t&>();  // tokens differ: no look-up for each
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    if (ids.at(model.pieces[id].text) == id) entries.emplace_back(model.pieces[id].text, id);
  Json bpe = bpe_model_json(vocabulary, merges_of(model, ids));
  bpe["fuse_unk"] = true;
  bpe["byte_fallback"] = true;
  const bool adds_space = settings.value("add_prefix_space") != false;
  const char* const scheme = !adds_space ? "never" : settings.value("legacy") == true ? "always" : "first";
  const Json metaspace{
      {"type", "Metaspace"}, {"replacement", space_mark}, {"prepend_scheme", scheme}, {"split", false}};
  Json decoders = Json::array({Json{{"type", "Replace"}, {"pattern", {{"String", space_mark}}}, {"content", " "}},
                               Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}});
  if (adds_space) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return hf_tokenizer_json(Json(), Json::array(), metaspace, Json{{"type", "Sequence"}, {"decoders", decoders}}, bpe);
}

/// Control pieces and user-defined pieces.
std::vector<AddedToken> marked_pieces(const SentencePieceModel& model) {
  std::vector<AddedToken> tokens;
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type != PieceType::control && piece.type != PieceType::user_defined) continue;
    tokens.push_back({0, piece.text});
    tokens.back().special = piece.type == PieceType::control;
  }
  return tokens;
}

void require_llama(const SentencePieceModel& model, const TokenizerSettings& settings, const std::string& token,
                   const std::string& origin) {
  const std::string& name = settings.tokenizer_class();
  if (name == "LlamaTokenizer" && model.kind == SentencePieceModel::Kind::bpe) return;
  throw Error(
      ExitCode::usage,
      fmt::format("{}: the files next to it declare '{}', which is not a special piece of the model; this is only "
                  "supported for BPE models with the tokenizer_class LlamaTokenizer, not for {}",
                  origin, token, name.empty() ? "one without a class" : name),
      "save it as tokenizer.json: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)");
}

}  // namespace

std::unique_ptr<Tokenizer> sentencepiece_in_folder(std::string bytes, const Path& file, const std::string& end_name,
                                                   std::optional<SpecialTokens> reading) {
  const std::string origin = file.string();
  const TokenizerSettings settings(absolute_path(file).parent_path());
  require_own_numbers(settings.tokenizer_class(), origin);
  const SentencePieceModel model = parse_sentencepiece(bytes, origin);
  const std::vector<AddedToken> pieces = marked_pieces(model);
  const std::span<const NamedToken> defaults = llama_tokens();
  const std::vector<DeclaredToken> declared = settings.tokens({}, {});
  const auto foreign = std::ranges::find_if(
      declared, [&](const DeclaredToken& one) { return !is_read_alike(model, one.token.content); });
  if (foreign == declared.end())
    return sentencepiece_tokenizer(std::move(bytes), origin, end_name.empty() ? settings.end_name({}) : end_name);
  require_llama(model, settings, foreign->token.content, origin);
  std::string json = llama_tokenizer_json(model, settings);
  TokenizerDescription tokenizer = parse_tokenizer_json(json, origin);
  tokenizer.files.push_back({"tokenizer.json", std::move(json)});
  add_tokens_beside(settings, defaults, pieces, tokenizer);
  tokenizer.files.push_back({"tokenizer_config.json", settings.config_text()});
  return json_tokenizer(std::move(tokenizer), origin, end_name, reading);
}

}  // namespace lockstep
