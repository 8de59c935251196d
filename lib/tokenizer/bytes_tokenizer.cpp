#include "base/error.hpp"
#include "base/json.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizers.hpp"

namespace lockstep {

namespace {

constexpr std::int32_t end_id = 256;

// The same ids for transformers: byte-level BPE without a single merge.
std::string bytes_tokenizer_json(const std::string& end_name) {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[to_byte_level(std::string(1, static_cast<char>(byte)))] = byte;
  const Json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return hf_tokenizer_json(Json(), Json::array({added_token_json({end_id, end_name})}), byte_level, byte_level,
                           bpe_model_json(vocabulary, Json::array()));
}

class BytesEncoder : public Encoder {
 public:
  explicit BytesEncoder(const AddedTokens& added) : added_(&added) {}
  void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
    added_->cut(
        text, [&](std::string_view plain) { add_bytes(plain, ids); }, [&](std::int32_t id) { ids.push_back(id); });
  }
  MarkedIds encode_marked(const MarkedText& text) override { return encode_marked_parts(text, *added_, add_bytes); }

 private:
  static void add_bytes(std::string_view plain, std::vector<std::int32_t>& ids) {
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(plain.data()), plain.size());
    ids.insert(ids.end(), bytes.begin(), bytes.end());
  }

  const AddedTokens* added_;
};

class BytesTokenizer : public Tokenizer {
 public:
  BytesTokenizer(const std::string& end_name, SpecialTokens reading)
      : end_name_(end_name),
        reading_(reading),
        added_({{end_id, end_name}}, reading),
        files_{{"tokenizer.json", bytes_tokenizer_json(end_name)},
               {"tokenizer_config.json", tokenizer_config_json(end_name, reading)}} {}
  std::string name() const override { return "bytes"; }
  std::int64_t vocabulary() const override { return 257; }
  std::optional<std::int32_t> end_of_text() const override { return end_id; }
  SpecialTokens special_tokens() const override { return reading_; }
  std::vector<std::string> special_names() const override { return added_.special_names(); }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<BytesEncoder>(added_); }
  std::size_t last_cut(std::string_view text) const override { return added_.settled(text); }
  const std::vector<TokenizerFile>& files() const override { return files_; }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id > end_id) fail(ExitCode::input, "cannot decode id {}: the bytes tokenizer has ids 0 to 256", id);
      if (id == end_id) {
        text += end_name_;
      } else {
        text.push_back(static_cast<char>(id));
      }
    }
    return text;
  }

 private:
  std::string end_name_;
  SpecialTokens reading_;
  AddedTokens added_;
  std::vector<TokenizerFile> files_;
};

}  // namespace

std::unique_ptr<Tokenizer> bytes_tokenizer(const std::string& end_name, SpecialTokens reading) {
  return std::make_unique<BytesTokenizer>(end_name, reading);
}

}  // namespace lockstep
