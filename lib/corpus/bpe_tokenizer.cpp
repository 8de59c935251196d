#include "base/checked_cast.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "corpus/bpe_files.hpp"
#include "corpus/bpe_merges.hpp"
#include "corpus/byte_level.hpp"
#include "corpus/piece_cache.hpp"
#include "corpus/piece_pattern.hpp"
#include "corpus/tokenizer_files.hpp"
#include "corpus/tokenizers.hpp"
#include "corpus/utf8.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

namespace lockstep {

namespace {

// What all threads share.
struct Bpe {
  explicit Bpe(const BpeDescription& description, const std::string& origin);

  PieceRule pieces;
  PrefixSpace prefix_space;
  bool whole_pieces_first;
  std::array<std::int32_t, 256> byte_ids{};
  std::vector<std::string> bytes_of;                    // by id; empty where an id is not used
  std::unordered_map<std::string, std::int32_t> id_of;  // by bytes; filled only for whole_pieces_first
  MergeTable merges;
  std::array<AddedTokens, 2> added;  // first the plain ones, then those marked normalized
  PiecePattern pattern = PiecePattern::gpt2();
};

Bpe::Bpe(const BpeDescription& description, const std::string& origin)
    : pieces(description.pieces),
      prefix_space(description.prefix_space),
      whole_pieces_first(description.whole_pieces_first),
      merges(description.merges.size()) {
  std::unordered_map<std::string_view, std::int32_t> ids;  // by the name in the byte-level alphabet
  ids.reserve(description.vocabulary.size());
  bytes_of.reserve(description.vocabulary.size());
  const auto name = [&](std::int32_t id, std::string bytes) {
    if (static_cast<std::size_t>(id) >= bytes_of.size()) bytes_of.resize(static_cast<std::size_t>(id) + 1);
    bytes_of[static_cast<std::size_t>(id)] = std::move(bytes);
  };
  for (const auto& [token, id] : description.vocabulary) {
    if (!ids.emplace(token, id).second) fail(ExitCode::input, "{}: the vocabulary names '{}' twice", origin, token);
    std::string bytes = from_byte_level(token).value_or(token);  // others (special tokens) stand for themselves
    if (whole_pieces_first) id_of[bytes] = id;
    name(id, std::move(bytes));
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(to_byte_level(std::string(1, static_cast<char>(byte))));
    if (found == ids.end())
      fail(ExitCode::usage, "{}: the vocabulary lacks the byte 0x{:02X}; only byte-level BPE is supported", origin,
           byte);
    byte_ids[static_cast<std::size_t>(byte)] = found->second;
  }
  const auto id_named = [&](std::string_view token) {
    const auto found = ids.find(token);
    if (found == ids.end())
      fail(ExitCode::input, "{}: a merge names or makes '{}', which the vocabulary lacks", origin, token);
    return found->second;
  };
  std::uint32_t rank = 0;
  std::string joined;
  for (const auto& [left, right] : description.merges) {
    const std::int32_t left_id = id_named(left);
    const std::int32_t right_id = id_named(right);
    joined.assign(left).append(right);
    merges.insert(left_id, right_id, {rank++, id_named(joined)});
  }
  for (const AddedToken& token : description.added_tokens) name(token.id, token.content);
}

class BpeEncoder : public Encoder {
 public:
  explicit BpeEncoder(const Bpe& bpe) : bpe_(&bpe), cutter_(bpe.pattern), merger_(bpe.merges) {}
  void encode(std::string_view text, std::vector<std::int32_t>& ids) override { split_at_added(text, 0, ids); }

 private:
  void split_at_added(std::string_view text, std::size_t group, std::vector<std::int32_t>& ids);
  void encode_plain(std::string_view text, std::vector<std::int32_t>& ids);
  /// Of the piece `text[begin, end)`.
  void encode_piece(std::string_view text, std::size_t begin, std::size_t end, std::vector<std::int32_t>& ids);
  void merge_piece(std::string_view piece);

  const Bpe* bpe_;
  PieceCutter cutter_;
  Merger merger_;
  PieceCache cache_;
  std::vector<std::int32_t> merged_;
  std::string prefixed_;
};

// The text between the tokens of a group goes to the next group and then to the pieces.
void BpeEncoder::split_at_added(std::string_view text, std::size_t group, std::vector<std::int32_t>& ids) {
  if (group == bpe_->added.size()) return encode_plain(text, ids);
  bpe_->added[group].cut(
      text, [&](std::string_view plain) { split_at_added(plain, group + 1, ids); },
      [&](std::int32_t id) { ids.push_back(id); });
}

void BpeEncoder::encode_plain(std::string_view text, std::vector<std::int32_t>& ids) {
  if (text.empty()) return;
  if (bpe_->prefix_space == PrefixSpace::add && text.front() != ' ') {
    prefixed_.assign(1, ' ').append(text);
    text = prefixed_;
  }
  if (bpe_->pieces == PieceRule::whole_text) return encode_piece(text, 0, text.size(), ids);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = cutter_.end_of_piece(text, begin);
    encode_piece(text, begin, end, ids);
    begin = end;
  }
}

void BpeEncoder::encode_piece(std::string_view text, std::size_t begin, std::size_t end,
                              std::vector<std::int32_t>& ids) {
  const bool fits = end - begin <= PieceKey::longest_piece;
  PieceCache::Entry entry;
  if (fits) {
    entry.key = key_of_piece(text, begin, end);
    if (const PieceCache::Entry* const known = cache_.find(entry.key)) {
      for (std::size_t i = 0; i < known->ids; ++i) ids.push_back(known->id[i]);
      return;
    }
  }
  merge_piece(text.substr(begin, end - begin));
  ids.insert(ids.end(), merged_.begin(), merged_.end());
  if (!fits || merged_.size() > PieceCache::most_ids) return;
  entry.ids = static_cast<std::uint32_t>(merged_.size());
  std::ranges::copy(merged_, entry.id.begin());
  cache_.insert(entry);
}

void BpeEncoder::merge_piece(std::string_view piece) {
  merged_.clear();
  if (bpe_->whole_pieces_first) {
    const auto whole = bpe_->id_of.find(std::string(piece));
    if (whole != bpe_->id_of.end()) {
      merged_.push_back(whole->second);
      return;
    }
  }
  for (const char byte : piece) merged_.push_back(bpe_->byte_ids[static_cast<std::uint8_t>(byte)]);
  merger_.apply(merged_);
}

class BpeTokenizer : public Tokenizer {
 public:
  BpeTokenizer(BpeDescription description, const std::string& origin, const std::string& end_name,
               std::optional<SpecialTokens> reading)
      : bpe_(description, origin), reading_(reading.value_or(description.reading)) {
    const std::string chosen = choose_end(end_name, description.end_name, origin);
    write_files(description, mark_end(description, chosen), chosen);
    for (const bool normalized : {false, true}) {
      std::vector<AddedToken> group = description.added_tokens;
      std::erase_if(group, [&](const AddedToken& token) { return token.normalized != normalized; });
      bpe_.added[normalized ? 1 : 0] = AddedTokens(std::move(group), reading_);
    }
    cuttable_ = bpe_.pieces == PieceRule::gpt2_pattern;
    for (const AddedToken& token : description.added_tokens) {
      for (std::size_t position = 0; position < token.content.size();) {
        if (is_white_space(next_code_point(token.content, position))) cuttable_ = false;
      }
    }
  }
  std::string name() const override { return "bpe"; }
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(bpe_.bytes_of.size()); }
  std::optional<std::int32_t> end_of_text() const override { return end_; }
  SpecialTokens special_tokens() const override { return reading_; }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<BpeEncoder>(bpe_); }
  std::size_t last_cut(std::string_view text) const override;
  const std::vector<TokenizerFile>& files() const override { return files_; }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocabulary())
        fail(ExitCode::input, "cannot decode id {}: the tokenizer has ids 0 to {}", id, vocabulary() - 1);
      text += bpe_.bytes_of[static_cast<std::size_t>(id)];
    }
    return text;
  }

 private:
  std::string choose_end(const std::string& wanted, const std::string& configured, const std::string& origin);
  std::optional<AddedToken> mark_end(BpeDescription& description, const std::string& end_name) const;
  void write_files(const BpeDescription& description, const std::optional<AddedToken>& marked,
                   const std::string& end_name);

  Bpe bpe_;
  SpecialTokens reading_;
  std::vector<TokenizerFile> files_;
  std::optional<std::int32_t> end_;
  bool cuttable_ = false;
};

// No piece of the pattern goes on from another character into white space, so a text may be cut between the two. A
// space, since nothing is put before it; a line end would get a prefix space where the tokenizer adds one.
std::size_t BpeTokenizer::last_cut(std::string_view text) const {
  if (!cuttable_) return 0;
  for (std::size_t cut = text.size(); cut-- > 1;) {
    if (text[cut] != ' ' && (text[cut] != '\n' || bpe_.prefix_space == PrefixSpace::add)) continue;
    const auto before = last_code_point(text.substr(0, cut));
    if (before && !is_white_space(*before)) return cut;
  }
  return 0;
}

// Returns the name of the end-of-text token, if there is one.
std::string BpeTokenizer::choose_end(const std::string& wanted, const std::string& configured,
                                     const std::string& origin) {
  const auto id_of = [&](const std::string& name) -> std::optional<std::int32_t> {
    const auto found = std::ranges::find(bpe_.bytes_of, name);
    if (name.empty() || found == bpe_.bytes_of.end()) return std::nullopt;
    return checked_cast<std::int32_t>(found - bpe_.bytes_of.begin(), "an id");
  };
  for (const std::string& name : {wanted, configured}) {
    if (name.empty()) continue;
    end_ = id_of(name);
    if (!end_) fail(ExitCode::usage, "{}: the vocabulary has no token '{}' to end texts with", origin, name);
    break;
  }
  std::string end_name = !wanted.empty() ? wanted : configured;
  for (const char* const customary : {default_end_name, "<|end_of_text|>", "</s>"}) {
    if (end_ || !(end_ = id_of(customary))) continue;
    end_name = customary;
  }
  return end_name;
}

// transformers takes the end-of-text token for a special one wherever a text spells it out, so it is one for us and in
// tokenizer.json: returns it if it was not yet.
std::optional<AddedToken> BpeTokenizer::mark_end(BpeDescription& description, const std::string& end_name) const {
  if (!end_ ||
      std::ranges::find(description.added_tokens, end_name, &AddedToken::content) != description.added_tokens.end())
    return std::nullopt;
  const bool is_entry =
      std::ranges::find(description.vocabulary, std::pair(end_name, *end_)) != description.vocabulary.end();
  if (!is_entry) return std::nullopt;  // a name by its bytes, which tokenizer.json cannot mark
  return description.added_tokens.emplace_back(AddedToken{*end_, end_name});
}

// What was chosen travels with the files, for us and for other readers.
void BpeTokenizer::write_files(const BpeDescription& description, const std::optional<AddedToken>& marked,
                               const std::string& end_name) {
  files_ = description.files;
  const auto json = std::ranges::find(files_, "tokenizer.json", &TokenizerFile::name);
  if (json == files_.end()) {
    files_.push_back({"tokenizer.json", bpe_tokenizer_json(description)});
  } else if (marked) {
    Json document = parse_json(json->content, json->name);
    if (!document.value("added_tokens", Json()).is_array()) document["added_tokens"] = Json::array();
    document["added_tokens"].push_back(added_token_json(marked->id, marked->content));
    json->content = to_text(document, 1) + "\n";
  }
  const auto config = std::ranges::find(files_, "tokenizer_config.json", &TokenizerFile::name);
  if (config == files_.end()) {
    files_.push_back({"tokenizer_config.json", tokenizer_config_json(end_name, reading_)});
  } else if (end_name != description.end_name || reading_ != description.reading) {
    Json document = parse_json(config->content, config->name);
    if (end_name != description.end_name) document["eos_token"] = end_name;
    set_special_tokens(document, reading_);
    config->content = to_text(document, 2) + "\n";
  }
}

}  // namespace

std::unique_ptr<Tokenizer> bpe_tokenizer(const Path& path, const std::string& end_name,
                                         std::optional<SpecialTokens> reading) {
  return std::make_unique<BpeTokenizer>(read_bpe(path), path.string(), end_name, reading);
}

}  // namespace lockstep
