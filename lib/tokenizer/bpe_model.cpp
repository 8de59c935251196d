// Byte-pair encoding of bytes or of characters.
#include "base/error.hpp"
#include "tokenizer/bpe_merges.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/token_model.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>
#include <array>

namespace lockstep {

namespace {

MergeTable merge_table(const ModelDescription& model, const TokenIds& ids, const std::string& origin) {
  MergeTable table(model.merges.size());
  const auto id_named = [&](std::string_view token) {
    const std::int32_t id = id_in(ids, token);
    if (id == no_token)
      fail(ExitCode::input, "{}: a merge uses or produces '{}', which is not in the vocabulary", origin, token);
    return id;
  };
  std::uint32_t rank = 0;
  std::string joined;
  for (const auto& [left, right] : model.merges) {
    const std::int32_t left_id = id_named(left);
    const std::int32_t right_id = id_named(right);
    if (right.size() < model.prefix.size())
      fail(ExitCode::input, "{}: a merge uses '{}', which is shorter than continuing_subword_prefix", origin, right);
    joined.assign(left).append(right, model.prefix.size(), std::string::npos);
    table.insert(left_id, right_id, {rank++, id_named(joined)});
  }
  return table;
}

// Pieces are bytes. A byte without a token is left out, as the library does if the model has no unk_token.
class ByteBpe : public TokenModel {
 public:
  ByteBpe(const ModelDescription& model, const TokenIds& ids, const std::string& origin)
      : whole_pieces_first_(model.whole_pieces_first), merges_(merge_table(model, ids, origin)) {
    for (int byte = 0; byte < 256; ++byte)
      byte_ids_[static_cast<std::size_t>(byte)] = id_in(ids, to_byte_level(std::string(1, static_cast<char>(byte))));
    for (const auto& [token, id] : ids) {
      if (!whole_pieces_first_) break;
      if (const auto bytes = from_byte_level(token)) whole_.emplace(*bytes, id);
    }
  }
  bool reads_bytes() const override { return true; }
  std::unique_ptr<PieceEncoder> encoder() const override { return std::make_unique<Encoding>(*this); }

 private:
  class Encoding : public PieceEncoder {
   public:
    explicit Encoding(const ByteBpe& model) : model_(&model), merger_(model.merges_) {}
    void encode(std::string_view piece, std::vector<std::int32_t>& ids) override {
      if (model_->whole_pieces_first_) {
        if (const std::int32_t id = id_in(model_->whole_, piece); id != no_token) return ids.push_back(id);
      }
      merged_.clear();
      for (const char byte : piece) {
        const std::int32_t id = model_->byte_ids_[static_cast<std::uint8_t>(byte)];
        if (id == no_token) {
          ++left_out_;
        } else {
          merged_.push_back(id);
        }
      }
      merger_.apply(merged_);
      ids.insert(ids.end(), merged_.begin(), merged_.end());
    }

   private:
    const ByteBpe* model_;
    Merger merger_;
    std::vector<std::int32_t> merged_;
  };

  bool whole_pieces_first_;
  std::array<std::int32_t, 256> byte_ids_{};
  TokenIds whole_;  // by bytes
  MergeTable merges_;
};

class CharacterBpe : public TokenModel {
 public:
  CharacterBpe(const ModelDescription& model, TokenIds ids, const std::string& origin)
      : ids_(std::move(ids)),
        prefix_(model.prefix),
        suffix_(model.suffix),
        unknown_(model.unknown),
        fuse_unknown_(model.fuse_unknown),
        byte_fallback_(model.byte_fallback),
        whole_pieces_first_(model.whole_pieces_first),
        merges_(merge_table(model, ids_, origin)) {
    unknown_id_ = unknown_ ? id_in(ids_, *unknown_) : no_token;
    cuts_before_words_ =
        !whole_pieces_first_ && prefix_.empty() && suffix_.empty() && id_in(ids_, "\u2581") != no_token &&
        std::ranges::none_of(model.merges, [](const auto& merge) { return spans_words(merge.first + merge.second); });
  }
  bool cuts_before_words() const override { return cuts_before_words_; }
  std::unique_ptr<PieceEncoder> encoder() const override { return std::make_unique<Encoding>(*this); }

 private:
  class Encoding : public PieceEncoder {
   public:
    explicit Encoding(const CharacterBpe& model) : model_(&model), merger_(model.merges_) {}
    void encode(std::string_view piece, std::vector<std::int32_t>& ids) override {
      const CharacterBpe& model = *model_;
      if (model.whole_pieces_first_) {
        if (const std::int32_t id = id_in(model.ids_, piece); id != no_token) return ids.push_back(id);
      }
      merged_.clear();
      bool pending = false;  // an unknown token follows the next character, or the last one
      for (std::size_t at = 0; at < piece.size();) {
        const std::size_t begin = at;
        next_code_point(piece, at);
        const std::string_view symbol = symbol_at(piece, begin, at);
        if (const std::int32_t id = id_in(model.ids_, symbol); id != no_token) {
          if (pending) merged_.push_back(model.unknown_id_);
          pending = false;
          merged_.push_back(id);
          continue;
        }
        if (model.byte_fallback_ && append_byte_tokens(symbol, model.ids_, merged_)) continue;
        if (!model.unknown_) {  // the library leaves it out
          ++left_out_;
          continue;
        }
        if (model.unknown_id_ == no_token)
          fail(ExitCode::input, "cannot tokenize '{}': neither it nor unk_token '{}' is in the vocabulary",
               piece.substr(begin, at - begin), *model.unknown_);
        if (pending && !model.fuse_unknown_) merged_.push_back(model.unknown_id_);
        pending = true;
      }
      if (pending) merged_.push_back(model.unknown_id_);
      merger_.apply(merged_);
      ids.insert(ids.end(), merged_.begin(), merged_.end());
    }

   private:
    std::string_view symbol_at(std::string_view piece, std::size_t begin, std::size_t end) {
      const bool within = begin > 0 && !model_->prefix_.empty();
      const bool last = end == piece.size() && !model_->suffix_.empty();
      if (!within && !last) return piece.substr(begin, end - begin);
      symbol_ = within ? model_->prefix_ : std::string();
      symbol_ += piece.substr(begin, end - begin);
      if (last) symbol_ += model_->suffix_;
      return symbol_;
    }

    const CharacterBpe* model_;
    Merger merger_;
    std::vector<std::int32_t> merged_;
    std::string symbol_;
  };

  TokenIds ids_;
  std::string prefix_;
  std::string suffix_;
  std::optional<std::string> unknown_;
  std::int32_t unknown_id_ = no_token;
  bool fuse_unknown_;
  bool byte_fallback_;
  bool whole_pieces_first_;
  bool cuts_before_words_ = false;
  MergeTable merges_;
};

}  // namespace

std::unique_ptr<TokenModel> bpe_model(const ModelDescription& model, bool byte_level, const std::string& origin) {
  TokenIds ids = token_ids(model, origin);
  if (!byte_level || !model.prefix.empty() || !model.suffix.empty())
    return std::make_unique<CharacterBpe>(model, std::move(ids), origin);
  for (int byte = 0; byte < 256 && (model.unknown || model.byte_fallback); ++byte) {
    if (id_in(ids, to_byte_level(std::string(1, static_cast<char>(byte)))) == no_token)
      return std::make_unique<CharacterBpe>(model, std::move(ids), origin);
  }
  return std::make_unique<ByteBpe>(model, ids, origin);
}

}  // namespace lockstep
