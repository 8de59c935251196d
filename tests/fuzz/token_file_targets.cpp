// Token files of other programs: indices and headers that say where tokens lie and documents start.
#include "base/error.hpp"
#include "base/json.hpp"
#include "exchange/document_index.hpp"
#include "exchange/mds.hpp"
#include "exchange/token_files.hpp"
#include "fuzz/targets.hpp"

#include <cstring>

namespace lockstep::test {

namespace {

template <class Value>
void append(std::string& bytes, Value value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// What a dataset asks of a file: every start, in parts.
void read_documents(const TokenFile& file) {
  const DocumentIndex index(file);
  index.check([] {});
  const auto tokens = static_cast<std::uint64_t>(file.tokens);
  const std::vector<std::uint64_t> all = index.starts(0, tokens);
  std::vector<std::uint64_t> parts;
  for (std::uint64_t begin = 0; begin < tokens; begin += 7) {
    for (const std::uint64_t start : index.starts(begin, std::min(begin + 7, tokens))) parts.push_back(start);
  }
  require(all == parts, "parts of a file have other documents than the whole");
  require(!all.empty() && all.front() == 0, "a file does not begin with a document");
  for (std::size_t i = 0; i < all.size(); ++i) {
    require(all[i] < tokens && (i == 0 || all[i] > all[i - 1]), "documents do not start one after the other");
    require(index.start_from(all[i]) == all[i], "a start is not found");
  }
}

/// Finds the one file that the words name, and reads what tells of its documents.
void find_and_read(const Path& word, std::optional<TokenFormat> format = {}) {
  const auto found = find_token_files({word.string()}, format);
  if (!found) fail(ExitCode::input, "{} is no token file", word.string());
  for (const TokenFile& file : found->files) {
    require(
        file.tokens > 0 && file.offset + static_cast<std::uint64_t>(file.tokens * size_of(file.dtype)) == file.bytes,
        "tokens do not fill their file");
    if (!file.index.empty()) read_documents(file);
  }
}

Target idx_target(const Path& folder) {
  make_folder(folder);
  std::string idx(MegatronIndex::magic);
  append(idx, std::uint64_t{1});
  append(idx, std::uint8_t{8});
  append(idx, std::uint64_t{4});
  append(idx, std::uint64_t{4});
  for (const std::int32_t length : {3, 0, 20, 7}) append(idx, length);
  for (const std::int64_t pointer : {0, 6, 6, 46}) append(idx, pointer);
  for (const std::int64_t boundary : {0, 1, 2, 4}) append(idx, boundary);
  put_file(folder / "corpus.bin", std::string(60, '\1'));
  Target target{.name = ".idx of Megatron", .seeds = {idx}, .names = {folder.string()}, .read = {}};
  for (const std::size_t cut : {std::size_t{0}, std::size_t{9}, std::size_t{33}, idx.size() - 1})
    target.refused.push_back(idx.substr(0, cut));
  target.refused.push_back(idx + "\1\1\1\1");  // modes
  target.read = [folder](const std::string& bytes) {
    put_file(folder / "corpus.idx", bytes);
    find_and_read(folder / "corpus");
  };
  return target;
}

Target datatrove_target(const Path& folder) {
  make_folder(folder);
  std::string index;
  for (const std::uint64_t end : {3, 3, 23, 30}) append(index, end);
  put_file(folder / "corpus.ds", std::string(60, '\1'));
  Target target{.name = ".ds.index of datatrove", .seeds = {index}, .names = {folder.string()}, .read = {}};
  target.refused = {"", "abc", index.substr(0, 24), index + std::string(8, '\0')};
  target.read = [folder](const std::string& bytes) {
    put_file(folder / "corpus.ds.index", bytes);
    find_and_read(folder / "corpus.ds", TokenFormat::datatrove);
  };
  return target;
}

Target metadata_target(const Path& folder) {
  make_folder(folder);
  put_file(folder / "corpus.ds", std::string(60, '\1'));
  Target target{.name = ".ds.metadata of datatrove",
                .seeds = {"gpt2|2\n30\n30 T", "a|b|4\n15\n"},
                .refused = {"", "gpt2|2", "gpt2|3\n20\n", "gpt2\n30"},
                .words = {"|", "\n", "2", "4", "30"},
                .names = {folder.string()},
                .read = {}};
  target.read = [folder](const std::string& bytes) {
    put_file(folder / "corpus.ds.metadata", bytes);
    find_and_read(folder / "corpus.ds", TokenFormat::datatrove);
  };
  return target;
}

Target llmc_target(const Path& folder) {
  make_folder(folder);
  std::string file;
  for (const std::int32_t number : {20240520, 1, 30}) append(file, number);
  file.resize(1024);
  file += std::string(60, '\1');
  Target target{.name = ".bin of llm.c", .seeds = {file}, .names = {folder.string()}, .read = {}};
  target.refused = {file.substr(0, 1024), file.substr(0, 100), file + "1"};
  target.read = [folder](const std::string& bytes) {
    put_file(folder / "corpus.bin", bytes);
    find_and_read(folder / "corpus.bin", TokenFormat::llmc);
  };
  return target;
}

/// A shard of four samples with an id, an array and a text each.
std::string mds_shard() {
  std::vector<std::string> samples;
  for (const std::size_t length : {3, 20, 1, 6}) {
    std::string tokens = "\4";
    append(tokens, static_cast<std::uint8_t>(length));
    for (std::size_t i = 0; i < length; ++i) append(tokens, static_cast<std::int32_t>(i));
    std::string sample;
    append(sample, static_cast<std::uint32_t>(tokens.size()));
    append(sample, std::uint32_t{2});
    append(sample, std::int32_t{5});
    samples.push_back(sample + tokens + "ab");
  }
  std::string shard;
  append(shard, static_cast<std::uint32_t>(samples.size()));
  std::uint32_t at = static_cast<std::uint32_t>(sizeof at * (samples.size() + 2));
  append(shard, at);
  for (const std::string& sample : samples) append(shard, at += static_cast<std::uint32_t>(sample.size()));
  for (const std::string& sample : samples) shard += sample;
  return shard;
}

std::string mds_index(std::uint64_t bytes) {
  return to_text({{"version", 2},
                  {"shards",
                   {{{"format", "mds"},
                     {"version", 2},
                     {"column_names", {"id", "tokens", "url"}},
                     {"column_encodings", {"int32", "ndarray:int32", "str"}},
                     {"column_sizes", {4, nullptr, nullptr}},
                     {"compression", nullptr},
                     {"hashes", Json::array()},
                     {"raw_data", {{"basename", "shard.00000.mds"}, {"bytes", bytes}, {"hashes", Json::object()}}},
                     {"zip_data", nullptr},
                     {"samples", 4},
                     {"size_limit", nullptr}}}}});
}

void read_mds(const Path& folder) {
  const MdsIndex index(folder);
  for (const TokenFile& file : index.files()) {
    if (file.compressed) continue;
    const MappedFile map(file.path);
    const MdsSamples samples = index.samples(file, map.bytes());
    const auto width = static_cast<std::uint64_t>(size_of(samples.dtype));
    require(samples.starts.size() == samples.places.size() && !samples.starts.empty() && samples.starts[0] == 0,
            "a shard does not begin with a document");
    for (std::size_t i = 0; i < samples.starts.size(); ++i) {
      const std::uint64_t end =
          i + 1 < samples.starts.size() ? samples.starts[i + 1] : static_cast<std::uint64_t>(samples.tokens);
      require(end > samples.starts[i] && samples.places[i] + (end - samples.starts[i]) * width <= samples.end &&
                  samples.end <= map.bytes().size(),
              "a document lies outside of its file");
    }
  }
}

Target mds_index_target(const Path& folder) {
  make_folder(folder);
  const std::string shard = mds_shard();
  put_file(folder / "shard.00000.mds", shard);
  Target target{.name = "index.json of MDS",
                .seeds = {mds_index(shard.size())},
                .words = {"shards", "tokens", "ndarray", "int64", "bytes", "zip_data", "zstd", "null", "../"},
                .names = {folder.string()},
                .read = {}};
  target.seal = [](std::string text, Dice&) { return text; };
  refuse(target, "/shards/0/samples", -1);
  refuse(target, "/shards/0/samples", 3);
  refuse(target, "/shards/0/raw_data/basename", "../shard.00000.mds");
  refuse(target, "/shards/0/raw_data/bytes", 7);
  refuse(target, "/shards/0/column_sizes/0", std::uint64_t{1} << 63);
  refuse(target, "/shards/0/column_sizes", Json::array());
  refuse(target, "/shards/0/column_encodings/1", "str");
  refuse(target, "/shards", Json::array());
  target.seal = {};
  target.read = [folder](const std::string& text) {
    put_file(folder / "index.json", text);
    (void)is_mds(folder);
    read_mds(folder);
  };
  return target;
}

Target mds_shard_target(const Path& folder) {
  make_folder(folder);
  Target target{.name = "shard of MDS", .seeds = {mds_shard()}, .names = {folder.string()}, .read = {}};
  target.refused = {"", mds_shard().substr(0, 20)};
  target.read = [folder](const std::string& bytes) {
    put_file(folder / "shard.00000.mds", bytes);
    put_file(folder / "index.json", mds_index(bytes.size()));
    read_mds(folder);
  };
  return target;
}

}  // namespace

std::vector<Target> token_file_targets(const Path& folder) {
  make_folder(folder);
  return {idx_target(folder / "idx"),   datatrove_target(folder / "datatrove"), metadata_target(folder / "metadata"),
          llmc_target(folder / "llmc"), mds_index_target(folder / "mds-index"), mds_shard_target(folder / "mds-shard")};
}

}  // namespace lockstep::test
