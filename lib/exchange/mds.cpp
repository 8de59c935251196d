#include "exchange/mds.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "base/load.hpp"
#include "store/listed_path.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace lockstep {

namespace {

constexpr std::uint64_t longest_index = std::uint64_t{1} << 30;  // bytes
constexpr std::array token_columns{"tokens", "input_ids"};

// Types by the names that encodings have, and by the numbers that arrays of any type begin with.
struct ArrayType {
  std::string_view name;
  std::uint8_t number;
  DType dtype;
};
constexpr std::array<ArrayType, 8> array_types{{{"uint8", 8, DType::u8},
                                                {"int8", 9, DType::i8},
                                                {"uint16", 16, DType::u16},
                                                {"int16", 17, DType::i16},
                                                {"uint32", 32, DType::u32},
                                                {"int32", 33, DType::i32},
                                                {"uint64", 64, DType::u64},
                                                {"int64", 65, DType::i64}}};

std::optional<DType> dtype_named(std::string_view name) {
  for (const ArrayType& type : array_types) {
    if (type.name == name) return type.dtype;
  }
  return std::nullopt;
}

/// How the column of tokens is encoded.
struct Encoding {
  std::optional<DType> dtype;  // absent: each array tells its own
  bool shaped = false;         // each array tells its shape
};

/// Throws Error(input) for one that holds no tokens.
Encoding encoding_from(const std::string& text) {
  if (text == "int") return {DType::i64, false};
  if (text == "bytes") return {DType::i64, false};  // as trainers of this format write and read it
  if (const auto dtype = dtype_named(text)) return {dtype, false};
  if (text == "ndarray") return {std::nullopt, true};
  if (text.starts_with("ndarray:")) {
    const std::string_view type = std::string_view(text).substr(8, text.find(':', 8) - 8);
    if (const auto dtype = dtype_named(type)) return {dtype, text.find(':', 8) == std::string::npos};
  }
  fail(ExitCode::input, "its token column has the encoding {}, which does not hold integers", text);
}

/// What the index says of a shard.
struct MdsShard {
  std::string file;             // the uncompressed one
  std::uint64_t bytes = 0;      // of it
  std::string zip_file;         // empty: not compressed
  std::uint64_t zip_bytes = 0;  // of it
  std::uint64_t samples = 0;
  std::vector<std::uint64_t> sizes;  // of columns; 0: each sample tells
  std::size_t column = 0;            // that holds the tokens
  Encoding encoding;
};

std::pair<std::string, std::uint64_t> file_from(const Json& json) {
  const std::string name = json.at("basename").get<std::string>();
  if (!stays_below(name)) fail(ExitCode::input, "the file '{}' is not in the same folder", name);
  return {name, integer_from<std::uint64_t>(json.at("bytes"), "bytes")};
}

MdsShard shard_from(const Json& json) {
  if (json.at("format") != "mds" || json.at("version") != 2)
    fail(ExitCode::input, "it has the format {} version {}; only mds version 2 is supported",
         to_text(json.at("format")), to_text(json.at("version")));
  MdsShard shard;
  std::tie(shard.file, shard.bytes) = file_from(json.at("raw_data"));
  if (const Json& zip = json.at("zip_data"); !zip.is_null()) std::tie(shard.zip_file, shard.zip_bytes) = file_from(zip);
  const Json& compression = json.at("compression");
  if (!compression.is_null()) {
    const std::string how = compression.get<std::string>();
    if (how != "zstd" && !how.starts_with("zstd:"))
      fail(ExitCode::input, "it is compressed with {}; only zstd is supported", how);
  }
  shard.samples = integer_from<std::uint64_t>(json.at("samples"), "samples");
  const auto columns = json.at("column_names").get<std::vector<std::string>>();
  const auto encodings = json.at("column_encodings").get<std::vector<std::string>>();
  for (const Json& size : json.at("column_sizes"))
    shard.sizes.push_back(size.is_null() ? 0 : integer_from<std::uint64_t>(size, "the size of a column"));
  if (encodings.size() != columns.size() || shard.sizes.size() != columns.size())
    fail(ExitCode::input, "it has {} columns, {} encodings and {} sizes", columns.size(), encodings.size(),
         shard.sizes.size());
  for (const std::uint64_t size : shard.sizes) {
    if (size > shard.bytes) fail(ExitCode::input, "a column of {} bytes is larger than the shard", size);
  }
  const auto named = std::ranges::find_if(
      token_columns, [&](const char* name) { return std::ranges::find(columns, name) != columns.end(); });
  if (named == token_columns.end()) fail(ExitCode::input, "it has no column tokens or input_ids");
  shard.column = static_cast<std::size_t>(std::ranges::find(columns, *named) - columns.begin());
  shard.encoding = encoding_from(encodings[shard.column]);
  return shard;
}

Path index_of(const Path& path) { return is_folder(path) ? path / "index.json" : path; }

Json read_index(const Path& index) {
  if (length_of(index).value_or(0) > longest_index)
    fail(ExitCode::input, "{} is too long for an MDS index", index.string());
  return parse_json(read_file(index), index.string());
}

std::vector<MdsShard> shards_from(const Path& index) {
  const Json json = read_index(index);
  std::vector<MdsShard> shards;
  try {
    if (!json.is_object() || !json.at("shards").is_array() || json.at("shards").empty())
      fail(ExitCode::input, "it lists no shards");
    for (const Json& shard : json["shards"]) shards.push_back(shard_from(shard));
  } catch (const Error& error) {
    fail(ExitCode::input, "{}: shard {}: {}", index.string(), shards.size(), error.what());
  } catch (const Json::exception&) {
    fail(ExitCode::input, "{}: shard {}: a key is missing or has the wrong type", index.string(), shards.size());
  }
  return shards;
}

/// Reads through samples of a shard in memory.
class SampleReader {
 public:
  SampleReader(const TokenFile& file, const MdsShard& shard, std::span<const std::byte> bytes)
      : file_(file), shard_(shard), bytes_(bytes) {}

  MdsSamples read() {
    if (bytes_.size() != shard_.bytes)
      fail(ExitCode::input, "{} has {} bytes, but {} says {}", file_.name(), bytes_.size(), file_.index.string(),
           shard_.bytes);
    const std::uint64_t offsets_end = (shard_.samples + 2) * sizeof(std::uint32_t);
    const bool whole = shard_.samples < bytes_.size() && offsets_end <= bytes_.size() &&
                       load<std::uint32_t>(bytes_, 0) == shard_.samples;
    if (!whole)
      fail(ExitCode::input, "{} does not begin like a shard of {} samples, as listed in {}", file_.name(),
           shard_.samples, file_.index.string());
    std::uint64_t before = offsets_end;
    for (number_ = 0; number_ < shard_.samples; ++number_) {
      const std::uint64_t begin = load<std::uint32_t>(bytes_, (number_ + 1) * sizeof(std::uint32_t));
      const std::uint64_t end = load<std::uint32_t>(bytes_, (number_ + 2) * sizeof(std::uint32_t));
      if (begin < before || end < begin || end > bytes_.size())
        fail_sample("it overlaps another sample or the end of the shard");
      add(begin, end);
      before = end;
    }
    if (before != bytes_.size()) fail_sample("bytes follow the last sample");
    if (samples_.tokens == 0) fail(ExitCode::input, "{} holds no tokens", file_.name());
    return std::move(samples_);
  }

 private:
  [[noreturn]] void fail_sample(const std::string& what) const {
    fail(ExitCode::input, "{}: sample {}: {}", file_.name(), number_, what);
  }

  // Sizes of those columns that have no fixed one, then the columns.
  void add(std::uint64_t begin, std::uint64_t end) {
    std::uint64_t at = begin, place = 0, size = 0, sum = 0;
    for (std::size_t column = 0; column < shard_.sizes.size(); ++column) {
      std::uint64_t bytes = shard_.sizes[column];
      if (bytes == 0) {
        if (end - at < sizeof(std::uint32_t)) fail_sample("it is too short for the sizes of its columns");
        bytes = load<std::uint32_t>(bytes_, at);
        at += sizeof(std::uint32_t);
      }
      if (column == shard_.column) {
        place = sum;
        size = bytes;
      }
      sum += bytes;
      if (sum > end - begin) fail_sample("its columns are longer than the sample");
    }
    if (sum != end - at) fail_sample("the sizes of its columns do not add up to its size");
    add_array(at + place, size);
  }

  void add_array(std::uint64_t at, std::uint64_t size) {
    const std::uint64_t end = at + size;
    const auto byte = [&] {
      if (at == end) fail_sample("its array is truncated in the header");
      return load<std::uint8_t>(bytes_, at++);
    };
    DType dtype = shard_.encoding.dtype.value_or(DType::u8);
    if (!shard_.encoding.dtype) {
      const std::uint8_t number = byte();
      const auto* const type = std::ranges::find(array_types, number, &ArrayType::number);
      if (type == array_types.end()) fail_sample("its array does not hold integers");
      dtype = type->dtype;
    }
    std::optional<std::uint64_t> elements;
    if (shard_.encoding.shaped) elements = elements_of_shape(byte(), at, end);
    const auto width = static_cast<std::uint64_t>(size_of(dtype));
    if ((end - at) % width != 0 || (elements && *elements != (end - at) / width))
      fail_sample("the length of its array does not match its type and shape");
    if (samples_.starts.empty()) samples_.dtype = dtype;
    if (dtype != samples_.dtype)
      fail_sample(fmt::format("its array has type {}, earlier ones have {}", name_of(dtype), name_of(samples_.dtype)));
    if (at == end) return;  // no document
    samples_.starts.push_back(static_cast<std::uint64_t>(samples_.tokens));
    samples_.places.push_back(at);
    samples_.tokens += static_cast<std::int64_t>((end - at) / width);
    samples_.end = end;
  }

  // The lowest two bits: the bytes of an extent, as a power of two; the others: how many extents follow.
  std::uint64_t elements_of_shape(std::uint8_t byte, std::uint64_t& at, std::uint64_t end) const {
    const std::uint64_t width = std::uint64_t{1} << (byte & 3U);
    std::uint64_t elements = 1;
    for (int axis = 0; axis < byte >> 2; ++axis, at += width) {
      if (end - at < width) fail_sample("its array is truncated in the shape");
      std::uint64_t extent = 0;
      std::memcpy(&extent, bytes_.data() + at, width);
      if (__builtin_mul_overflow(elements, extent, &elements)) fail_sample("the shape of its array is too large");
    }
    return elements;
  }

  const TokenFile& file_;
  const MdsShard& shard_;
  std::span<const std::byte> bytes_;
  MdsSamples samples_;
  std::uint64_t number_ = 0;
};

}  // namespace

bool is_mds(const Path& path) {
  const Path index = index_of(path);
  if (index.filename() != "index.json" || kind_of(index) != FileKind::file) return false;
  if (length_of(index).value_or(0) > longest_index) return false;
  const Json json = Json::parse(read_file(index), nullptr, false);
  if (!json.is_object() || !json.contains("shards") || !json["shards"].is_array() || json["shards"].empty())
    return false;
  const Json& first = json["shards"][0];
  return first.is_object() && first.value("format", Json()).is_string();
}

struct MdsIndex::State {
  Path index;
  std::vector<MdsShard> shards;
};

MdsIndex::MdsIndex(const Path& path) : state_(std::make_unique<State>()) {
  state_->index = index_of(path);
  state_->shards = shards_from(state_->index);
}
MdsIndex::~MdsIndex() = default;
MdsIndex::MdsIndex(MdsIndex&&) noexcept = default;
MdsIndex& MdsIndex::operator=(MdsIndex&&) noexcept = default;

std::vector<TokenFile> MdsIndex::files() const {
  std::vector<TokenFile> files;
  const Path folder = state_->index.parent_path();
  for (const MdsShard& shard : state_->shards) {
    TokenFile file{
        .format = TokenFormat::mds, .path = folder / shard.file, .index = state_->index, .number = std::ssize(files)};
    file.compressed = !is_there(file.path) && !shard.zip_file.empty();
    if (file.compressed) file.path = folder / shard.zip_file;
    const std::uint64_t expected = file.compressed ? shard.zip_bytes : shard.bytes;
    const auto bytes = length_of(file.path);
    if (!bytes) fail(ExitCode::input, "{}: {} is missing", state_->index.string(), file.path.string());
    if (*bytes != expected)
      fail(ExitCode::input, "{} has {} bytes, but {} says {}", file.path.string(), *bytes, state_->index.string(),
           expected);
    file.bytes = *bytes;
    files.push_back(std::move(file));
  }
  return files;
}

MdsSamples MdsIndex::samples(const TokenFile& file, std::span<const std::byte> bytes) const {
  return SampleReader(file, state_->shards.at(static_cast<std::size_t>(file.number)), bytes).read();
}

}  // namespace lockstep
