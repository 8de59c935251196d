#include "base/checked_cast.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/piece_cache.hpp"
#include "tokenizer/piece_pattern.hpp"
#include "tokenizer/token_model.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_json.hpp"
#include "tokenizer/tokenizers.hpp"
#include "unicode/text_opening.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <utility>

namespace lockstep {

namespace {

/// Whether pieces are bytes for a model that knows letters.
bool reads_bytes(const PreTokenizer& pre_tokenizer) {
  return pre_tokenizer.is_byte_level() && !pre_tokenizer.gives_letters();
}

// What all threads share.
struct Pipeline {
  Pipeline(const TokenizerDescription& description, const std::string& origin)
      : normalizer(description.normalizer),
        pre_tokenizer(description.pre_tokenizer),
        model(token_model(description.model, reads_bytes(pre_tokenizer), origin)),
        writes_letters(reads_bytes(pre_tokenizer) && !model->reads_bytes()),
        cuts_before_words(model->cuts_before_words()) {}

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  bool writes_letters;  // pieces are bytes, the model wants the letters that stand for them
  bool cuts_before_words;
  AddedTokens added;             // looked for in the text
  AddedTokens added_normalized;  // and these in what the normalizer makes of the rest
};

class PipelineEncoder : public Encoder {
 public:
  explicit PipelineEncoder(const Pipeline& pipeline)
      : pipeline_(&pipeline),
        cutter_(pipeline.pre_tokenizer.rule().value_or(PieceRule::whole_text)),
        model_(pipeline.model->encoder()) {}

  void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
    const auto token = [&](std::int32_t id) { ids.push_back(id); };
    pipeline_->added.cut(
        text,
        [&](std::string_view plain) {
          std::string changed;
          const std::size_t opening = normalize(plain, plain.data() == text.data(), changed);
          pipeline_->added_normalized.cut(
              plain,
              [&](std::string_view part) {
                const auto begin = static_cast<std::size_t>(part.data() - plain.data());
                encode_plain({part, opening_of_part(opening, begin, part.size())}, ids);
              },
              token);
        },
        token);
  }

  MarkedIds encode_marked(const MarkedText& text) override {
    const std::uint64_t before = model_->left_out();
    MarkedIds made = encode_parts(text);
    if (model_->left_out() == before || text.borders.empty()) return made;
    const std::uint64_t once_and_more = model_->left_out();  // parts were encoded as wholes and up to borders
    (void)encode_parts({text.text, text.literal, {}});
    const std::uint64_t once = model_->left_out() - once_and_more;
    counted_besides_ += model_->left_out() - before - once;
    return made;
  }

  std::uint64_t left_out() const override { return model_->left_out() - counted_besides_; }

 private:
  MarkedIds encode_parts(const MarkedText& text) {
    return encode_marked_parts(text, pipeline_->added, [&](std::string_view part, std::vector<std::int32_t>& ids) {
      const auto begin = static_cast<std::size_t>(part.data() - text.text.data());
      std::vector<TextRange> literal;  // within the part
      for (const TextRange& range : text.literal)
        if (range.end > begin && range.begin < begin + part.size())
          literal.push_back({std::max(range.begin, begin) - begin, range.end - begin});
      encode_normalized(part, begin == 0, literal, ids);
    });
  }

  /// Normalizes `plain` into `changed`, which it then views; returns its opening.
  std::size_t normalize(std::string_view& plain, bool begins_text, std::string& changed) const {
    std::size_t opening = first_character(plain);
    if (!pipeline_->normalizer.is_none()) plain = changed = pipeline_->normalizer.apply(plain, opening);
    return begins_text ? opening : 0;
  }

  void encode_normalized(std::string_view plain, bool begins_text, std::span<const TextRange> literal,
                         std::vector<std::int32_t>& ids) {
    const bool moves = !pipeline_->normalizer.is_none();
    std::string changed;
    const std::size_t opening = normalize(plain, begins_text, changed);
    pipeline_->added_normalized.cut_marked(
        plain, moves ? std::span<const TextRange>() : literal,
        [&](TextRange place) {
          const std::size_t size = place.end - place.begin;
          encode_plain({plain.substr(place.begin, size), opening_of_part(opening, place.begin, size)}, ids);
        },
        [&](const AddedToken& token, TextRange) {
          if (moves && token.special && !literal.empty())
            fail(ExitCode::input,
                 "cannot tell which '{}' in a normalized text is a special token: the text itself spells one out",
                 token.content);
          ids.push_back(token.id);
        });
  }

  void encode_plain(TextPiece text, std::vector<std::int32_t>& ids);
  /// Of the piece `text[begin, end)`.
  void encode_piece(std::string_view text, std::size_t begin, std::size_t end, std::vector<std::int32_t>& ids);

  const Pipeline* pipeline_;
  PieceCutter cutter_;
  std::unique_ptr<PieceEncoder> model_;
  PieceCache cache_;
  std::vector<std::int32_t> made_;
  std::string changed_;
  std::vector<TextPiece> pieces_;
  std::deque<std::string> storage_;
  std::uint64_t counted_besides_ = 0;  // symbols left out that were counted more than once
};

void PipelineEncoder::encode_plain(TextPiece text, std::vector<std::int32_t>& ids) {
  const PreTokenizer& pre_tokenizer = pipeline_->pre_tokenizer;
  if (!pre_tokenizer.rule()) {
    pieces_.clear();
    storage_.clear();
    pre_tokenizer.split(text, pieces_, storage_);
    for (const TextPiece& piece : pieces_) {
      for (std::size_t begin = 0; begin < piece.text.size();) {
        const std::size_t end = pipeline_->cuts_before_words ? end_of_word(piece.text, begin) : piece.text.size();
        encode_piece(piece.text, begin, end, ids);
        begin = end;
      }
    }
    return;
  }
  if (pre_tokenizer.adds_space() && text.text.front() != ' ') {
    changed_.assign(1, ' ').append(text.text);
    text.text = changed_;
  }
  for (std::size_t begin = 0; begin < text.text.size();) {
    const std::size_t end = cutter_.end_of_piece(text.text, begin);
    encode_piece(text.text, begin, end, ids);
    begin = end;
  }
}

void PipelineEncoder::encode_piece(std::string_view text, std::size_t begin, std::size_t end,
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
  made_.clear();
  const std::uint64_t left_out = model_->left_out();
  const std::string_view piece = text.substr(begin, end - begin);
  if (pipeline_->writes_letters) {
    model_->encode(to_byte_level(piece), made_);
  } else {
    model_->encode(piece, made_);
  }
  ids.insert(ids.end(), made_.begin(), made_.end());
  if (!fits || made_.size() > PieceCache::most_ids || model_->left_out() != left_out) return;
  entry.ids = static_cast<std::uint32_t>(made_.size());
  std::ranges::copy(made_, entry.id.begin());
  cache_.insert(entry);
}

class PipelineTokenizer : public Tokenizer {
 public:
  PipelineTokenizer(TokenizerDescription description, const std::string& origin, const std::string& end_name,
                    std::optional<SpecialTokens> reading)
      : pipeline_(description, origin),
        kind_(description.model.kind),
        decoder_(description.decoder),
        reading_(reading.value_or(description.reading)) {
    name_tokens(description, origin);
    const std::string chosen = choose_end(end_name, description.end_name, origin);
    mark_end(description, chosen);
    write_files(description, chosen);
    set_notes(description.notes);
    take_added_tokens(description, origin);
  }
  std::string name() const override {
    switch (kind_) {
      case ModelKind::bpe: return "bpe";
      case ModelKind::word_piece: return "wordpiece";
      case ModelKind::word_level: return "wordlevel";
      case ModelKind::unigram: return "unigram";
    }
    return {};
  }
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::optional<std::int32_t> end_of_text() const override { return end_; }
  SpecialTokens special_tokens() const override { return reading_; }
  std::vector<std::string> special_names() const override {
    std::vector<std::string> names = pipeline_.added.special_names();
    std::ranges::copy(pipeline_.added_normalized.special_names(), std::back_inserter(names));
    return names;
  }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<PipelineEncoder>(pipeline_); }
  std::size_t last_cut(std::string_view text) const override;
  const std::vector<TokenizerFile>& files() const override { return files_; }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::vector<std::string> tokens;
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocabulary())
        fail(ExitCode::input, "cannot decode id {}: the tokenizer has ids 0 to {}", id, vocabulary() - 1);
      const std::string& token = tokens_[static_cast<std::size_t>(id)];
      if (decodes_bytes_) {
        text += token;
      } else if (!token.empty()) {
        tokens.push_back(token);
      }
    }
    return decodes_bytes_ ? text : decoder_.apply(std::move(tokens));
  }

 private:
  void name_tokens(const TokenizerDescription& description, const std::string& origin);
  std::string choose_end(const std::string& wanted, const std::string& configured, const std::string& origin);
  void mark_end(TokenizerDescription& description, const std::string& end_name) const;
  void write_files(const TokenizerDescription& description, const std::string& end_name);
  void take_added_tokens(const TokenizerDescription& description, const std::string& origin);

  Pipeline pipeline_;
  ModelKind kind_;
  TokenDecoder decoder_;
  bool decodes_bytes_ = false;  // tokens_ holds bytes, and the text is these
  SpecialTokens reading_;
  std::vector<std::string> tokens_;  // by id; empty where an id is not used
  std::vector<TokenizerFile> files_;
  std::optional<std::int32_t> end_;
  bool cuttable_ = false;
  std::vector<std::string> taking_space_;  // added tokens that take the white space behind them
};

// The library does not go by the ids of added tokens: those that the vocabulary lacks are numbered behind it.
void check_added_ids(const TokenizerDescription& description, const std::string& origin) {
  TokenIds known;
  for (const auto& [token, id] : description.model.vocabulary) known.insert_or_assign(token, id);
  const auto count = static_cast<std::int32_t>(known.size());
  std::int32_t last = no_token;
  for (const AddedToken& token : description.added_tokens) {
    if (token.content.empty()) continue;
    std::int32_t id = id_in(known, token.content);
    if (id == no_token) id = std::max(last + 1, count);
    last = std::max(last, id);
    known.emplace(token.content, id);
    if (id == token.id) continue;
    throw Error(ExitCode::input,
                fmt::format("{}: the added token '{}' has the id {}, but the tokenizers library gives it {}", origin,
                            token.content, token.id, id),
                "number the added tokens after the vocabulary, without gaps");
  }
}

void PipelineTokenizer::name_tokens(const TokenizerDescription& description, const std::string& origin) {
  check_added_ids(description, origin);
  decodes_bytes_ = decoder_.is_byte_level() || (decoder_.is_none() && pipeline_.pre_tokenizer.is_byte_level());
  const auto name = [&](std::int32_t id, std::string token) {
    if (static_cast<std::size_t>(id) >= tokens_.size()) tokens_.resize(static_cast<std::size_t>(id) + 1);
    tokens_[static_cast<std::size_t>(id)] = std::move(token);
  };
  tokens_.reserve(description.model.vocabulary.size() + description.added_tokens.size());
  for (const auto& [token, id] : description.model.vocabulary)
    name(id, decodes_bytes_ ? from_byte_level(token).value_or(token) : token);  // others stand for themselves
  for (const AddedToken& token : description.added_tokens) name(token.id, token.content);
}

void PipelineTokenizer::take_added_tokens(const TokenizerDescription& description, const std::string& origin) {
  std::array<std::vector<AddedToken>, 2> groups;
  cuttable_ = pipeline_.normalizer.keeps_cuts();
  for (AddedToken token : description.added_tokens) {
    if (token.normalized && !token.content.empty()) {
      token.content = pipeline_.normalizer.apply(token.content);
      if (token.content.empty())
        fail(ExitCode::usage, "{}: an added token that the normalizer reduces to nothing is not supported", origin);
    }
    for (std::size_t position = 0; position < token.content.size();) {
      if (is_white_space(next_code_point(token.content, position))) cuttable_ = false;
    }
    if (token.rstrip) taking_space_.push_back(token.content);
    groups[token.normalized ? 1 : 0].push_back(std::move(token));
  }
  // Of equal ones the library takes a special one.
  for (auto& group : groups)
    std::ranges::stable_partition(group, [](const AddedToken& token) { return token.special; });
  pipeline_.added = AddedTokens(std::move(groups[0]), reading_);
  pipeline_.added_normalized = AddedTokens(std::move(groups[1]), reading_);
}

std::size_t PipelineTokenizer::last_cut(std::string_view text) const {
  if (!cuttable_) return 0;
  while (true) {
    const std::size_t cut = pipeline_.pre_tokenizer.last_cut(text);
    text = text.substr(0, cut);
    const auto may_end_with = [&](const std::string& token) {  // which may begin before `text`
      return text.ends_with(token) || std::string_view(token).ends_with(text);
    };
    if (cut == 0 || std::ranges::none_of(taking_space_, may_end_with)) return cut;
  }
}

// Returns the name of the end-of-text token, if there is one.
std::string PipelineTokenizer::choose_end(const std::string& wanted, const std::string& configured,
                                          const std::string& origin) {
  const auto id_of = [&](const std::string& name) -> std::optional<std::int32_t> {
    const auto found = std::ranges::find(tokens_, name);
    if (name.empty() || found == tokens_.end()) return std::nullopt;
    return checked_cast<std::int32_t>(found - tokens_.begin(), "an id");
  };
  for (const std::string& name : {wanted, configured}) {
    if (name.empty()) continue;
    end_ = id_of(name);
    if (!end_) fail(ExitCode::usage, "{}: the vocabulary has no end-of-text token '{}'", origin, name);
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
// tokenizer.json.
void PipelineTokenizer::mark_end(TokenizerDescription& description, const std::string& end_name) const {
  if (!end_ ||
      std::ranges::find(description.added_tokens, end_name, &AddedToken::content) != description.added_tokens.end())
    return;
  const bool is_entry =
      std::ranges::find(description.model.vocabulary, std::pair(end_name, *end_)) != description.model.vocabulary.end();
  if (!is_entry) return;  // a name by its bytes, which tokenizer.json cannot mark
  description.added_tokens.push_back({*end_, end_name});
  description.adds_declared = true;
}

// What was chosen travels with the files, for us and for other readers.
void PipelineTokenizer::write_files(const TokenizerDescription& description, const std::string& end_name) {
  files_ = description.files;
  const auto json = std::ranges::find(files_, "tokenizer.json", &TokenizerFile::name);
  if (json != files_.end() && description.adds_declared) {
    Json document = parse_json(json->content, json->name);
    document["added_tokens"] = Json::array();
    for (const AddedToken& token : description.added_tokens)
      document["added_tokens"].push_back(added_token_json(token));
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

std::unique_ptr<Tokenizer> json_tokenizer(TokenizerDescription description, const std::string& origin,
                                          const std::string& end_name, std::optional<SpecialTokens> reading) {
  return std::make_unique<PipelineTokenizer>(std::move(description), origin, end_name, reading);
}

}  // namespace lockstep
