// Tokenizers as others wrote them, and text as it comes: plain, as JSON lines, compressed.
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "fuzz/targets.hpp"
#include "readers/block_reader.hpp"
#include "readers/json_lines.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/tokenizers.hpp"

#include <zlib.h>
#include <zstd.h>

#include <cstdlib>

namespace lockstep::test {

namespace {

constexpr const char* sample_text = "The cat's 42 hats,\n\n  naïve  façade \xF0\x9F\x98\x80 <|endoftext|> It'll do.\t";
constexpr const char* between = "\n=== merges.txt ===\n";

Json byte_vocabulary() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[to_byte_level(std::string(1, static_cast<char>(byte)))] = byte;
  int id = 256;
  for (const char* const token : {"th", "he", "the", "Ġc", "Ġca", "Ġcat", "at"}) vocabulary[token] = id++;
  return vocabulary;
}

Json small_bpe() {
  const Json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array({{{"id", 263},
                                         {"content", "<|endoftext|>"},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false},
                                         {"special", true}}})},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"vocab", byte_vocabulary()},
            {"merges", {"t h", "h e", "th e", "Ġ c", "Ġc at", "Ġc a", "a t"}}}}};
}

/// Small tokenizers of all parts that there are.
std::vector<std::string> whole_documents() {
  const auto part = [](const char* type, Json members = Json::object()) {
    members["type"] = type;
    return members;
  };
  const Json expression{{"Regex", "\\s+|\\p{Lu}|[^\\w]"}};
  const Json normalizers = Json::array(
      {part("NFKC"), part("NFD"), part("Lowercase"), part("StripAccents"), part("Nmt"),
       part("Strip", {{"strip_left", true}, {"strip_right", false}}), part("Prepend", {{"prepend", "▁"}}),
       part("Replace", {{"pattern", {{"String", " "}}}, {"content", "▁"}}),
       part("Replace", {{"pattern", expression}, {"content", "_"}}),
       part("Precompiled", {{"precompiled_charsmap", "BAAAAAAAAAA="}}),
       part("BertNormalizer",
            {{"clean_text", true}, {"handle_chinese_chars", true}, {"strip_accents", nullptr}, {"lowercase", true}})});
  const auto split = [&](const Json& pattern, const char* behavior) {
    return part("Split", {{"pattern", pattern}, {"behavior", behavior}, {"invert", false}});
  };
  const Json byte_level = part("ByteLevel", {{"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", false}});
  const Json cuts = Json::array({part("WhitespaceSplit"), part("Punctuation", {{"behavior", "MergedWithNext"}}),
                                 part("Digits", {{"individual_digits", true}}), part("FixedLength", {{"length", 5}}),
                                 part("CharDelimiterSplit", {{"delimiter", "x"}}), split(expression, "Contiguous"),
                                 split(expression, "MergedWithPrevious"), byte_level});
  const Json words = Json::array({part("BertPreTokenizer"), part("Whitespace"),
                                  part("Metaspace", {{"replacement", "▁"}, {"prepend_scheme", "first"}})});
  const Json decoders =
      Json::array({part("ByteFallback"), part("Replace", {{"pattern", {{"String", "▁"}}}, {"content", " "}}),
                   part("WordPiece", {{"prefix", "##"}, {"cleanup", true}}), part("BPEDecoder", {{"suffix", "</w>"}}),
                   part("Metaspace", {{"replacement", "▁"}}), part("Fuse"),
                   part("Strip", {{"content", " "}, {"start", 1}, {"stop", 0}})});
  const Json vocabulary{{"[UNK]", 0}, {"the", 1}, {"##e", 2}, {"c", 3}, {"<0x0A>", 4}, {"▁", 5}, {"t", 6}, {"##h", 7}};
  std::vector<std::string> texts;
  const auto add = [&](const Json& pre_tokenizers, const Json& model) {
    Json document = small_bpe();
    document["normalizer"] = part("Sequence", {{"normalizers", normalizers}});
    document["pre_tokenizer"] = part("Sequence", {{"pretokenizers", pre_tokenizers}});
    document["decoder"] = part("Sequence", {{"decoders", decoders}});
    document["model"] = model;
    document["added_tokens"] = Json::array({{{"id", model["vocab"].size()},
                                             {"content", "<m>"},
                                             {"single_word", true},
                                             {"lstrip", true},
                                             {"rstrip", true},
                                             {"normalized", true},
                                             {"special", false}}});
    texts.push_back(to_text(document, 1));
  };
  add(cuts, small_bpe()["model"]);
  add(words, part("WordPiece", {{"unk_token", "[UNK]"},
                                {"continuing_subword_prefix", "##"},
                                {"max_input_chars_per_word", 20},
                                {"vocab", vocabulary}}));
  add(words, part("WordLevel", {{"unk_token", "[UNK]"}, {"vocab", vocabulary}}));
  add(words, part("BPE", {{"unk_token", "[UNK]"},
                          {"continuing_subword_prefix", "##"},
                          {"end_of_word_suffix", ""},
                          {"fuse_unk", true},
                          {"byte_fallback", true},
                          {"ignore_merges", true},
                          {"vocab", {{"[UNK]", 0}, {"t", 1}, {"##h", 2}, {"th", 3}}},
                          {"merges", Json::array({Json::array({"t", "##h"})})}}));
  add(words,
      part("Unigram",
           {{"unk_id", 0},
            {"byte_fallback", true},
            {"vocab", Json::array({Json::array({"<unk>", 0.0}), Json::array({"▁", -2.0}), Json::array({"the", -3.5}),
                                   Json::array({"t", -4.0}), Json::array({"<0x0A>", -9.0})})}}));
  return texts;
}

/// A field of a protocol buffer that is not long.
std::string field(int number, const std::string& bytes) {
  std::string size(1, static_cast<char>(bytes.size() & 0x7F));
  if (bytes.size() > 0x7F) {
    size[0] = static_cast<char>(size[0] | 0x80);
    size.push_back(static_cast<char>(bytes.size() >> 7));
  }
  return static_cast<char>(number << 3 | 2) + size + bytes;
}

/// A model of sentencepiece: `kind` 1 unigram, 2 BPE.
std::string small_sentencepiece(char kind) {
  const auto piece = [](const std::string& text, char type, char exponent) {
    const std::string score = std::string("\x15\0\0", 3) + exponent + '\xC0';
    return field(1, field(1, text) + score + '\x18' + type);
  };
  std::string model = piece("<unk>", 2, 0) + piece("</s>", 3, 0) + piece("<mask>", 4, 0);
  char exponent = 1;
  for (const char* const text : {"▁", "t", "h", "e", "th", "▁th", "▁the", "a", "▁a"})
    model += piece(text, 1, exponent++);
  model += field(2, std::string("\x18") + kind);
  return model + field(3, field(2, std::string("\4\0\0\0\0\0\0\0", 8)) + std::string("\x18\1\x20\1\x28\1", 6));
}

/// A tokenizer that was accepted encodes any text into ids that it can decode.
void use(const Tokenizer& tokenizer) {
  for (const std::string& text : {std::string(sample_text), std::string(2000, 'a'), std::string()}) {
    try {
      const std::vector<std::int32_t> ids = tokenizer.encode(text);
      for (const std::int32_t id : ids)
        require(id >= 0 && id < tokenizer.vocabulary(), "an id lies outside the vocabulary");
      (void)tokenizer.decode(ids);
    } catch (const Error& error) {  // a character that it does not have
      require(tokenizer.name() != "bytes" && error.code() == ExitCode::input, error.what());
    }
    require(tokenizer.last_cut(text) <= text.size(), "a cut lies behind the text");
  }
  (void)tokenizer.hash();
}

void read_tokenizer(const Path& folder, const std::string& name, const std::string& content) {
  put_file(folder / name, content);
  use(*load_tokenizer(folder));
}

std::string gzipped(const std::string& text) {
  std::string out(text.size() + 1000, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstandard(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

void read_corpus(const Path& file) {
  const std::vector<InputFile> files = find_inputs({file.string()}).files;
  const auto tokenizer = bytes_tokenizer();
  BlockReader reader(files, whole_files(files), [&](std::string_view text) { return tokenizer->last_cut(text); });
  JsonLines lines("text");
  TextBlock block;
  const auto read = [&] {
    while (reader.next(block)) {
      if (block.file->format == TextFormat::json_lines) {
        lines.for_each(
            block, [](std::string_view text) { require(!first_invalid_utf8(text), "a document is not UTF-8"); },
            [](const BadText& problem) { throw problem; });
      } else {
        require_utf8(block);
      }
    }
  };
  try {
    read();
  } catch (const BadText& bad) {
    LineCounter counter;
    throw error_of(bad, counter);
  }
}

Target corpus_target(const Path& folder, const std::string& name, std::vector<std::string> seeds) {
  Target target{.name = name,
                .seeds = std::move(seeds),
                .words = {"\"text\":", "{}\n", "\\ud800", "\\u0000", "\n\n", "[1]\n", "\r\n", "\xEF\xBB\xBF"},
                .names = {name},
                .read = {}};
  target.read = [file = folder / name](const std::string& bytes) {
    put_file(file, bytes);
    read_corpus(file);
  };
  return target;
}

std::vector<Target> tokenizer_targets(const Path& folder) {
  std::vector<Target> targets;
  make_folder(folder / "json");
  make_folder(folder / "bytes");
  make_folder(folder / "pair");
  make_folder(folder / "config");
  const auto chars = chars_tokenizer({U'\n', U' ', U'a', U'b', U'é', U'😀'}, "<end>");
  Target json{
      .name = "tokenizer.json",
      .seeds = {to_text(small_bpe(), 1), chars->files().front().content, bytes_tokenizer()->files().front().content},
      .words = {"\"ignore_merges\": true,", "\"byte_fallback\": true,", "Ġ", "Ā", "\"normalized\": true,", "WordLevel",
                "16777216", "th e", "\"type\": \"BPE\",", "<|endoftext|>"},
      .names = {(folder / "json").string()},
      .read = {}};
  Json wide = small_bpe();
  wide["model"]["vocab"]["at"] = (std::int64_t{1} << 32) + 5;
  Json far = small_bpe();
  far["added_tokens"][0]["id"] = 16777215;
  json.refused = {to_text(wide), to_text(far), std::string(100'000, '['),
                  R"({"pre_tokenizer": )" + std::string(60'000, '[')};
  for (std::string& document : whole_documents()) json.seeds.push_back(std::move(document));
  json.read = [place = folder / "json"](const std::string& text) { read_tokenizer(place, "tokenizer.json", text); };
  targets.push_back(json);

  Target pair{.name = "vocab.json and merges.txt",
              .seeds = {to_text(byte_vocabulary()) + between + "#version: 0.2\nt h\nh e\nth e\nĠ c\na t\nĠc at\n"},
              .words = {between, "Ġ", " ", "\n", "t h\n", "\r\n"},
              .names = {(folder / "pair").string()},
              .read = {}};
  pair.read = [place = folder / "pair"](const std::string& text) {
    const std::size_t cut = text.find(between);
    put_file(place / "merges.txt", cut == std::string::npos ? "" : text.substr(cut + std::string_view(between).size()));
    read_tokenizer(place, "vocab.json", text.substr(0, cut));
  };
  targets.push_back(pair);

  make_folder(folder / "model");
  Target model{.name = "tokenizer.model",
               .seeds = {small_sentencepiece(1), small_sentencepiece(2)},
               .words = {"\x0A\x05", "\x18\x02", "\xE2\x96\x81", std::string("\x98\x02\x01", 3), "IQ== 0\nIg== 1\n"},
               .names = {(folder / "model").string()},
               .read = {}};
  model.refused = {"IQ== 0\nIg== 1\n", field(1, field(1, std::string(10'000, 'a')))};
  model.read = [place = folder / "model"](const std::string& text) { read_tokenizer(place, "tokenizer.model", text); };
  targets.push_back(model);

  put_file(folder / "config/tokenizer.json", to_text(small_bpe()));
  Target config{.name = "tokenizer_config.json",
                .seeds = {R"({"eos_token": "<|endoftext|>", "tokenizer_class": "GPT2Tokenizer"})",
                          R"({"eos_token": {"content": "<|endoftext|>"}})"},
                .words = {"\"eos_token\": null"},
                .names = {(folder / "config").string()},
                .share = 0.3,
                .read = {}};
  config.read = [place = folder / "config"](const std::string& text) {
    read_tokenizer(place, "tokenizer_config.json", text);
  };
  targets.push_back(config);
  return targets;
}

/// GPT-2's own files, where the tests have them.
std::vector<Target> real_tokenizer_targets(const Path& folder) {
  const char* const data = std::getenv("LOCKSTEP_DATA");
  const Path files = Path(data == nullptr ? "" : data) / "tokenizers/gpt2";
  if (data == nullptr || !std::filesystem::exists(files / "vocab.json")) return {};
  make_folder(folder);
  Target target{.name = "merges.txt of GPT-2",
                .seeds = {read_file(files / "merges.txt")},
                .words = {" ", "\n", "Ġ t\n"},
                .names = {folder.string()},
                .share = 0.004,
                .read = {}};
  target.read = [folder, vocabulary = read_file(files / "vocab.json")](const std::string& text) {
    put_file(folder / "vocab.json", vocabulary);
    read_tokenizer(folder, "merges.txt", text);
  };
  return {target};
}

}  // namespace

std::vector<Target> corpus_targets(const Path& folder) {
  std::vector<Target> targets = tokenizer_targets(folder);
  for (Target& target : real_tokenizer_targets(folder / "gpt2")) targets.push_back(std::move(target));
  const std::string lines =
      "{\"text\": \"one\"}\n{\"id\": 2, \"text\": \"tw\\u00f6 \\ud83d\\ude00\", \"more\": [1, {\"a\": "
      "null}]}\n\n{\"text\": \"\"}\n";
  std::string prose;
  for (int i = 0; i < 200; ++i) prose += fmt::format("{} {}\n", i, sample_text);
  targets.push_back(corpus_target(folder, "text.txt", {prose}));
  targets.push_back(corpus_target(folder, "lines.jsonl", {lines}));
  targets.push_back(corpus_target(folder, "text.txt.gz", {gzipped(prose), gzipped("a") + gzipped(prose)}));
  targets.push_back(corpus_target(folder, "lines.jsonl.gz", {gzipped(lines)}));
  targets.push_back(corpus_target(folder, "text.txt.zst", {zstandard(prose), zstandard(prose) + zstandard("b")}));
  targets.push_back(corpus_target(folder, "lines.jsonl.zst", {zstandard(lines)}));
  return targets;
}

}  // namespace lockstep::test
