// Tokenizers as others wrote them, and text as it comes: plain, as JSON lines, compressed.
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "corpus/block_reader.hpp"
#include "corpus/byte_level.hpp"
#include "corpus/json_lines.hpp"
#include "corpus/tokenizers.hpp"
#include "fuzz/targets.hpp"

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

/// A tokenizer that was accepted encodes any text into ids that it can decode.
void use(const Tokenizer& tokenizer) {
  for (const std::string& text : {std::string(sample_text), std::string(2000, 'a'), std::string()}) {
    try {
      const std::vector<std::int32_t> ids = tokenizer.encode(text);
      for (const std::int32_t id : ids)
        require(id >= 0 && id < tokenizer.vocabulary(), "an id lies outside the vocabulary");
      (void)tokenizer.decode(ids);
    } catch (const Error& error) {  // of chars: a character that it does not have
      require(tokenizer.name() == "chars" && error.code() == ExitCode::input, error.what());
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
