// Models of words: a word is a token, or the longest tokens one after the other.
#include "base/error.hpp"
#include "tokenizer/byte_trie.hpp"
#include "tokenizer/token_model.hpp"
#include "unicode/utf8.hpp"

namespace lockstep {

namespace {

// The token of what has none.
class Unknown {
 public:
  Unknown(const ModelDescription& model, const TokenIds& ids)
      : token_(model.unknown.value()), id_(id_in(ids, token_)) {}
  std::int32_t id(std::string_view word) const {
    if (id_ == no_token)
      fail(ExitCode::input, "cannot tokenize '{}': neither it nor unk_token '{}' is in the vocabulary",
           word.substr(0, whole_code_points(word.substr(0, 100))), token_);
    return id_;
  }

 private:
  std::string token_;
  std::int32_t id_;
};

class WordLevel : public TokenModel {
 public:
  WordLevel(const ModelDescription& model, TokenIds ids) : ids_(std::move(ids)), unknown_(model, ids_) {}
  std::unique_ptr<PieceEncoder> encoder() const override { return std::make_unique<Encoding>(*this); }

 private:
  class Encoding : public PieceEncoder {
   public:
    explicit Encoding(const WordLevel& model) : model_(&model) {}
    void encode(std::string_view piece, std::vector<std::int32_t>& ids) override {
      const std::int32_t id = id_in(model_->ids_, piece);
      ids.push_back(id == no_token ? model_->unknown_.id(piece) : id);
    }

   private:
    const WordLevel* model_;
  };

  TokenIds ids_;
  Unknown unknown_;
};

class WordPiece : public TokenModel {
 public:
  WordPiece(const ModelDescription& model, const TokenIds& ids)
      : unknown_(model, ids), longest_word_(model.longest_word) {
    for (const auto& [token, id] : ids) {
      first_.insert(token, id);
      if (token.starts_with(model.prefix)) within_.insert(std::string_view(token).substr(model.prefix.size()), id);
    }
  }
  std::unique_ptr<PieceEncoder> encoder() const override { return std::make_unique<Encoding>(*this); }

 private:
  class Encoding : public PieceEncoder {
   public:
    explicit Encoding(const WordPiece& model) : model_(&model) {}
    void encode(std::string_view piece, std::vector<std::int32_t>& ids) override {
      const std::size_t before = ids.size();
      std::size_t characters = 0;
      for (const char c : piece) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
      bool is_known = characters <= model_->longest_word_;
      for (std::size_t at = 0; is_known && at < piece.size();) {
        const ByteTrie::Match match = (at == 0 ? model_->first_ : model_->within_).longest(piece.substr(at));
        is_known = match.number != ByteTrie::none;
        ids.push_back(match.number);
        at += match.size;
      }
      if (is_known) return;
      ids.resize(before);
      ids.push_back(model_->unknown_.id(piece));
    }

   private:
    const WordPiece* model_;
  };

  Unknown unknown_;
  std::size_t longest_word_;
  ByteTrie first_;
  ByteTrie within_;  // without the prefix
};

}  // namespace

std::unique_ptr<TokenModel> word_level_model(const ModelDescription& model, const std::string& origin) {
  return std::make_unique<WordLevel>(model, token_ids(model, origin));
}

std::unique_ptr<TokenModel> word_piece_model(const ModelDescription& model, const std::string& origin) {
  return std::make_unique<WordPiece>(model, token_ids(model, origin));
}

}  // namespace lockstep
