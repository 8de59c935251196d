#include "base/checked_cast.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizers.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace lockstep {

namespace {

std::string text_of(char32_t character) {
  std::string text;
  append_code_point(text, character);
  return text;
}

// The same ids for transformers: a word-level model over single characters.
std::string chars_tokenizer_json(const std::vector<char32_t>& characters, const std::string& end_name) {
  Json vocabulary = Json::object();
  for (const char32_t character : characters) vocabulary[text_of(character)] = vocabulary.size();
  Json added = Json::array();
  if (!end_name.empty())
    added.push_back(
        added_token_json({checked_cast<std::int32_t>(characters.size(), "the number of characters"), end_name}));
  const Json split{
      {"type", "Split"}, {"pattern", {{"Regex", "[\\s\\S]"}}}, {"behavior", "Isolated"}, {"invert", false}};
  return hf_tokenizer_json(Json(), added, split, Json{{"type", "Fuse"}},
                           Json{{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}});
}

class Alphabet {
 public:
  explicit Alphabet(const std::vector<char32_t>& characters) {
    low_.fill(-1);
    std::int32_t id = 0;
    for (const char32_t character : characters) {
      if (character < low_.size())
        low_[character] = id;
      else
        high_.emplace(character, id);
      ++id;
    }
  }
  std::int32_t id_of(char32_t character) const {
    if (character < low_.size()) return low_[character];
    const auto found = high_.find(character);
    return found == high_.end() ? -1 : found->second;
  }

 private:
  std::array<std::int32_t, 4096> low_{};
  std::unordered_map<char32_t, std::int32_t> high_;
};

class CharsEncoder : public Encoder {
 public:
  CharsEncoder(const Alphabet& alphabet, const AddedTokens& added) : alphabet_(&alphabet), added_(&added) {}
  void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
    added_->cut(
        text, [&](std::string_view plain) { encode_plain(plain, ids); }, [&](std::int32_t id) { ids.push_back(id); });
  }
  MarkedIds encode_marked(const MarkedText& text) override {
    return encode_marked_parts(text, *added_, [this](std::string_view plain, auto& ids) { encode_plain(plain, ids); });
  }

 private:
  void encode_plain(std::string_view text, std::vector<std::int32_t>& ids) {
    for (std::size_t position = 0; position < text.size();) {
      const char32_t character = next_code_point(text, position);
      const std::int32_t id = alphabet_->id_of(character);
      if (id < 0) {
        fail(ExitCode::input,
             "cannot tokenize '{}' (U+{:04X}): it is not in the corpus from which this chars tokenizer was made",
             text_of(character), static_cast<std::uint32_t>(character));
      }
      ids.push_back(id);
    }
  }

  const Alphabet* alphabet_;
  const AddedTokens* added_;
};

class CharsTokenizer : public Tokenizer {
 public:
  CharsTokenizer(std::vector<char32_t> characters, const std::string& end_name, SpecialTokens reading)
      : characters_(std::move(characters)),
        alphabet_(characters_),
        end_name_(end_name),
        reading_(reading),
        added_({{count(), end_name}}, reading),
        files_{{"tokenizer.json", chars_tokenizer_json(characters_, end_name)},
               {"tokenizer_config.json", tokenizer_config_json(end_name, reading)}} {}
  std::string name() const override { return "chars"; }
  std::int64_t vocabulary() const override { return count() + (end_name_.empty() ? 0 : 1); }
  std::optional<std::int32_t> end_of_text() const override {
    return end_name_.empty() ? std::nullopt : std::optional(count());
  }
  SpecialTokens special_tokens() const override { return reading_; }
  std::vector<std::string> special_names() const override { return added_.special_names(); }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<CharsEncoder>(alphabet_, added_); }
  std::size_t last_cut(std::string_view text) const override { return added_.settled(text); }
  const std::vector<TokenizerFile>& files() const override { return files_; }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocabulary())
        fail(ExitCode::input, "cannot decode id {}: the chars tokenizer has ids 0 to {}", id, vocabulary() - 1);
      if (id == count()) {
        text += end_name_;
      } else {
        append_code_point(text, characters_[static_cast<std::size_t>(id)]);
      }
    }
    return text;
  }

 private:
  std::int32_t count() const { return checked_cast<std::int32_t>(characters_.size(), "the number of characters"); }

  std::vector<char32_t> characters_;
  Alphabet alphabet_;
  std::string end_name_;
  SpecialTokens reading_;
  AddedTokens added_;
  std::vector<TokenizerFile> files_;
};

}  // namespace

std::unique_ptr<Tokenizer> chars_tokenizer(std::vector<char32_t> characters, const std::string& end_name,
                                           SpecialTokens reading) {
  invariant(std::ranges::is_sorted(characters, std::ranges::less_equal{}), "characters are sorted and unique");
  return std::make_unique<CharsTokenizer>(std::move(characters), end_name, reading);
}

}  // namespace lockstep
