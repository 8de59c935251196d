#include "exchange/token_files.hpp"

#include "base/error.hpp"
#include "base/words.hpp"
#include "exchange/document_index.hpp"
#include "exchange/mds.hpp"

#include <fcntl.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <set>
#include <utility>

namespace lockstep {

namespace {

constexpr std::array<std::pair<TokenFormat, std::string_view>, 5> format_names{{{TokenFormat::megatron, "megatron"},
                                                                                {TokenFormat::llmc, "llmc"},
                                                                                {TokenFormat::nanogpt, "nanogpt"},
                                                                                {TokenFormat::datatrove, "datatrove"},
                                                                                {TokenFormat::mds, "mds"}}};

constexpr std::int32_t llmc_16_bits = 20240520, llmc_32_bits = 20240801, llmc_evaluation = 20240522;
constexpr std::uint64_t llmc_header_bytes = 1024;

Path with_suffix(const Path& path, const char* suffix) { return path.string() + suffix; }

std::uint64_t length_of_file(const Path& path) {
  if (!open_if_there(path)) fail(ExitCode::input, "{} does not exist", path.string());
  return length_of(path).value_or(0);
}

/// Files with such names are text or records: they are not looked into.
bool has_name_of_text(const Path& path) {
  constexpr std::array suffixes{".txt",   ".jsonl", ".json", ".csv", ".tsv", ".parquet",
                                ".arrow", ".gz",    ".zst",  ".bz2", ".xz"};
  return std::ranges::find(suffixes, path.extension().string()) != suffixes.end();
}

/// The first bytes of a file, fewer if it has fewer.
std::string head_of(const Path& path, std::size_t most) {
  const FileDescriptor file = open_regular(path);
  std::string head(std::min<std::uint64_t>(most, length_of_file(path)), '\0');
  read_at(file, std::as_writable_bytes(std::span(head)), 0, path);
  return head;
}

std::int32_t number_in(const std::string& head, std::size_t index) {
  std::int32_t number = 0;
  if (head.size() >= (index + 1) * sizeof number)
    std::memcpy(&number, head.data() + index * sizeof number, sizeof number);
  return number;
}

bool is_llmc(std::int32_t magic) { return magic == llmc_16_bits || magic == llmc_32_bits || magic == llmc_evaluation; }

[[noreturn]] void fail_length(const TokenFile& file, const std::string& what) {
  fail(ExitCode::input, "{} has {} bytes: {}", file.path.string(), file.bytes, what);
}

/// Sets the number of tokens of a file that holds nothing else behind the offset.
void count_tokens(TokenFile& file) {
  const auto width = static_cast<std::uint64_t>(size_of(file.dtype));
  const std::uint64_t bytes = file.bytes - file.offset;
  if (bytes == 0) fail_length(file, "it holds no tokens");
  if (bytes % width != 0)
    fail_length(file, fmt::format("not a multiple of the token size, {}", counted(size_of(file.dtype), "byte")));
  file.tokens = static_cast<std::int64_t>(bytes / width);
}

/// `path` is the .bin, the .idx, or what they have in front of these.
TokenFile megatron_file(const Path& path) {
  const bool named_one = path.extension() == ".bin" || path.extension() == ".idx";
  const std::string prefix = named_one ? Path(path).replace_extension().string() : path.string();
  TokenFile file{.format = TokenFormat::megatron, .path = prefix + ".bin", .index = prefix + ".idx"};
  const std::uint64_t index_bytes = length_of_file(file.index);
  file.bytes = length_of_file(file.path);
  try {
    const std::string head = head_of(file.index, MegatronIndex::header_bytes);
    file.dtype = MegatronIndex::read(std::as_bytes(std::span(head)), index_bytes).dtype;
  } catch (const Error& error) {
    fail(ExitCode::input, "{}: {}", file.index.string(), error.what());
  }
  count_tokens(file);
  return file;
}

TokenFile llmc_file(const Path& path) {
  const std::string head = head_of(path, llmc_header_bytes);
  const std::int32_t magic = number_in(head, 0), version = number_in(head, 1), count = number_in(head, 2);
  TokenFile file{.format = TokenFormat::llmc, .path = path};
  file.bytes = length_of_file(path);
  if (magic == llmc_evaluation)
    fail(ExitCode::input, "{} is an evaluation file of llm.c, not a stream of tokens", path.string());
  if (head.size() < llmc_header_bytes || !is_llmc(magic))
    fail(ExitCode::input, "{} does not begin like a token file of llm.c", path.string());
  const std::int32_t expected = magic == llmc_16_bits ? 1 : 7;
  if (version != expected)
    fail(ExitCode::input, "{} has version {} of llm.c's format {}; only version {} is supported", path.string(),
         version, magic, expected);
  file.dtype = magic == llmc_16_bits ? DType::u16 : DType::u32;
  file.offset = llmc_header_bytes;
  if (count < 1) fail(ExitCode::input, "{}: its header announces {} tokens", path.string(), count);
  const auto width = static_cast<std::uint64_t>(size_of(file.dtype));
  if (file.bytes - file.offset != static_cast<std::uint64_t>(count) * width)
    fail_length(file, fmt::format("its header announces {} tokens of {} bytes after a header of {} bytes", count, width,
                                  llmc_header_bytes));
  count_tokens(file);
  return file;
}

TokenFile nanogpt_file(const Path& path) {
  TokenFile file{.format = TokenFormat::nanogpt, .path = path};
  file.bytes = length_of_file(path);
  count_tokens(file);
  return file;
}

/// What a .ds.metadata says: "NAME|BYTES" of a token, then how many there are.
struct DatatroveMetadata {
  std::int64_t width = 0;
  std::int64_t tokens = 0;
};

DatatroveMetadata metadata_of(const Path& path) {
  constexpr std::size_t most_bytes = 1 << 16;
  const std::string text = head_of(path, most_bytes);
  const std::size_t line = std::min(text.find('\n'), text.size());
  const std::size_t bar = text.substr(0, line).rfind('|');
  DatatroveMetadata metadata;
  const auto number = [&](std::size_t begin, std::int64_t& value) {
    return begin < text.size() &&
           std::from_chars(text.data() + begin, text.data() + text.size(), value).ec == std::errc();
  };
  if (bar == std::string::npos || !number(bar + 1, metadata.width) || !number(line + 1, metadata.tokens) ||
      (metadata.width != 2 && metadata.width != 4))
    fail(ExitCode::input, "{} is not metadata of datatrove: expected TOKENIZER|BYTES (2 or 4) and a number of tokens",
         path.string());
  return metadata;
}

TokenFile datatrove_file(const Path& path) {
  TokenFile file{.format = TokenFormat::datatrove, .path = path};
  file.bytes = length_of_file(path);
  if (is_there(with_suffix(path, ".loss")))
    throw Error(ExitCode::input,
                fmt::format("{}.loss excludes tokens from the loss, which is not supported for token files in place",
                            path.string()),
                "move it elsewhere to train on all tokens");
  if (is_there(with_suffix(path, ".index"))) file.index = with_suffix(path, ".index");
  std::optional<DatatroveMetadata> metadata;
  if (is_there(with_suffix(path, ".metadata"))) metadata = metadata_of(with_suffix(path, ".metadata"));
  if (!metadata && file.index.empty())
    throw Error(ExitCode::input, fmt::format("cannot tell whether tokens of {} have 2 bytes or 4", path.string()),
                "put its .ds.metadata or .ds.index, which datatrove writes, next to it");
  std::int64_t width = metadata ? metadata->width : 0;
  if (!metadata) {
    const std::uint64_t index_bytes = length_of_file(file.index);
    std::uint64_t end = 0;  // of the last document
    if (index_bytes >= sizeof end)
      read_at(open_regular(file.index), std::as_writable_bytes(std::span(&end, 1)), index_bytes - sizeof end,
              file.index);
    width = end > 0 && file.bytes % end == 0 ? static_cast<std::int64_t>(file.bytes / end) : 0;
    if (width != 2 && width != 4)
      fail_length(file, fmt::format("{} ends at token {}, but tokens have 2 or 4 bytes", file.index.string(), end));
  }
  file.dtype = width == 2 ? DType::u16 : DType::u32;
  count_tokens(file);
  if (metadata && metadata->tokens != file.tokens)
    fail_length(file, fmt::format("its metadata says {} tokens of {} bytes", metadata->tokens, width));
  return file;
}

/// Finds files by their content, or reads them as the user says.
class TokenFileFinder {
 public:
  explicit TokenFileFinder(std::optional<TokenFormat> format) : format_(format) {}

  void take_word(const std::string& word) {
    const std::size_t before = found_.files.size();
    if (is_folder(word)) {
      if (!take(word)) take_all(list_folder(word));
    } else if (is_there(word)) {
      if (!take(word) && looks_like_tokens(word)) fail_unknown(word);
    } else if (is_there(with_suffix(word, ".idx"))) {
      add(megatron_file(word));
    } else if (word.find_first_of("*?[") != std::string::npos) {
      take_all(matches_of(word));
    } else if (format_) {
      fail(ExitCode::input, "cannot open {}: no such file or folder", word);
    }
    (found_.files.size() == before ? without_ : with_).push_back(word);
    if (format_ && found_.files.size() == before)
      fail(ExitCode::input, "{} holds no token files of the format {}", word, name_of(*format_));
  }

  std::optional<TokenFiles> finish() {
    if (with_.empty()) return std::nullopt;
    if (!without_.empty())
      throw Error(ExitCode::input, fmt::format("{} holds token files, but {} does not", with_[0], without_[0]),
                  "prepare text and token files separately");
    for (const TokenFile& file : found_.files) {
      if (file.format == found_.files[0].format) continue;
      throw Error(ExitCode::input,
                  fmt::format("{} has the format {}, but {} has {}", found_.files[0].path.string(),
                              name_of(found_.files[0].format), file.path.string(), name_of(file.format)),
                  "prepare them separately");
    }
    return std::move(found_);
  }

 private:
  static std::vector<Path> matches_of(const std::string& pattern) {
    glob_t found{};
    std::vector<Path> paths;
    if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
      for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
    }
    ::globfree(&found);
    std::ranges::sort(paths, {}, [](const Path& path) { return path.string(); });
    return paths;
  }

  // What a folder or a glob holds; files of other kinds beside token files are passed over.
  void take_all(const std::vector<Path>& paths) {
    for (const Path& path : paths) {
      if (path.filename().string().starts_with('.') || is_folder(path) || !is_there(path)) continue;
      if (path.filename() == "meta.pkl")
        found_.notes.push_back(fmt::format("{} is ignored: pickles can run code", path.string()));
      take(path);
    }
  }

  // Adds what the file or folder is; false if it is no token file.
  bool take(const Path& path) {
    const auto format = format_of(path);
    if (!format) return false;
    switch (*format) {
      case TokenFormat::megatron: add(megatron_file(path)); break;
      case TokenFormat::llmc: add(llmc_file(path)); break;
      case TokenFormat::nanogpt: add(nanogpt_file(path)); break;
      case TokenFormat::datatrove: add(datatrove_file(path)); break;
      case TokenFormat::mds:
        for (TokenFile& file : MdsIndex(path).files()) add(std::move(file));
        break;
    }
    return true;
  }

  void add(TokenFile file) {
    if (seen_.insert({absolute_path(file.path).string(), file.number}).second) found_.files.push_back(std::move(file));
  }

  // As the content says, or, for what has no sign of its format, the user.
  std::optional<TokenFormat> format_of(const Path& path) const {
    const auto found = format_by_content(path);
    if (found && format_ && *found != *format_)
      fail(ExitCode::input, "{} has the format {}, not {}", path.string(), name_of(*found), name_of(*format_));
    if (found || !format_) return found;
    const Path suffix = path.extension();
    switch (*format_) {
      case TokenFormat::megatron: return suffix == ".idx" ? format_ : std::nullopt;
      case TokenFormat::llmc:
      case TokenFormat::nanogpt: return suffix == ".bin" ? format_ : std::nullopt;
      case TokenFormat::datatrove: return suffix == ".ds" ? format_ : std::nullopt;
      case TokenFormat::mds: return std::nullopt;
    }
    return std::nullopt;
  }

  static std::optional<TokenFormat> format_by_content(const Path& path) {
    if (is_mds(path)) return TokenFormat::mds;
    if (kind_of(path) != FileKind::file || has_name_of_text(path)) return std::nullopt;
    const std::string head = head_of(path, MegatronIndex::magic.size());
    if (head == MegatronIndex::magic) return TokenFormat::megatron;
    if (is_llmc(number_in(head, 0))) return TokenFormat::llmc;
    if (path.extension() == ".bin" && is_there(Path(path).replace_extension(".idx"))) return TokenFormat::megatron;
    const bool described = is_there(with_suffix(path, ".index")) || is_there(with_suffix(path, ".metadata"));
    if (path.extension() == ".ds" && described) return TokenFormat::datatrove;
    return std::nullopt;
  }

  static bool looks_like_tokens(const Path& path) {
    return path.extension() == ".bin" || path.extension() == ".idx" || path.extension() == ".ds";
  }

  [[noreturn]] static void fail_unknown(const Path& path) {
    throw Error(
        ExitCode::input, fmt::format("cannot recognise the format of {}", path.string()),
        "name the format: --format nanogpt is plain 16-bit tokens; other formats have a header, or an index next "
        "to them");
  }

  std::optional<TokenFormat> format_;
  TokenFiles found_;
  std::set<std::pair<std::string, std::int64_t>> seen_;
  std::vector<std::string> with_, without_;  // words
};

}  // namespace

std::string_view name_of(TokenFormat format) {
  for (const auto& [known, name] : format_names) {
    if (known == format) return name;
  }
  return {};
}

std::optional<TokenFormat> parse_token_format(std::string_view name) {
  for (const auto& [format, known] : format_names) {
    if (known == name) return format;
  }
  return std::nullopt;
}

std::optional<TokenFiles> find_token_files(const std::vector<std::string>& words, std::optional<TokenFormat> format) {
  TokenFileFinder finder(format);
  for (const std::string& word : words) finder.take_word(word);
  return finder.finish();
}

}  // namespace lockstep
