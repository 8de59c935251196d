// The likeliest cut of a piece into tokens, by their scores (Viterbi), as the tokenizers library finds it.
#include "base/error.hpp"
#include "tokenizer/byte_trie.hpp"
#include "tokenizer/token_model.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>
#include <limits>

namespace lockstep {

namespace {

constexpr double unknown_penalty = 10;  // below the worst score

class Unigram : public TokenModel {
 public:
  Unigram(const ModelDescription& model, const std::string& origin)
      : scores_(model.scores),
        unknown_(model.unknown_id.value_or(no_token)),
        byte_fallback_(model.byte_fallback),
        fuse_unknown_(model.fuse_unknown) {
    double worst = std::numeric_limits<double>::infinity();
    for (const auto& [token, id] : model.vocabulary) {
      if (token.empty()) fail(ExitCode::input, "{}: the vocabulary has an empty token", origin);
      ids_.insert_or_assign(token, id);  // of two, the later one
      tokens_.insert(token, id);
      worst = std::min(worst, scores_[static_cast<std::size_t>(id)]);
    }
    unknown_score_ = worst - unknown_penalty;
  }
  std::unique_ptr<PieceEncoder> encoder() const override { return std::make_unique<Encoding>(*this); }

 private:
  class Encoding : public PieceEncoder {
   public:
    explicit Encoding(const Unigram& model) : model_(&model) {}

    void encode(std::string_view piece, std::vector<std::int32_t>& ids) override {
      find_paths(piece);
      cuts_.clear();
      // From the end: tokens, where unknown ones beside each other are one.
      bool in_unknown = false;
      for (std::size_t end = piece.size(); end > 0;) {
        const Step& step = best_[end];
        const bool is_unknown = model_->fuse_unknown_ && step.id == model_->unknown_;
        if (is_unknown && in_unknown) {
          cuts_.back().begin = step.begin;
        } else {
          cuts_.push_back({step.begin, end});
        }
        in_unknown = is_unknown;
        end = step.begin;
      }
      for (auto cut = cuts_.rbegin(); cut != cuts_.rend(); ++cut) {
        const std::string_view token = piece.substr(cut->begin, cut->end - cut->begin);
        const std::int32_t id = id_in(model_->ids_, token);
        if (id != no_token) {
          ids.push_back(id);
        } else if (!model_->byte_fallback_ || !append_byte_tokens(token, model_->ids_, ids)) {
          ids.push_back(model_->unknown_);
        }
      }
    }

   private:
    struct Step {
      double score = 0;
      std::size_t begin = none;
      std::int32_t id = no_token;
    };
    struct Cut {
      std::size_t begin;
      std::size_t end;
    };
    static constexpr std::size_t none = ~std::size_t{0};

    // The best last step of a path to each place.
    void find_paths(std::string_view piece) {
      best_.assign(piece.size() + 1, Step{});
      for (std::size_t begin = 0; begin < piece.size();) {
        const double here = best_[begin].score;
        const auto offer = [&](std::size_t end, std::int32_t id, double score) {
          Step& step = best_[end];
          if (step.begin == none || score + here > step.score) step = {score + here, begin, id};
        };
        std::size_t behind = begin;
        next_code_point(piece, behind);
        bool has_character = false;
        model_->tokens_.for_each_head(piece.substr(begin), [&](std::size_t size, std::int32_t id) {
          offer(begin + size, id, model_->scores_[static_cast<std::size_t>(id)]);
          has_character = has_character || begin + size == behind;
        });
        if (!has_character) {
          if (model_->unknown_ == no_token)
            fail(ExitCode::input, "cannot tokenize '{}': it is not in the vocabulary, and unk_id is null",
                 piece.substr(begin, behind - begin));
          offer(behind, model_->unknown_, model_->unknown_score_);
        }
        begin = behind;
      }
    }

    const Unigram* model_;
    std::vector<Step> best_;
    std::vector<Cut> cuts_;
  };

  std::vector<double> scores_;
  std::int32_t unknown_;
  bool byte_fallback_;
  bool fuse_unknown_;
  double unknown_score_ = 0;
  TokenIds ids_;
  ByteTrie tokens_;
};

}  // namespace

std::unique_ptr<TokenModel> unigram_model(const ModelDescription& model, const std::string& origin) {
  return std::make_unique<Unigram>(model, origin);
}

}  // namespace lockstep
