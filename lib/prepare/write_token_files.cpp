#include "prepare/write_token_files.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "comm/long_work.hpp"
#include "comm/together.hpp"
#include "exchange/document_index.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace lockstep {

namespace {

using Alive = std::function<void()>;

constexpr std::array both_splits{DataSplit::train, DataSplit::validation};
constexpr std::int64_t tokens_written_at_once = std::int64_t{1} << 20;

std::size_t index_of(DataSplit split) { return split == DataSplit::train ? 0 : 1; }

bool is_own(const Communicator& world, std::int64_t number) { return number % world.size() == world.rank(); }

std::span<const std::byte> bytes_of(const auto& values) { return std::as_bytes(std::span(values)); }

void make_file(const Path& path, std::uint64_t bytes, std::span<const std::byte> header = {}) {
  const FileDescriptor file = open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) fail_errno("make", path.string());
  write_at(file, header, 0, path);
  sync_file(file, path);
}

/// Files that this rank writes parts of, each opened once.
class OpenFiles {
 public:
  void write(const Path& path, std::span<const std::byte> bytes, std::uint64_t offset) {
    auto found = files_.find(path);
    if (found == files_.end()) found = files_.emplace(path, open_file(path, O_WRONLY | O_CLOEXEC)).first;
    write_at(found->second, bytes, offset, path);
  }
  void close() {
    for (auto& [path, file] : files_) {
      sync_file(file, path);
      file.close(path);
    }
    files_.clear();
  }

 private:
  std::map<Path, FileDescriptor> files_;
};

/// The type of tokens in files of the format. Throws Error(usage) if it has none for so many.
DType dtype_for(TokenFormat format, std::int64_t vocabulary) {
  constexpr std::int64_t ids_of_16_bits = 65536;
  constexpr std::int64_t megatron_limit = 65500;  // as its own writer chooses
  switch (format) {
    case TokenFormat::megatron: return vocabulary < megatron_limit ? DType::u16 : DType::i32;
    case TokenFormat::llmc:
    case TokenFormat::datatrove: return vocabulary <= ids_of_16_bits ? DType::u16 : DType::u32;
    case TokenFormat::nanogpt:
      if (vocabulary <= ids_of_16_bits) return DType::u16;
      throw Error(ExitCode::usage,
                  fmt::format("nanogpt files hold 16-bit ids, but the vocabulary has {} tokens", vocabulary),
                  "--data.write llmc, megatron and datatrove hold larger ones");
    case TokenFormat::mds: break;
  }
  fail(ExitCode::bug, "no files of the format {} are written", name_of(format));
}

std::vector<std::byte> packed(std::span<const std::int32_t> ids, DType dtype) {
  std::vector<std::byte> bytes(ids.size() * static_cast<std::size_t>(size_of(dtype)));
  if (dtype != DType::u16) {
    std::memcpy(bytes.data(), ids.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto narrow = static_cast<std::uint16_t>(ids[i]);
    std::memcpy(bytes.data() + i * sizeof narrow, &narrow, sizeof narrow);
  }
  return bytes;
}

/// A split as a format has it: its own stream, or, with a token in front of documents, one token later.
class Source {
 public:
  Source(const Path& folder, const DatasetManifest& manifest, DataSplit split, TokenFormat format)
      : stream_(folder, manifest, split), entry_(manifest.of(split)) {
    tokens_ = stream_.tokens();
    const std::vector<std::int64_t> first = stream_.document_starts(0, 1);
    if (first.empty())
      fail(ExitCode::input, "{}: the split {} does not begin with a document", folder.string(), name_of(split));
    if (format != TokenFormat::llmc) return;
    if (!manifest.end_of_text)
      throw Error(ExitCode::usage, "llm.c needs an end-of-text token before each document, but the tokenizer has none",
                  "name one of its tokens with --data.end_of_text when preparing the dataset");
    leading_ = *manifest.end_of_text;
    std::int32_t last = 0;
    stream_.copy(tokens_ - 1, {&last, 1});
    if (last != *leading_) ++tokens_;
  }

  const TokenStream& stream() const { return stream_; }
  const SplitEntry& entry() const { return entry_; }
  std::int64_t tokens() const { return tokens_; }

  void copy(std::int64_t begin, std::span<std::int32_t> out) const {
    if (!leading_) return stream_.copy(begin, out);
    if (begin == 0) out[0] = *leading_;
    stream_.copy(std::max<std::int64_t>(begin - 1, 0), out.subspan(begin == 0 ? 1 : 0));
  }

 private:
  TokenStream stream_;
  const SplitEntry& entry_;
  std::int64_t tokens_ = 0;
  std::optional<std::int32_t> leading_;
};

std::vector<std::byte> llmc_header(DType dtype, std::int64_t tokens) {
  std::array<std::int32_t, 256> header{};
  header[0] = dtype == DType::u16 ? 20240520 : 20240801;
  header[1] = dtype == DType::u16 ? 1 : 7;
  header[2] = static_cast<std::int32_t>(tokens);
  const auto bytes = bytes_of(header);
  return {bytes.begin(), bytes.end()};
}

/// Names and sizes of the files of one split, made by rank 0.
class FileLayout {
 public:
  FileLayout(TokenFormat format, DType dtype, std::int64_t file_tokens, const Path& folder)
      : format_(format), dtype_(dtype), folder_(folder) {
    constexpr std::int64_t most_in_header = (std::int64_t{1} << 31) - 1;
    most_ =
        format == TokenFormat::llmc ? std::min(file_tokens, most_in_header) : std::numeric_limits<std::int64_t>::max();
  }

  std::vector<TokenFile> files(DataSplit split, std::int64_t tokens) {
    std::vector<TokenFile> files;
    const bool train = split == DataSplit::train;
    for (std::int64_t first = 0; first < tokens; first += files.back().tokens) {
      TokenFile file;
      file.format = format_;
      file.dtype = dtype_;
      file.tokens = std::min(most_, tokens - first);
      switch (format_) {
        case TokenFormat::megatron:
          file.path = folder_ / fmt::format("{}.bin", name_of(split));
          file.index = Path(file.path).replace_extension(".idx");
          break;
        case TokenFormat::llmc:
          file.path = folder_ / fmt::format("tokens_{}_{:06}.bin", train ? "train" : "val", next_++);
          file.offset = llmc_header(dtype_, 0).size();
          break;
        case TokenFormat::nanogpt: file.path = folder_ / (train ? "train.bin" : "val.bin"); break;
        case TokenFormat::datatrove:
          file.path = folder_ / name_of(split) / "00000_tokens.ds";
          file.index = file.path.string() + ".index";
          break;
        case TokenFormat::mds: break;
      }
      file.bytes = file.offset + static_cast<std::uint64_t>(file.tokens) * static_cast<std::uint64_t>(size_of(dtype_));
      files.push_back(std::move(file));
    }
    return files;
  }

 private:
  TokenFormat format_;
  DType dtype_;
  Path folder_;
  std::int64_t most_ = 0;
  int next_ = 0;  // number of a file of llm.c: validation has the first, training goes on from there
};

/// What an .idx begins with.
std::vector<std::byte> megatron_header(DType dtype, std::uint64_t documents) {
  std::vector<std::byte> header;
  const auto add = [&](const auto& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    header.insert(header.end(), bytes.begin(), bytes.end());
  };
  for (const char c : MegatronIndex::magic) add(c);
  add(std::uint64_t{1});
  add(static_cast<std::uint8_t>(MegatronIndex::code_of(dtype)));
  add(documents);
  add(documents + 1);
  return header;
}

MegatronIndex megatron_layout(std::int64_t documents) {
  MegatronIndex index;
  index.sequences = static_cast<std::uint64_t>(documents);
  index.boundaries = index.sequences + 1;
  return index;
}

void make_files(const Source& source, const std::vector<TokenFile>& files, const DatasetManifest& manifest) {
  const auto documents = static_cast<std::uint64_t>(source.stream().documents());
  for (const TokenFile& file : files) {
    make_folder(file.path.parent_path());
    if (file.format == TokenFormat::llmc) {
      make_file(file.path, file.bytes, llmc_header(file.dtype, file.tokens));
    } else {
      make_file(file.path, file.bytes);
    }
    if (file.format == TokenFormat::megatron) {
      const MegatronIndex index = megatron_layout(source.stream().documents());
      make_file(file.index, index.boundaries_at() + index.boundaries * sizeof(std::int64_t),
                megatron_header(file.dtype, documents));
    }
    if (file.format == TokenFormat::datatrove) {
      make_file(file.index, documents * sizeof(std::uint64_t));
      publish_file(file.path.string() + ".metadata",
                   fmt::format("{}|{}\n{}\n{}T", manifest.tokenizer, size_of(file.dtype), file.tokens,
                               human_count(static_cast<double>(file.tokens))));
    }
  }
}

/// Tokens [begin, end) of the split, into those files that have them.
void write_tokens(const Source& source, const std::vector<TokenFile>& files, std::int64_t begin, std::int64_t end,
                  OpenFiles& open) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(end - begin));
  source.copy(begin, ids);
  std::int64_t first = 0;  // of the file
  for (const TokenFile& file : files) {
    const std::int64_t from = std::max(begin, first), to = std::min(end, first + file.tokens);
    if (from < to) {
      const auto part =
          std::span(ids).subspan(static_cast<std::size_t>(from - begin), static_cast<std::size_t>(to - from));
      open.write(
          file.path, packed(part, file.dtype),
          file.offset + static_cast<std::uint64_t>(from - first) * static_cast<std::uint64_t>(size_of(file.dtype)));
    }
    first += file.tokens;
  }
}

/// Where the document behind token `begin` starts; the end of the stream if there is none.
std::int64_t next_start(const TokenStream& stream, std::int64_t begin, const Alive& alive) {
  for (; begin < stream.tokens(); begin += tokens_written_at_once) {
    alive();
    const auto starts = stream.document_starts(begin, begin + tokens_written_at_once);
    if (!starts.empty()) return starts[0];
  }
  return stream.tokens();
}

/// What an index says of documents that start in one shard.
void write_index(const Source& source, const TokenFile& file, const ShardEntry& shard, const Alive& alive,
                 OpenFiles& open) {
  std::vector<std::int64_t> starts =
      source.stream().document_starts(shard.first_token, shard.first_token + shard.tokens);
  const auto first = static_cast<std::uint64_t>(shard.first_document);
  const auto last = first + starts.size();
  const bool is_last = std::cmp_equal(last, source.stream().documents());
  if (file.format == TokenFormat::datatrove) {  // ends: each start but the first of all is the end before it
    const bool begins_split = first == 0 && !starts.empty();
    const auto ends = std::span<const std::int64_t>(starts).subspan(begins_split ? 1 : 0);
    if (!ends.empty())
      open.write(file.index, std::as_bytes(ends), (first - (begins_split ? 0 : 1)) * sizeof(std::uint64_t));
    if (is_last && !starts.empty())
      open.write(file.index, std::as_bytes(std::span(&file.tokens, 1)), (last - 1) * sizeof(std::uint64_t));
    return;
  }
  if (starts.empty()) return;
  const MegatronIndex index = megatron_layout(source.stream().documents());
  const auto width = static_cast<std::int64_t>(size_of(file.dtype));
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> pointers, boundaries;
  const std::int64_t end = next_start(source.stream(), shard.first_token + shard.tokens, alive);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t length = (i + 1 < starts.size() ? starts[i + 1] : end) - starts[i];
    if (!std::in_range<std::int32_t>(length))
      throw Error(ExitCode::usage,
                  fmt::format("megatron files hold documents of at most 2^31 - 1 tokens, but document {} has {}",
                              first + i, length),
                  "--data.write llmc and datatrove hold longer ones");
    lengths.push_back(static_cast<std::int32_t>(length));
    pointers.push_back(starts[i] * width);
    boundaries.push_back(static_cast<std::int64_t>(first + i));
  }
  if (is_last) boundaries.push_back(static_cast<std::int64_t>(last));
  open.write(file.index, bytes_of(lengths), index.lengths_at() + first * sizeof(std::int32_t));
  open.write(file.index, bytes_of(pointers), index.pointers_at() + first * sizeof(std::int64_t));
  open.write(file.index, bytes_of(boundaries), index.boundaries_at() + first * sizeof(std::int64_t));
}

void write_split(const Communicator& world, const Source& source, const std::vector<TokenFile>& files,
                 const Alive& alive) {
  OpenFiles open;
  for (std::int64_t begin = 0, number = 0; begin < source.tokens(); begin += tokens_written_at_once, ++number) {
    if (!is_own(world, number)) continue;
    alive();
    write_tokens(source, files, begin, std::min(begin + tokens_written_at_once, source.tokens()), open);
  }
  for (std::size_t shard = 0; !files[0].index.empty() && shard < source.entry().shards.size(); ++shard) {
    if (!is_own(world, static_cast<std::int64_t>(shard))) continue;
    alive();
    write_index(source, files[0], source.entry().shards[shard], alive, open);
  }
  open.close();
}

/// A shard of our own with tokens of the stream from `begin` on. Local.
ShardEntry write_shard(const TokenStream& stream, std::int64_t begin, std::int64_t tokens, int token_bytes,
                       const Path& path, const Alive& alive) {
  const std::int64_t end = begin + tokens;
  create_shard(path, token_bytes, tokens, std::ssize(stream.document_starts(begin, end)));
  ShardWriter writer(path, 0, 0);
  std::vector<std::int32_t> ids;
  std::vector<std::uint32_t> unsigned_ids;
  const auto append = [&](std::int64_t from, std::int64_t to) {
    ids.resize(static_cast<std::size_t>(to - from));
    stream.copy(from, ids);
    unsigned_ids.assign(ids.begin(), ids.end());
    writer.append(unsigned_ids);
  };
  for (std::int64_t from = begin; from < end; from += tokens_written_at_once) {
    alive();
    const std::int64_t to = std::min(from + tokens_written_at_once, end);
    std::int64_t at = from;
    for (const std::int64_t start : stream.document_starts(from, to)) {
      append(std::exchange(at, start), start);
      writer.start_document();
    }
    append(at, to);
  }
  return describe_shard(path, writer.finish(), alive);
}

}  // namespace

WrittenFiles write_token_files(Session& session, const Path& source, const DatasetManifest& manifest,
                               TokenFormat format, std::int64_t file_tokens, const Path& folder) {
  Communicator& world = session.world();
  std::array<std::optional<Source>, 2> sources;
  WrittenFiles written;
  together(world, "write token files", [&] {
    FileLayout layout(format, dtype_for(format, manifest.vocabulary), file_tokens, folder);
    for (const DataSplit split : {DataSplit::validation, DataSplit::train}) {
      if (manifest.of(split).tokens == 0) continue;
      const Source& made = sources[index_of(split)].emplace(source, manifest, split, format);
      written[index_of(split)] = layout.files(split, made.tokens());
      if (world.rank() == 0) make_files(made, written[index_of(split)], manifest);
    }
  });
  long_work_together(session, "write token files", [&](const Alive& alive) {
    for (const DataSplit split : both_splits) {
      if (sources[index_of(split)]) write_split(world, *sources[index_of(split)], written[index_of(split)], alive);
    }
  });
  return written;
}

void write_own_shards(Session& session, const Path& source, DatasetManifest& manifest, std::int64_t shard_tokens,
                      const Path& folder) {
  Communicator& world = session.world();
  together(world, "write token shards", [&] {
    for (const DataSplit split : both_splits) {
      if (world.rank() == 0 && manifest.of(split).tokens > 0) make_folder(folder / name_of(split));
    }
  });
  Json own = Json::array();
  long_work_together(session, "write token shards", [&](const Alive& alive) {
    std::int64_t turn = 0;
    for (const DataSplit split : both_splits) {
      if (manifest.of(split).tokens == 0) continue;
      const TokenStream stream(source, manifest, split);
      for (std::int64_t begin = 0, number = 0; begin < stream.tokens(); begin += shard_tokens, ++number) {
        if (!is_own(world, turn++)) continue;
        const std::string file = fmt::format("{}/tokens-{:05}.h5", name_of(split), number);
        const ShardEntry entry = write_shard(stream, begin, std::min(shard_tokens, stream.tokens() - begin),
                                             manifest.token_bytes(), folder / file, alive);
        own.push_back({index_of(split), number, file, entry.tokens, entry.documents, entry.bytes, to_hex(entry.hash)});
      }
    }
  });
  std::array<std::map<std::int64_t, ShardEntry>, 2> entries;
  for (const std::string& part : world.all_gather(to_text(own))) {
    for (const Json& shard : parse_json(part, "shards")) {
      ShardEntry& entry = entries.at(shard[0].get<std::size_t>())[shard[1].get<std::int64_t>()];
      entry.file = shard[2];
      entry.tokens = shard[3];
      entry.documents = shard[4];
      entry.bytes = shard[5];
      entry.hash = hash_from_hex(shard[6].get<std::string>());
    }
  }
  for (const DataSplit split : both_splits) {
    SplitEntry& into = split == DataSplit::train ? manifest.train : manifest.validation;
    into.shards.clear();
    for (const auto& [number, entry] : entries[index_of(split)]) into.shards.push_back(entry);
    number_shards(into);
  }
  manifest.shard_tokens = shard_tokens;
}

}  // namespace lockstep
