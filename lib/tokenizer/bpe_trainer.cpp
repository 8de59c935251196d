#include "tokenizer/bpe_trainer.hpp"

#include "base/checked_cast.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/token_model.hpp"

#include <algorithm>
#include <array>
#include <queue>
#include <utility>

namespace lockstep {

namespace {

using Place = std::uint32_t;  // in the text: where a token begins

/// Two tokens that stand beside each other somewhere.
struct TokenPair {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int64_t count = 0;
  std::vector<Place> places;   // of `left`; some are of the past, each that is of the present is among them
  std::uint32_t grown_in = 0;  // the step that has last added to the count
};

/// The pairs, found by their tokens: a flat table of their numbers.
class PairTable {
 public:
  TokenPair& operator[](std::size_t number) { return pairs_[number]; }
  std::size_t size() const { return pairs_.size(); }

  /// The number of a pair, which is made where there is none.
  std::uint32_t number_of(std::int32_t left, std::int32_t right) {
    if (2 * pairs_.size() >= slots_.size()) grow();
    std::uint32_t& slot = slots_[slot_of(left, right)];
    if (slot == none) {
      slot = static_cast<std::uint32_t>(pairs_.size());
      pairs_.push_back({left, right, 0, {}, 0});
    }
    return slot;
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  std::size_t slot_of(std::int32_t left, std::int32_t right) const {
    std::uint64_t key = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
    key ^= key >> 29;
    std::size_t at = key * 0x9E3779B97F4A7C15u >> 20 & (slots_.size() - 1);
    while (slots_[at] != none && (pairs_[slots_[at]].left != left || pairs_[slots_[at]].right != right))
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    slots_.assign(std::max<std::size_t>(2 * slots_.size(), std::size_t{1} << 16), none);
    for (std::uint32_t number = 0; number < pairs_.size(); ++number)
      slots_[slot_of(pairs_[number].left, pairs_[number].right)] = number;
  }

  std::vector<TokenPair> pairs_;
  std::vector<std::uint32_t> slots_;
};

/// The tokens of all pieces beside each other, one place a byte. A token's id stands at its first and its last place; a
/// piece has an `edge` before it and behind it.
class PieceText {
 public:
  static constexpr std::int32_t edge = -1;
  static constexpr std::int32_t inside = -2;  // of a token: where another began or ended

  explicit PieceText(std::size_t places) {
    ids_.reserve(places + 1);
    piece_of_.reserve(places + 1);
    ids_.push_back(edge);
    piece_of_.push_back(0);
  }
  void append_piece(std::string_view bytes, std::uint64_t count, const std::array<std::int32_t, 256>& byte_ids) {
    const auto piece = static_cast<std::uint32_t>(counts_.size());
    counts_.push_back(static_cast<std::int64_t>(count));
    for (const char byte : bytes) ids_.push_back(byte_ids[static_cast<std::uint8_t>(byte)]);
    ids_.push_back(edge);
    piece_of_.resize(ids_.size(), piece);
  }

  std::size_t size() const { return ids_.size(); }
  std::int32_t at(std::size_t place) const { return ids_[place]; }
  std::int64_t count_at(std::size_t place) const { return counts_[piece_of_[place]]; }

  /// Makes one token of two, which begin at these places and end before `end`.
  void join(std::size_t left, std::size_t right, std::size_t end, std::int32_t id) {
    ids_[right - 1] = inside;
    ids_[right] = inside;
    ids_[left] = id;
    ids_[end - 1] = id;
  }

 private:
  std::vector<std::int32_t> ids_;
  std::vector<std::uint32_t> piece_of_;
  std::vector<std::int64_t> counts_;  // by piece
};

/// A pair as it waits for its turn; its count may have become less.
struct Candidate {
  std::int64_t count = 0;
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::uint32_t pair = 0;
  /// Whether the other one has its turn first.
  bool operator<(const Candidate& other) const {
    if (count != other.count) return count < other.count;
    return std::pair(left, right) > std::pair(other.left, other.right);
  }
};

class Training {
 public:
  Training(std::span<const CountedPiece> pieces, const BpeTraining& settings)
      : settings_(settings), text_(places_of(pieces)) {
    trained_.model.kind = ModelKind::bpe;
    for (const std::string& token : settings.special_tokens) id_of(token, 0);
    name_bytes();
    for (const CountedPiece& piece : pieces) text_.append_piece(piece.bytes, piece.count, byte_ids_);
    find_pairs();
  }

  TrainedBpe run(const std::function<void(std::int64_t)>& alive) {
    const auto min_count = static_cast<std::int64_t>(std::max<std::uint64_t>(settings_.min_count, 1));
    while (vocabulary() < settings_.vocabulary && !queue_.empty()) {
      alive(vocabulary());
      const Candidate next = queue_.top();
      queue_.pop();
      const std::int64_t count = pairs_[next.pair].count;
      if (next.count != count) {
        if (next.count > count && count > 0) queue_.push({count, next.left, next.right, next.pair});
        continue;
      }
      if (count < min_count) break;
      merge(next.pair);
    }
    count_tokens();
    return std::move(trained_);
  }

 private:
  static std::size_t places_of(std::span<const CountedPiece> pieces) {
    std::size_t bytes = 0;
    for (const CountedPiece& piece : pieces) bytes += piece.bytes.size();
    if (bytes > most_piece_bytes)
      fail(ExitCode::resources, "cannot train a tokenizer on {} of distinct words: the limit is {}", human_bytes(bytes),
           human_bytes(most_piece_bytes));
    return bytes + pieces.size();
  }

  std::int64_t vocabulary() const { return std::ssize(trained_.model.vocabulary); }

  /// Of a token that is written so and stands for so many bytes.
  std::int32_t id_of(const std::string& token, std::size_t length) {
    const auto [found, is_new] = ids_.emplace(token, static_cast<std::int32_t>(vocabulary()));
    if (is_new) {
      trained_.model.vocabulary.emplace_back(token, found->second);
      lengths_.push_back(length);
    } else {
      lengths_[static_cast<std::size_t>(found->second)] = length;  // of a special token that is met as text
    }
    return found->second;
  }

  // In the order of the letters that stand for them.
  void name_bytes() {
    std::vector<std::pair<char32_t, int>> letters;
    for (int byte = 0; byte < 256; ++byte)
      letters.emplace_back(character_of_byte(static_cast<std::uint8_t>(byte)), byte);
    std::ranges::sort(letters);
    for (const auto& [letter, byte] : letters)
      byte_ids_[static_cast<std::size_t>(byte)] = id_of(to_byte_level(std::string(1, static_cast<char>(byte))), 1);
  }

  void find_pairs() {
    for (std::size_t place = 1; place + 1 < text_.size(); ++place) {
      if (text_.at(place) == PieceText::edge || text_.at(place + 1) == PieceText::edge) continue;
      add_pair(text_.at(place), text_.at(place + 1), place, text_.count_at(place));
    }
    for (std::uint32_t number = 0; number < pairs_.size(); ++number) wait_for_turn(number);
    grown_.clear();
  }

  void wait_for_turn(std::uint32_t number) {
    const TokenPair& pair = pairs_[number];
    if (pair.count > 0) queue_.push({pair.count, pair.left, pair.right, number});
  }

  void add_pair(std::int32_t left, std::int32_t right, std::size_t place, std::int64_t count) {
    const std::uint32_t number = pairs_.number_of(left, right);
    TokenPair& pair = pairs_[number];
    pair.count += count;
    pair.places.push_back(static_cast<Place>(place));
    if (std::exchange(pair.grown_in, step_) != step_) grown_.push_back(number);
  }

  std::size_t length(std::int32_t id) const { return lengths_[static_cast<std::size_t>(id)]; }

  void merge(std::uint32_t number) {
    ++step_;
    const std::int32_t left = pairs_[number].left;
    const std::int32_t right = pairs_[number].right;
    const std::string left_text = token(left);
    const std::string right_text = token(right);
    const std::int32_t id = id_of(left_text + right_text, length(left) + length(right));
    trained_.model.merges.emplace_back(left_text, right_text);
    std::vector<Place> places = std::exchange(pairs_[number].places, {});
    // In a row of equal tokens the leftmost ones are joined.
    if (!std::ranges::is_sorted(places)) std::ranges::sort(places);
    for (const Place place : places) merge_at(place, left, right, id);
    pairs_[number].count = 0;  // of a row of equal tokens one may be left, without a neighbour
    for (const std::uint32_t grown : grown_) wait_for_turn(grown);
    grown_.clear();
  }

  void merge_at(std::size_t place, std::int32_t left, std::int32_t right, std::int32_t id) {
    const std::size_t second = place + length(left);
    if (text_.at(place) != left || text_.at(second) != right) return;  // joined with others since
    const std::size_t end = second + length(right);
    const std::int64_t count = text_.count_at(place);
    const std::int32_t before = text_.at(place - 1);
    const std::int32_t behind = text_.at(end);
    text_.join(place, second, end, id);
    if (before != PieceText::edge) {
      pairs_[pairs_.number_of(before, left)].count -= count;
      add_pair(before, id, place - length(before), count);
    }
    if (behind != PieceText::edge) {
      pairs_[pairs_.number_of(right, behind)].count -= count;
      add_pair(id, behind, place, count);
    }
  }

  const std::string& token(std::int32_t id) const {
    return trained_.model.vocabulary[static_cast<std::size_t>(id)].first;
  }

  void count_tokens() {
    for (std::size_t place = 1; place < text_.size();) {
      const std::int32_t id = text_.at(place);
      if (id == PieceText::edge) {
        ++place;
        continue;
      }
      trained_.tokens += static_cast<std::uint64_t>(text_.count_at(place));
      place += length(id);
    }
  }

  const BpeTraining& settings_;
  PieceText text_;
  TrainedBpe trained_;
  TokenIds ids_;                      // by how tokens are written
  std::vector<std::size_t> lengths_;  // by id; in bytes
  std::array<std::int32_t, 256> byte_ids_{};
  PairTable pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<std::uint32_t> grown_;  // pairs whose count became more in this step
  std::uint32_t step_ = 1;
};

}  // namespace

TrainedBpe train_bpe(std::span<const CountedPiece> pieces, const BpeTraining& settings,
                     const std::function<void(std::int64_t vocabulary)>& alive) {
  return Training(pieces, settings).run(alive);
}

}  // namespace lockstep
