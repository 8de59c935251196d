// Encoding as the sentencepiece library does it: normalize, find pieces, number them.
#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/bpe_merges.hpp"
#include "tokenizer/byte_trie.hpp"
#include "tokenizer/charsmap.hpp"
#include "tokenizer/piece_cache.hpp"
#include "tokenizer/sentencepiece.hpp"
#include "tokenizer/token_model.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>
#include <array>
#include <cfloat>
#include <limits>
#include <map>
#include <utility>

namespace lockstep {

namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::string_view escaped_space = "\u2581";  // ▁

std::string_view character_at(std::string_view text, std::size_t at) {
  std::size_t behind = at;
  next_code_point(text, behind);
  return text.substr(at, behind - at);
}

// What all threads share.
struct SharedModel {
  SharedModel(SentencePieceModel said, const std::string& origin);

  /// The id of a piece that text may become, or no_token.
  std::int32_t id_of(std::string_view text) const { return id_in(ids, text); }
  const SentencePiece& piece(std::int32_t id) const { return model.pieces[static_cast<std::size_t>(id)]; }

  SentencePieceModel model;
  std::optional<Charsmap> charsmap;
  TokenIds ids;                              // of pieces that text may become
  std::array<std::int32_t, 256> byte_ids{};  // where the model falls back on bytes
  ByteTrie user_defined;
  AddedTokens control;     // pieces that no text becomes, but where they are said to count
  std::string_view space;  // what stands for a space

  // BPE. A character that is no piece has an id behind those of the pieces, if a piece begins or ends with it.
  void make_merges();
  TokenIds characters;
  std::vector<std::string> character_of;  // by what the id is above those of the pieces
  MergeTable merges = MergeTable(0);
  bool cuts_before_words = false;

  // Unigram.
  void make_scores();
  ByteTrie tokens;
  float unknown_score = 0;
  float best_score = 0;
};

SharedModel::SharedModel(SentencePieceModel said, const std::string& origin) : model(std::move(said)) {
  if (!model.charsmap.empty()) charsmap.emplace(model.charsmap, origin);
  space = model.escape_whitespaces ? escaped_space : " ";
  std::vector<AddedToken> controls;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const auto& [text, score, type] = model.pieces[i];
    if (type == PieceType::control) controls.push_back({id, text});
    if (type == PieceType::normal || type == PieceType::user_defined || type == PieceType::unused)
      ids.emplace(text, id);
    if (type == PieceType::user_defined) user_defined.insert(text, id);
    for (int byte = 0; type == PieceType::byte && byte < 256; ++byte) {
      if (text == fmt::format("<0x{:02X}>", byte)) byte_ids[static_cast<std::size_t>(byte)] = id;
    }
  }
  control = AddedTokens(std::move(controls), SpecialTokens::special);
  if (model.kind == SentencePieceModel::Kind::bpe) {
    make_merges();
  } else {
    make_scores();
  }
}

// The library joins any two neighbours that make a piece, the piece of highest score first. So every cut of a piece
// into two is a merge, if each part is a piece or one character.
void SharedModel::make_merges() {
  std::map<float, std::uint32_t, std::greater<>> ranks;
  for (const auto& [text, id] : ids) ranks.emplace(piece(id).score, 0);
  std::uint32_t next = 0;
  for (auto& [score, rank] : ranks) rank = next++;
  const auto part_id = [&](std::string_view part) -> std::int32_t {
    if (const std::int32_t id = id_of(part); id != no_token) return id;
    if (character_at(part, 0).size() != part.size()) return no_token;
    const auto next_id = static_cast<std::int32_t>(model.pieces.size() + characters.size());
    const auto [place, is_new] = characters.try_emplace(std::string(part), next_id);
    if (is_new) character_of.emplace_back(part);
    return place->second;
  };
  struct Found {
    std::int32_t left;
    std::int32_t right;
    Merge merge;
  };
  std::vector<Found> found;
  for (const auto& [text, id] : ids) {
    const std::string_view whole = text;
    for (std::size_t cut = character_at(whole, 0).size(); cut < whole.size(); cut += character_at(whole, cut).size()) {
      const std::int32_t left = part_id(whole.substr(0, cut));
      const std::int32_t right = left == no_token ? no_token : part_id(whole.substr(cut));
      if (right != no_token) found.push_back({left, right, {ranks.at(piece(id).score), id}});
    }
  }
  merges = MergeTable(found.size());
  for (const auto& [left, right, merge] : found) merges.insert(left, right, merge);
  cuts_before_words = space == escaped_space && id_of(escaped_space) != no_token &&
                      std::ranges::none_of(ids, [](const auto& entry) { return spans_words(entry.first); });
}

void SharedModel::make_scores() {
  float worst = FLT_MAX;
  best_score = FLT_MIN;
  for (const SentencePiece& each : model.pieces) {
    if (each.type != PieceType::normal) continue;
    worst = std::min(worst, each.score);
    best_score = std::max(best_score, each.score);
  }
  unknown_score = worst - 10.0F;
  for (const auto& [text, id] : ids) tokens.insert(text, id);
}

class SentencePieceEncoder : public Encoder {
 public:
  explicit SentencePieceEncoder(const SharedModel& model) : model_(&model), merger_(model.merges) {}

  void encode(std::string_view text, Ids& ids) override {
    normalize(text);
    const std::size_t before = ids.size();
    if (model_->model.kind == SentencePieceModel::Kind::unigram) {
      encode_unigram(normalized_, ids);
    } else {
      encode_bpe(normalized_, ids);
    }
    if (model_->model.byte_fallback) return;
    // Unknown characters beside each other are one token.
    const std::int32_t unknown = model_->model.unknown_id;
    const auto end = std::unique(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(),
                                 [&](std::int32_t a, std::int32_t b) { return a == unknown && b == unknown; });
    ids.erase(end, ids.end());
  }

  // What stands between control pieces is a text of its own.
  MarkedIds encode_marked(const MarkedText& text) override {
    return encode_marked_parts(text, model_->control, [this](std::string_view part, Ids& ids) { encode(part, ids); });
  }

 private:
  struct Head {
    std::string_view becomes;
    std::size_t size;  // bytes of the text
  };
  // What the text begins with, normalized.
  Head normalized_head(std::string_view text) const {
    if (const ByteTrie::Match own = model_->user_defined.longest(text); own.number != ByteTrie::none)
      return {text.substr(0, own.size), own.size};
    if (model_->charsmap) {
      if (const auto rule = model_->charsmap->longest(text)) return {rule->becomes, rule->size};
    }
    const std::string_view own = character_at(text, 0);
    return {own, own.size()};
  }

  void normalize(std::string_view text) {
    const SentencePieceModel& said = model_->model;
    normalized_.clear();
    while (said.remove_extra_whitespaces && !text.empty()) {
      const Head head = normalized_head(text);
      if (head.becomes != " ") break;
      text.remove_prefix(head.size);
    }
    if (text.empty()) return;
    if (said.add_dummy_prefix && !said.space_is_suffix) normalized_ += model_->space;
    bool behind_space = said.remove_extra_whitespaces;
    while (!text.empty()) {
      Head head = normalized_head(text);
      while (behind_space && head.becomes.starts_with(' ')) head.becomes.remove_prefix(1);
      if (!head.becomes.empty()) {
        for (const char c : head.becomes) {
          if (c == ' ') {
            normalized_ += model_->space;
          } else {
            normalized_.push_back(c);
          }
        }
        behind_space = head.becomes.ends_with(' ');
      }
      text.remove_prefix(head.size);
      if (!said.remove_extra_whitespaces) behind_space = false;
    }
    while (said.remove_extra_whitespaces && normalized_.ends_with(model_->space))
      normalized_.resize(normalized_.size() - model_->space.size());
    if (said.add_dummy_prefix && said.space_is_suffix) normalized_ += model_->space;
  }

  // Pieces that users defined stand by themselves; what lies between goes by merges.
  void encode_bpe(std::string_view text, Ids& ids) {
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      const ByteTrie::Match own = model_->user_defined.longest(text.substr(at));
      if (own.number == ByteTrie::none) {
        next_code_point(text, at);
        continue;
      }
      encode_words(text.substr(done, at - done), ids);
      ids.push_back(own.number);
      done = at += own.size;
    }
    encode_words(text.substr(done), ids);
  }

  void encode_words(std::string_view text, Ids& ids) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = model_->cuts_before_words ? end_of_word(text, begin) : text.size();
      encode_word(text, begin, end, ids);
      begin = end;
    }
  }

  void encode_word(std::string_view text, std::size_t begin, std::size_t end, Ids& ids) {
    const bool fits = end - begin <= PieceKey::longest_piece;
    PieceCache::Entry entry;
    if (fits) {
      entry.key = key_of_piece(text, begin, end);
      if (const PieceCache::Entry* const known = cache_.find(entry.key)) {
        for (std::size_t i = 0; i < known->ids; ++i) ids.push_back(known->id[i]);
        return;
      }
    }
    const std::size_t before = ids.size();
    merge_word(text.substr(begin, end - begin), ids);
    const std::size_t made = ids.size() - before;
    if (!fits || made > PieceCache::most_ids) return;
    entry.ids = static_cast<std::uint32_t>(made);
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), entry.id.begin());
    cache_.insert(entry);
  }

  void merge_word(std::string_view word, Ids& ids) {
    merged_.clear();
    strangers_.clear();
    const std::size_t pieces = model_->model.pieces.size();
    const std::size_t known = pieces + model_->character_of.size();
    for (std::size_t at = 0; at < word.size();) {
      const std::string_view character = character_at(word, at);
      at += character.size();
      std::int32_t id = model_->id_of(character);
      if (id == no_token) id = id_in(model_->characters, character);
      if (id == no_token) {  // no merge has it
        id = static_cast<std::int32_t>(known + strangers_.size());
        strangers_.push_back(character);
      }
      merged_.push_back(id);
    }
    merger_.apply(merged_);
    for (const std::int32_t id : merged_) {
      const auto index = static_cast<std::size_t>(id);
      if (index < pieces) {
        ids.push_back(id);
      } else {
        append_unknown(
            index < known ? std::string_view(model_->character_of[index - pieces]) : strangers_[index - known], ids);
      }
    }
  }

  void append_unknown(std::string_view text, Ids& ids) const {
    if (!model_->model.byte_fallback) return ids.push_back(model_->model.unknown_id);
    for (const char byte : text) ids.push_back(model_->byte_ids[static_cast<std::uint8_t>(byte)]);
  }

  // The path of highest score, in the library's arithmetic, which is of single precision: ties hang on it.
  void encode_unigram(std::string_view text, Ids& ids) {
    best_.assign(text.size() + 1, Step{});
    for (std::size_t begin = 0; begin < text.size();) {
      const float here = best_[begin].score;
      const std::size_t behind = begin + character_at(text, begin).size();
      bool has_character = false;
      const auto offer = [&](std::size_t end, std::int32_t id, float score) {
        Step& step = best_[end];
        if (step.begin == none || score + here > step.score) step = {score + here, begin, id};
      };
      model_->tokens.for_each_head(text.substr(begin), [&](std::size_t size, std::int32_t id) {
        const auto& [piece, own, type] = model_->piece(id);
        if (type == PieceType::unused) return;
        // What users defined is always taken.
        const bool is_own = type == PieceType::user_defined;
        offer(begin + size, id, is_own ? static_cast<float>(size) * model_->best_score - 0.1F : own);
        has_character = has_character || begin + size == behind;
      });
      if (!has_character) offer(behind, model_->model.unknown_id, model_->unknown_score);
      begin = behind;
    }
    ends_.clear();
    for (std::size_t end = text.size(); end > 0; end = best_[end].begin) ends_.push_back(end);
    for (auto end = ends_.rbegin(); end != ends_.rend(); ++end) {
      const Step& step = best_[*end];
      if (step.id == model_->model.unknown_id) {
        append_unknown(text.substr(step.begin, *end - step.begin), ids);
      } else {
        ids.push_back(step.id);
      }
    }
  }

  static constexpr std::size_t none = ~std::size_t{0};
  struct Step {
    float score = 0;
    std::size_t begin = none;
    std::int32_t id = no_token;
  };

  const SharedModel* model_;
  std::string normalized_;
  Merger merger_;
  PieceCache cache_;
  Ids merged_;
  std::vector<std::string_view> strangers_;  // characters of the word that the model does not know
  std::vector<Step> best_;
  std::vector<std::size_t> ends_;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string bytes, const std::string& origin, const std::string& end_name)
      : model_(parse_sentencepiece(bytes, origin), origin), end_(model_.model.end_id) {
    const std::vector<SentencePiece>& pieces = model_.model.pieces;
    if (!end_name.empty()) {
      const auto found = std::ranges::find(pieces, end_name, &SentencePiece::text);
      if (found == pieces.end())
        fail(ExitCode::usage, "{}: the vocabulary has no end-of-text token '{}'", origin, end_name);
      end_ = static_cast<std::int32_t>(found - pieces.begin());
    }
    const std::string end = end_ ? model_.piece(*end_).text : std::string();
    files_ = {
        {"tokenizer.model", std::move(bytes)},
        {"tokenizer_config.json", sentencepiece_config_json(end, model_.model.kind == SentencePieceModel::Kind::bpe)}};
    cuttable_ = model_.cuts_before_words && model_.model.add_dummy_prefix && model_.model.remove_extra_whitespaces &&
                !model_.model.space_is_suffix && std::ranges::none_of(pieces, [](const SentencePiece& piece) {
                  return piece.type == PieceType::user_defined && piece.text.find(' ') != std::string::npos;
                });
  }
  std::string name() const override { return "sentencepiece"; }
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(model_.model.pieces.size()); }
  std::optional<std::int32_t> end_of_text() const override { return end_; }
  SpecialTokens special_tokens() const override { return SpecialTokens::text; }
  std::vector<std::string> special_names() const override { return model_.control.special_names(); }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<SentencePieceEncoder>(model_); }
  const std::vector<TokenizerFile>& files() const override { return files_; }

  std::string decode(std::span<const std::int32_t> ids) const override;

  // White space is one prefix before each word, so that a part that a space begins is as within the text. No rule of
  // the map reaches from a printable character of ASCII over a space.
  std::size_t last_cut(std::string_view text) const override {
    if (!cuttable_) return 0;
    for (std::size_t cut = text.size(); cut-- > 1;) {
      if (text[cut] == ' ' && text[cut - 1] > ' ' && text[cut - 1] < 0x7F) return cut;
    }
    return 0;
  }

 private:
  SharedModel model_;
  std::optional<std::int32_t> end_;
  std::vector<TokenizerFile> files_;
  bool cuttable_ = false;
};

std::string SentencePieceTokenizer::decode(std::span<const std::int32_t> ids) const {
  const SentencePieceModel& said = model_.model;
  const bool drops_space = said.add_dummy_prefix || said.remove_extra_whitespaces;
  std::string text;
  bool begun = false;  // something was said, if only the space before the first word
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocabulary())
      fail(ExitCode::input, "cannot decode id {}: the tokenizer has ids 0 to {}", id, vocabulary() - 1);
    const SentencePiece& piece = model_.piece(id);
    if (piece.type == PieceType::control) continue;
    if (piece.type == PieceType::unknown) {
      text += said.unknown_surface;
    } else if (piece.type == PieceType::byte) {
      const auto byte = std::ranges::find(model_.byte_ids, id) - model_.byte_ids.begin();
      if (byte < 256) text.push_back(static_cast<char>(byte));
    } else {
      std::string_view rest = piece.text;
      if (!begun && text.empty() && drops_space && rest.starts_with(escaped_space)) {
        rest.remove_prefix(escaped_space.size());
        begun = !said.remove_extra_whitespaces;
      }
      while (!rest.empty()) {
        const std::size_t space = std::min(rest.find(escaped_space), rest.size());
        text += rest.substr(0, space);
        rest.remove_prefix(space);
        if (rest.empty()) break;
        text.push_back(' ');
        rest.remove_prefix(escaped_space.size());
      }
    }
  }
  return text;
}

}  // namespace

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(std::string bytes, const std::string& origin,
                                                   const std::string& end_name) {
  return std::make_unique<SentencePieceTokenizer>(std::move(bytes), origin, end_name);
}

}  // namespace lockstep
