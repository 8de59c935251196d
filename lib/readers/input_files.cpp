#include "readers/input_files.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "plugin/plugins.hpp"
#include "readers/object_store.hpp"
#include "readers/plugin_reader.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace lockstep {

namespace {

constexpr const char* supported =
    "supported: .txt, .jsonl, .ndjson, .json, .csv and .tsv, also followed by .gz, .zst, .bz2 or .xz, and .parquet and "
    ".arrow; for files with other names set data.format";

constexpr std::array<std::pair<const char*, Compression>, 4> compressions{
    {{".gz", Compression::gzip}, {".zst", Compression::zstd}, {".bz2", Compression::bzip2}, {".xz", Compression::xz}}};
constexpr std::array<std::pair<const char*, TextFormat>, 8> formats{{{".txt", TextFormat::text},
                                                                     {".jsonl", TextFormat::json_lines},
                                                                     {".ndjson", TextFormat::json_lines},
                                                                     {".json", TextFormat::json},
                                                                     {".csv", TextFormat::csv},
                                                                     {".tsv", TextFormat::tsv},
                                                                     {".parquet", TextFormat::parquet},
                                                                     {".arrow", TextFormat::arrow}}};

bool is_built_in(std::string_view suffix) {
  const auto is_it = [suffix](const auto& known) { return known.first == suffix; };
  return std::ranges::any_of(formats, is_it) || std::ranges::any_of(compressions, is_it);
}

// What datasets.save_to_disk and its caches write beside the data.
constexpr const char* state_file = "state.json";
constexpr const char* splits_file = "dataset_dict.json";
bool describes_data(const Path& name) {
  return name == state_file || name == splits_file || name == "dataset_info.json" || name == "dataset_infos.json";
}

bool compresses_itself(TextFormat format) { return format == TextFormat::parquet || format == TextFormat::arrow; }

/// The compression that the suffix of a name tells, which is taken off.
Compression take_compression(Path& name) {
  for (const auto& [suffix, compression] : compressions) {
    if (name.extension() != suffix) continue;
    name = name.stem();
    return compression;
  }
  return Compression::none;
}

std::optional<InputFile> classified(const Path& path) {
  InputFile file{path, TextFormat::text, Compression::none, 0};
  Path name = path.filename();
  file.compression = take_compression(name);
  for (const auto& [suffix, format] : formats) {
    if (name.extension() != suffix || (compresses_itself(format) && file.compression != Compression::none)) continue;
    file.format = format;
    return file;
  }
  const auto reader = plugin_reader_of(name.extension().string());
  if (!reader || file.compression != Compression::none) return std::nullopt;
  file.format = TextFormat::plugin;
  file.reader = *reader;
  return file;
}

/// Whether a file whose name says one format may be of the other.
bool may_be(TextFormat named, TextFormat format) {
  const auto is_json = [](TextFormat form) { return form == TextFormat::json || form == TextFormat::json_lines; };
  return named == format || (named == TextFormat::text && !compresses_itself(format)) ||
         (is_json(named) && is_json(format));
}

/// Whether a name says that a file holds other files.
bool names_archive(const Path& path) {
  Path name = path.filename();
  take_compression(name);
  const std::string suffix = name.extension().string();
  constexpr std::array<std::string_view, 8> archives{".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".zip", ".7z", ".rar"};
  return std::ranges::find(archives, suffix) != archives.end();
}

/// With a format, nothing for archives and for names that say another one.
std::optional<InputFile> classified(const Path& path, std::optional<TextFormat> format) {
  const auto named = classified(path);
  if (!format) return named;
  if (names_archive(path) || (named && !may_be(named->format, *format))) return std::nullopt;
  Path name = path.filename();
  const Compression compression = take_compression(name);
  if (compresses_itself(*format) && compression != Compression::none) return std::nullopt;
  return InputFile{path, *format, compression, 0};
}

std::string_view name_of(TextFormat format) {
  for (const auto& [suffix, known] : formats)
    if (known == format) return std::string_view(suffix).substr(1);
  return "one of a plug-in";
}

/// What is passed over, by reason.
class SkippedFiles {
 public:
  enum Reason { other_type, hidden, empty, leads_nowhere, leads_back };

  void add(Reason reason, const Path& path) {
    Entry& entry = entries_[reason];
    const std::string name = path.string();
    if (entry.count++ == 0 || name < entry.first) entry.first = name;
  }
  void note(const std::string& word, std::vector<std::string>& notes) const {
    constexpr std::array<std::array<const char*, 2>, 5> names{
        {{"file of other types", "files of other types"},
         {"hidden file or folder", "hidden files and folders"},
         {"empty file", "empty files"},
         {"broken link", "broken links"},
         {"link to a folder that contains it", "links to folders that contain them"}}};
    for (std::size_t reason = 0; reason < entries_.size(); ++reason) {
      const Entry& entry = entries_[reason];
      if (entry.count == 0) continue;
      notes.push_back(fmt::format("{}: skipped {} {}, first {}", word, entry.count,
                                  names[reason][entry.count == 1 ? 0 : 1], entry.first));
    }
  }
  const std::string& first_of(Reason reason) const { return entries_[reason].first; }

 private:
  struct Entry {
    std::size_t count = 0;
    std::string first;  // by name
  };
  std::array<Entry, 5> entries_;
};

/// What stat(2) says, links followed; nothing for a link that leads nowhere.
std::optional<struct stat> status_of(const Path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) return status;
  if (errno == ENOENT || errno == ELOOP || errno == ENOTDIR) return std::nullopt;
  fail(ExitCode::storage, "cannot read {}: {}", path.string(), std::strerror(errno));
}

class TextFileFinder {
 public:
  explicit TextFileFinder(std::optional<TextFormat> format) : format_(format) {}

  void take_word(const std::string& word) {
    SkippedFiles skipped;
    const std::size_t before = result.files.size();
    if (names_objects(word)) {
      take_objects(word, skipped);
      skipped.note(word, result.notes);
      if (result.files.size() == before) first_empty_ = skipped.first_of(SkippedFiles::empty);
      return;
    }
    const auto status = status_of(word);
    if (status && S_ISDIR(status->st_mode)) {
      std::vector<InputFile> files;
      collect(word, *status, files, skipped);
      take_all(word, std::move(files), skipped);
    } else if (status) {
      take_named(word, *status, skipped);
    } else if (word.find_first_of("*?[") != std::string::npos) {
      std::vector<InputFile> files;
      for (const Path& path : matches_of(word)) offer(path, files, skipped);
      take_all(word, std::move(files), skipped);
    } else {
      fail(ExitCode::input, "cannot open {}: no such file or folder", word);
    }
    skipped.note(word, result.notes);
    if (result.files.size() == before) first_empty_ = skipped.first_of(SkippedFiles::empty);
  }

  void require_files() const {
    if (!result.files.empty()) return;
    if (first_empty_.empty()) fail(ExitCode::input, "no input is given");
    fail(ExitCode::input, "there is no text to prepare: {} is empty", first_empty_);
  }

  InputFiles result;

 private:
  struct Folder {
    dev_t device;
    ino_t inode;
    bool operator==(const Folder&) const = default;
  };

  // A file, or all files of a folder, links followed.
  void offer(const Path& path, std::vector<InputFile>& files, SkippedFiles& skipped) {
    if (path.filename().string().starts_with('.')) return skipped.add(SkippedFiles::hidden, path);
    const auto status = status_of(path);
    if (!status) return skipped.add(SkippedFiles::leads_nowhere, path);
    if (S_ISDIR(status->st_mode)) return collect(path, *status, files, skipped);
    if (describes_data(path.filename())) return;
    auto file = S_ISREG(status->st_mode) ? classified(path, format_) : std::nullopt;
    if (!file) return skipped.add(SkippedFiles::other_type, path);
    if (status->st_size == 0) return skipped.add(SkippedFiles::empty, path);
    file->bytes = static_cast<std::uint64_t>(status->st_size);
    files.push_back(std::move(*file));
  }

  void collect(const Path& folder, const struct stat& status, std::vector<InputFile>& files, SkippedFiles& skipped) {
    const Folder self{status.st_dev, status.st_ino};
    if (std::ranges::find(above_, self) != above_.end()) return skipped.add(SkippedFiles::leads_back, folder);
    refuse_splits(folder);
    above_.push_back(self);
    for (const Path& entry : entries_of(folder)) offer(entry, files, skipped);
    above_.pop_back();
  }

  // A folder of several splits is not one corpus.
  static void refuse_splits(const Path& folder) {
    std::vector<std::string> splits;
    for (const Json& split : list_in(folder / splits_file, "splits"))
      if (split.is_string()) splits.push_back(split.get<std::string>());
    if (splits.size() < 2) return;
    throw Error(ExitCode::input,
                fmt::format("{} has several splits of a dataset: {}", folder.string(), join(splits, ", ")),
                fmt::format("name one: {}", (folder / splits[0]).string()));
  }

  // What is in a folder; of a saved dataset the files that it names: what else lies there may be left from before.
  static std::vector<Path> entries_of(const Path& folder) {
    std::vector<Path> entries;
    for (const Json& file : list_in(folder / state_file, "_data_files"))
      if (file.is_object() && file.contains("filename") && file["filename"].is_string())
        entries.push_back(folder / file["filename"].get<std::string>());
    return entries.empty() ? list_folder(folder) : entries;
  }

  // The list of that name in a small JSON file; empty where there is none, for any file may have that name.
  static Json list_in(const Path& path, const char* name) {
    constexpr std::uint64_t most_bytes = 1 << 24;
    const auto bytes = length_of(path);
    if (!bytes || *bytes > most_bytes) return Json::array();
    const Json json = Json::parse(read_file(path), nullptr, false);
    return json.is_object() && json.contains(name) && json[name].is_array() ? json[name] : Json::array();
  }

  // As of folders and globs; of one object the type has to be known.
  void take_objects(const std::string& word, SkippedFiles& skipped) {
    std::vector<InputFile> files;
    const std::vector<StoredObject> objects = find_objects(word);
    for (const StoredObject& object : objects) {
      if (describes_data(Path(object.key).filename())) continue;
      auto file = classified(object.key, format_);
      if (Path(object.key).filename().string().starts_with('.')) {
        skipped.add(SkippedFiles::hidden, object.uri);
      } else if (!file) {
        skipped.add(SkippedFiles::other_type, object.uri);
      } else if (object.bytes == 0) {
        skipped.add(SkippedFiles::empty, object.uri);
      } else {
        file->path = object.uri;
        file->bytes = object.bytes;
        file->modified_ns = object.modified_ns;
        files.push_back(std::move(*file));
      }
    }
    take_all(word, std::move(files), skipped);
  }

  static std::vector<Path> matches_of(const std::string& pattern) {
    glob_t found{};
    const int error = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
    std::vector<Path> paths;
    for (std::size_t i = 0; error == 0 && i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
    ::globfree(&found);
    if (error != 0) fail(ExitCode::input, "no file matches {}", pattern);
    return paths;
  }

  void take_named(const Path& path, const struct stat& status, SkippedFiles& skipped) {
    if (!S_ISREG(status.st_mode)) {
      throw Error(ExitCode::input, fmt::format("cannot read {} as a corpus: it is not a regular file", path.string()),
                  "to read standard input: prepare-data -");
    }
    auto file = classified(path, format_);
    if (!file && names_archive(path))
      throw Error(ExitCode::input, fmt::format("cannot read {} as a corpus: it is an archive", path.string()),
                  "unpack it and name the files in it");
    if (!file && format_)
      throw Error(ExitCode::input,
                  fmt::format("cannot read {} as a corpus: data.format is {}, but its name says {}", path.string(),
                              name_of(*format_), path.extension().string()),
                  "do not set data.format, or name only files of that format");
    if (!file) {
      throw Error(ExitCode::input, fmt::format("cannot read {} as a corpus: unknown file type", path.string()),
                  supported);
    }
    if (status.st_size == 0) return skipped.add(SkippedFiles::empty, path);
    file->bytes = static_cast<std::uint64_t>(status.st_size);
    result.files.push_back(std::move(*file));
  }

  void take_all(const std::string& word, std::vector<InputFile> files, const SkippedFiles& skipped) {
    if (files.empty() && skipped.first_of(SkippedFiles::empty).empty()) {
      throw Error(ExitCode::input, fmt::format("{} has no text to prepare", word), supported);
    }
    std::ranges::sort(files, {}, [](const InputFile& file) { return file.path.string(); });
    for (InputFile& file : files) result.files.push_back(std::move(file));
  }

  std::optional<TextFormat> format_;
  std::vector<Folder> above_;  // the folders on the way to the one that is listed
  std::string first_empty_;
};

}  // namespace

std::string InputFile::place(std::int64_t line) const {
  const TextFormat form = copied_from.value_or(format);
  const bool has_lines = form == TextFormat::text || form == TextFormat::json_lines;
  return fmt::format("{}:{}{}", name(), has_lines ? "" : " record ", line);
}

std::optional<TextFormat> format_by_name(const Path& name, std::optional<TextFormat> format) {
  if (name.filename().string().starts_with('.') || describes_data(name.filename())) return std::nullopt;
  const auto file = classified(name, format);
  return file ? std::optional(file->format) : std::nullopt;
}

InputFiles find_inputs(const std::vector<std::string>& words, std::optional<TextFormat> format) {
  for (const auto& entry : Plugins::opened().readers())
    if (is_built_in(entry.table->suffix))
      fail(ExitCode::input, "{}: a plug-in cannot read {} files, which have a built-in reader", entry.plugin->file(),
           entry.table->suffix);
  TextFileFinder finder(format);
  for (const std::string& word : words) finder.take_word(word);
  finder.require_files();
  return std::move(finder.result);
}

}  // namespace lockstep
