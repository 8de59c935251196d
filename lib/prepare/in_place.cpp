#include "prepare/in_place.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/mapped_file.hpp"
#include "base/words.hpp"
#include "comm/long_work.hpp"
#include "comm/together.hpp"
#include "exchange/document_index.hpp"
#include "exchange/mds.hpp"
#include "prepare/gather_values.hpp"
#include "readers/byte_reader.hpp"
#include "store/token_elements.hpp"

#include <fcntl.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

namespace lockstep {

namespace {

using Alive = std::function<void()>;

/// The indices of MDS, each parsed once.
class MdsIndices {
 public:
  MdsSamples samples(const TokenFile& file) {
    auto found = indices_.find(file.index);
    if (found == indices_.end()) found = indices_.emplace(file.index, MdsIndex(file.index)).first;
    const MappedFile map(file.path);
    return read_mapped(map, [&] { return found->second.samples(file, map.bytes()); });
  }

 private:
  std::map<Path, MdsIndex> indices_;
};

bool is_own(const Communicator& world, std::size_t number) {
  return std::cmp_equal(number % static_cast<std::size_t>(world.size()), world.rank());
}

std::uint64_t unpack(const TokenFile& file, const Path& copy, const Alive& alive) {
  const auto bytes = open_bytes({file.path, TextFormat::text, Compression::zstd, file.bytes});
  FileDescriptor out = open_file(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC);
  std::vector<char> buffer(std::size_t{1} << 20);
  std::uint64_t written = 0;
  while (const std::size_t got = bytes->read(buffer)) {
    alive();
    write_at(out, std::as_bytes(std::span(buffer).first(got)), written, copy);
    written += got;
  }
  out.close(copy);
  return written;
}

/// What a rank finds out about a file.
struct FileFacts {
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
  std::int64_t tokens = 0;
  std::int64_t dtype = 0;
};

/// Each file is checked by one rank. Collective.
void check_files(Session& session, std::vector<TokenFile>& files, const Path& scratch) {
  std::vector<FileFacts> own;
  long_work_together(session, "check the token files", [&](const Alive& alive) {
    MdsIndices indices;
    for (std::size_t i = 0; i < files.size(); ++i) {
      TokenFile& file = files[i];
      if (file.compressed) {
        file.called = file.path.string();
        const Path copy = scratch / fmt::format("input-{}.mds", i);
        if (is_own(session.world(), i)) file.bytes = unpack(file, copy, alive);
        file.path = copy;
      }
      if (!is_own(session.world(), i)) continue;
      alive();
      if (file.format == TokenFormat::mds) {
        const MdsSamples samples = indices.samples(file);
        file.tokens = samples.tokens;
        file.dtype = samples.dtype;
      } else if (!file.index.empty()) {
        DocumentIndex(file).check(alive);
      }
      own.push_back({i, file.bytes, file.tokens, static_cast<std::int64_t>(file.dtype)});
    }
  });
  for (const FileFacts& facts : gather_lists(session.world(), own)) {
    TokenFile& file = files[facts.number];
    file.bytes = facts.bytes;
    file.tokens = facts.tokens;
    file.dtype = static_cast<DType>(facts.dtype);
  }
}

std::uint64_t width_of(const TokenFile& file) { return static_cast<std::uint64_t>(size_of(file.dtype)); }

/// Reads tokens of a file whose tokens lie together, some at a time: use(first, ids, bytes, range).
template <class Use>
void read_tokens(const TokenFile& file, std::int64_t begin, std::int64_t end, const Alive& alive, const Use& use) {
  constexpr std::int64_t at_once = std::int64_t{1} << 20;
  const FileDescriptor open = open_regular(file.path);
  std::vector<std::byte> bytes;
  std::vector<std::int32_t> ids;
  for (std::int64_t first = begin; first < end; first += std::ssize(ids)) {
    alive();
    ids.resize(static_cast<std::size_t>(std::min(at_once, end - first)));
    bytes.resize(ids.size() * width_of(file));
    read_at(open, bytes, file.offset + static_cast<std::uint64_t>(first) * width_of(file), file.path);
    const IdRange range = copy_ids(bytes, file.dtype, ids);
    if (!use(first, std::span<const std::int32_t>(ids), std::span<const std::byte>(bytes), range)) return;
  }
}

std::int32_t token_at(const TokenFile& file, std::int64_t token) {
  std::int32_t id = 0;
  read_tokens(
      file, token, token + 1, [] {},
      [&](auto, auto ids, auto, auto) {
        id = ids[0];
        return true;
      });
  return id;
}

/// Where documents start in files without an index: llm.c has the end-of-text token in front of each, others behind it.
bool token_starts_document(TokenFormat format) { return format == TokenFormat::llmc; }

bool begins_validation(const TokenFile& file) {
  const auto says_so = [](const std::string& name) { return name == "val" || name == "validation"; };
  const std::string stem = Path(file.name()).stem().string();
  const bool in_folders = file.format == TokenFormat::mds || file.format == TokenFormat::datatrove;
  return says_so(stem) || stem.find("_val_") != std::string::npos ||
         (in_folders && says_so(Path(file.name()).parent_path().filename().string()));
}

bool matches(const std::string& pattern, const TokenFile& file) {
  const Path path = file.name();
  return path == Path(pattern) || ::fnmatch(pattern.c_str(), path.filename().c_str(), 0) == 0 ||
         ::fnmatch(pattern.c_str(), path.c_str(), 0) == 0;
}

/// The first start of a document in a file at or behind a token; nothing if there is none. Local.
std::optional<std::int64_t> start_from(const TokenFile& file, std::int64_t token,
                                       const std::optional<std::int32_t>& end_of_text, const Alive& alive) {
  if (token == 0) return 0;
  if (file.format == TokenFormat::mds) {
    const std::vector<std::uint64_t> starts = MdsIndices().samples(file).starts;
    const auto at = std::ranges::lower_bound(starts, static_cast<std::uint64_t>(token));
    // Within the last document: it is not cut in two.
    return static_cast<std::int64_t>(at == starts.end() ? starts.back() : *at);
  }
  if (!file.index.empty()) {
    const auto start = DocumentIndex(file).start_from(static_cast<std::uint64_t>(token));
    return start ? std::optional(static_cast<std::int64_t>(*start)) : std::nullopt;
  }
  std::optional<std::int64_t> start;
  const bool at_token = token_starts_document(file.format);
  if (end_of_text)
    read_tokens(file, at_token ? token : token - 1, file.tokens, alive, [&](std::int64_t first, auto ids, auto, auto) {
      const auto found = std::ranges::find(ids, *end_of_text);
      if (found != ids.end()) start = first + (found - ids.begin()) + (at_token ? 0 : 1);
      return found == ids.end();
    });
  return start && *start < file.tokens ? start : std::nullopt;
}

/// Where the tail begins, in tokens of all files: with the first document there or behind, or, if there is none, there.
std::int64_t tail_begin(const std::vector<TokenFile>& files, std::int64_t cut, const TokenKind& kind,
                        const Alive& alive) {
  std::int64_t first = 0;
  for (const TokenFile& file : files) {
    if (first + file.tokens > cut) {
      const auto start = start_from(file, std::max<std::int64_t>(cut - first, 0), kind.end_of_text, alive);
      if (start) return first + *start;
    }
    first += file.tokens;
  }
  return cut;
}

void divide_at(const std::vector<TokenFile>& files, std::int64_t cut, DividedFiles& divided) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < files.size(); first += files[i++].tokens) {
    const std::int64_t within = std::clamp<std::int64_t>(cut - first, 0, files[i].tokens);
    if (within > 0) divided.splits[0].push_back({i, 0, within});
    if (within < files[i].tokens) divided.splits[1].push_back({i, within, files[i].tokens});
  }
}

template <class Choose>
void divide_by_name(const std::vector<TokenFile>& files, DividedFiles& divided, const Choose& choose) {
  for (std::size_t i = 0; i < files.size(); ++i)
    divided.splits[choose(files[i]) ? 1 : 0].push_back({i, 0, files[i].tokens});
}

/// A shard to be.
struct Piece {
  DataSplit split = DataSplit::train;
  std::size_t number = 0;  // of all, which ranks take in turns
  TokenRange range;
  std::optional<std::pair<std::size_t, std::int64_t>> before;  // the file and the token in front of it in its split
  std::string documents;                                       // its file
};

std::vector<Piece> pieces_of(const DividedFiles& divided, std::int64_t shard_tokens) {
  std::vector<Piece> pieces;
  for (const DataSplit split : {DataSplit::train, DataSplit::validation}) {
    std::size_t in_split = 0;
    std::optional<std::pair<std::size_t, std::int64_t>> before;
    for (const TokenRange& range : divided.splits[split == DataSplit::train ? 0 : 1]) {
      const bool whole = divided.files[range.file].format == TokenFormat::mds;
      const std::int64_t most = whole ? range.end - range.begin : shard_tokens;
      for (std::int64_t begin = range.begin; begin < range.end; begin += most) {
        const std::int64_t end = std::min(begin + most, range.end);
        pieces.push_back({split,
                          pieces.size(),
                          {range.file, begin, end},
                          before,
                          fmt::format("documents/{}-{:05}.h5", name_of(split), in_split++)});
        before = {range.file, end - 1};
      }
    }
  }
  return pieces;
}

/// Makes the entries of shards, each from the bytes of its file.
class Describer {
 public:
  Describer(const DividedFiles& divided, const TokenKind& kind, const Path& folder, const Alive& alive)
      : divided_(divided), kind_(kind), folder_(folder), alive_(alive) {}

  ShardEntry describe(const Piece& piece) {
    const TokenFile& file = divided_.files[piece.range.file];
    ShardEntry entry;
    entry.file = absolute_path(file.path).string();
    entry.tokens = piece.range.end - piece.range.begin;
    entry.bytes = file.bytes;
    OutsideTokens outside;
    outside.dtype = file.dtype;
    outside.documents = piece.documents;
    std::vector<std::uint64_t> starts, places;
    if (file.format == TokenFormat::mds) {
      outside.apart = true;
      describe_samples(file, piece, entry, outside, starts, places);
    } else {
      describe_tokens(file, piece, entry, outside, starts);
    }
    entry.documents = std::ssize(starts);
    write_document_starts(folder_ / piece.documents, starts, places, outside);
    entry.outside = outside;
    return entry;
  }

 private:
  void describe_tokens(const TokenFile& file, const Piece& piece, ShardEntry& entry, OutsideTokens& outside,
                       std::vector<std::uint64_t>& starts) {
    const auto [number, begin, end] = piece.range;
    outside.offset = file.offset + static_cast<std::uint64_t>(begin) * width_of(file);
    outside.extent = static_cast<std::uint64_t>(end - begin) * width_of(file);
    const bool by_token = file.index.empty() && kind_.end_of_text.has_value();
    const bool at_token = token_starts_document(file.format);
    bool starts_next = !piece.before;  // whether a document starts with the token that comes next
    if (by_token && !at_token && piece.before)
      starts_next = token_at(divided_.files[piece.before->first], piece.before->second) == *kind_.end_of_text;
    if (file.index.empty() && !by_token) starts_next = starts_next || begin == 0;
    if (starts_next && !by_token) starts.push_back(0);
    StreamHash hash;
    read_tokens(file, begin, end, alive_, [&](std::int64_t first, auto ids, auto bytes, const IdRange& range) {
      hash.add(bytes);
      if (range.outside(kind_.vocabulary)) fail_id(file, first, bytes);
      for (std::size_t i = 0; by_token && i < ids.size(); ++i) {
        const bool is_end = ids[i] == *kind_.end_of_text;
        if (starts_next || (at_token && is_end)) starts.push_back(static_cast<std::uint64_t>(first - begin) + i);
        starts_next = !at_token && is_end;
      }
      return true;
    });
    entry.hash = hash.digest();
    if (file.index.empty()) return;
    for (const std::uint64_t start :
         index_of(piece.range.file).starts(static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end))) {
      const std::uint64_t within = start - static_cast<std::uint64_t>(begin);
      if (starts.empty() || within > starts.back()) starts.push_back(within);
    }
  }

  void describe_samples(const TokenFile& file, const Piece& piece, ShardEntry& entry, OutsideTokens& outside,
                        std::vector<std::uint64_t>& starts, std::vector<std::uint64_t>& places) {
    const MdsSamples samples = mds_.samples(file);
    const MappedFile map(file.path);
    const auto begin = static_cast<std::uint64_t>(piece.range.begin), end = static_cast<std::uint64_t>(piece.range.end);
    std::vector<std::int32_t> ids;
    std::uint64_t last = 0;  // behind the last sample, in bytes
    for (std::size_t i = 0; i < samples.starts.size(); ++i) {
      if (samples.starts[i] < begin || samples.starts[i] >= end) continue;
      alive_();
      const std::uint64_t next =
          i + 1 < samples.starts.size() ? samples.starts[i + 1] : static_cast<std::uint64_t>(samples.tokens);
      const auto bytes = map.bytes().subspan(samples.places[i], (next - samples.starts[i]) * width_of(file));
      ids.resize(next - samples.starts[i]);
      if (copy_ids(bytes, file.dtype, ids).outside(kind_.vocabulary))
        read_mapped(map, [&] { fail_id(file, static_cast<std::int64_t>(samples.starts[i]), bytes); });
      starts.push_back(samples.starts[i] - begin);
      places.push_back(samples.places[i]);
      last = samples.places[i] + bytes.size();
    }
    outside.offset = places.at(0);
    outside.extent = last - outside.offset;
    entry.hash = hash128(map.bytes().subspan(outside.offset, outside.extent));
    require_intact(map);
  }

  // Of `bytes`, the tokens from `first` on, one is no id.
  [[noreturn]] void fail_id(const TokenFile& file, std::int64_t first, std::span<const std::byte> bytes) const {
    std::int32_t id = 0;
    for (; !bytes.empty(); bytes = bytes.subspan(width_of(file)), ++first) {
      const auto wrong = copy_ids(bytes.first(width_of(file)), file.dtype, {&id, 1}).outside(kind_.vocabulary);
      if (!wrong) continue;
      throw Error(ExitCode::input,
                  fmt::format("{}: token {} is {}, but the vocabulary has {} tokens", file.name(), first, *wrong,
                              kind_.vocabulary),
                  "name the tokenizer that made the file with --data.tokenizer");
    }
    fail(ExitCode::bug, "the token id outside of the vocabulary was not found again");
  }

  const DocumentIndex& index_of(std::size_t file) {
    if (!index_ || index_file_ != file) {
      index_ = std::make_unique<DocumentIndex>(divided_.files[file]);
      index_file_ = file;
    }
    return *index_;
  }

  const DividedFiles& divided_;
  const TokenKind& kind_;
  const Path& folder_;
  const Alive& alive_;
  MdsIndices mds_;
  std::unique_ptr<DocumentIndex> index_;  // of the file it was asked for last
  std::size_t index_file_ = 0;
};

Json to_json(const ShardEntry& entry) {
  const OutsideTokens& outside = *entry.outside;
  return {entry.file,         entry.tokens,      entry.documents,        entry.bytes,
          to_hex(entry.hash), outside.offset,    outside.extent,         static_cast<int>(outside.dtype),
          outside.apart,      outside.documents, outside.document_bytes, to_hex(outside.document_hash)};
}

ShardEntry entry_from(const Json& json) {
  ShardEntry entry;
  entry.file = json[0];
  entry.tokens = json[1];
  entry.documents = json[2];
  entry.bytes = json[3];
  entry.hash = hash_from_hex(json[4].get<std::string>());
  entry.outside = OutsideTokens{json[5], json[6],  static_cast<DType>(json[7].get<int>()),    json[8],
                                json[9], json[10], hash_from_hex(json[11].get<std::string>())};
  return entry;
}

}  // namespace

DividedFiles divide_token_files(Session& session, std::vector<TokenFile> files, const TokenValidation& validation,
                                const TokenKind& kind, const Path& scratch) {
  constexpr double usual_fraction = 0.01;
  Communicator& world = session.world();
  check_files(session, files, scratch);
  DividedFiles divided;
  const auto by_tail = [&](double fraction) {
    std::int64_t total = 0, cut = 0;
    for (const TokenFile& file : files) total += file.tokens;
    long_work_together(session, "find where the tail begins", [&](const Alive& alive) {
      if (world.rank() != 0) return;
      const auto wanted = static_cast<std::int64_t>(std::floor(static_cast<double>(total) * (1 - fraction)));
      cut = tail_begin(files, wanted, kind, alive);
    });
    divide_at(files, world.all_reduce(cut, Reduce::max), divided);
  };
  const ValidationSplit by = validation.split.value_or(ValidationSplit{ValidationSplit::Kind::tail, usual_fraction});
  const bool all_named = std::ranges::all_of(files, begins_validation);  // then names tell nothing
  divided.by = fmt::format("data.validation {}", by.text());
  if (validation.files) {
    divided.by = fmt::format("data.validation_files {}", *validation.files);
    divide_by_name(files, divided, [&](const TokenFile& file) { return matches(*validation.files, file); });
  } else if (!validation.split && !all_named && std::ranges::any_of(files, begins_validation)) {
    divided.by = "files named val or validation";
    divide_by_name(files, divided, begins_validation);
  } else {
    switch (by.by) {
      case ValidationSplit::Kind::none: divide_at(files, std::numeric_limits<std::int64_t>::max(), divided); break;
      case ValidationSplit::Kind::tail: by_tail(by.fraction); break;
      case ValidationSplit::Kind::hash:
      case ValidationSplit::Kind::count:
        throw Error(ExitCode::usage, fmt::format("data.validation {} cannot divide token files", by.text()),
                    "tail:FRACTION takes documents from the end, data.validation_files files by their names");
    }
  }
  for (std::size_t i = 0; i < divided.splits.size(); ++i) {
    const bool none = i == 1 && !validation.files && by.by == ValidationSplit::Kind::none;
    if (!divided.splits[i].empty() || none) continue;
    throw Error(ExitCode::input,
                fmt::format("{} leaves nothing for {}", divided.by, i == 0 ? "training" : "validation"),
                "--data.validation none keeps everything for training");
  }
  divided.files = std::move(files);
  return divided;
}

InPlaceSplits describe_in_place(Session& session, const DividedFiles& divided, const TokenKind& kind,
                                std::int64_t shard_tokens, const Path& folder) {
  Communicator& world = session.world();
  const std::vector<Piece> pieces = pieces_of(divided, shard_tokens);
  together(world, "describe the token files", [&] {
    if (world.rank() == 0) make_folder(folder / "documents");
  });
  Json own = Json::array();
  long_work_together(session, "describe the token files", [&](const Alive& alive) {
    Describer describer(divided, kind, folder, alive);
    for (const Piece& piece : pieces) {
      if (is_own(world, piece.number)) own.push_back({piece.number, to_json(describer.describe(piece))});
    }
  });
  std::vector<ShardEntry> entries(pieces.size());
  for (const std::string& part : world.all_gather(to_text(own))) {
    for (const Json& entry : parse_json(part, "shards")) entries.at(entry[0].get<std::size_t>()) = entry_from(entry[1]);
  }
  InPlaceSplits splits;
  for (const Piece& piece : pieces) {
    SplitEntry& split = piece.split == DataSplit::train ? splits.train : splits.validation;
    const ShardEntry& entry = entries[piece.number];
    split.tokens += entry.tokens;
    split.documents += entry.documents;
    split.shards.push_back(entry);
  }
  number_shards(splits.train);
  number_shards(splits.validation);
  return splits;
}

}  // namespace lockstep
