#include "corpus/input_files.hpp"

#include "base/error.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace lockstep {

namespace {

constexpr const char* supported = "supported are .txt and .jsonl, plain or followed by .gz or .zst";

std::optional<InputFile> classified(const Path& path) {
  InputFile file{path, TextFormat::text, Compression::none, 0};
  Path name = path.filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") {
    file.compression = name.extension() == ".gz" ? Compression::gzip : Compression::zstd;
    name = name.stem();
  }
  if (name.extension() != ".txt" && name.extension() != ".jsonl") return std::nullopt;
  file.format = name.extension() == ".txt" ? TextFormat::text : TextFormat::json_lines;
  return file;
}

/// What to type for a file of a type that is often met.
std::string conversion_of(const Path& path) {
  const std::string from = path.string();
  const std::string to = Path(path).replace_extension(".jsonl").string();
  if (path.extension() == ".json") return fmt::format("for an array of objects: jq -c '.[]' {} > {}", from, to);
  if (path.extension() == ".tsv")
    return fmt::format("for text in the first column: jq -Rc 'split(\"\\t\") | {{text: .[0]}}' {} > {}", from, to);
  if (path.extension() == ".csv") {
    const std::string program = "import csv, json, sys; [print(json.dumps(row)) for row in csv.DictReader(sys.stdin)]";
    return fmt::format("for columns with names: python3 -c '{}' < {} > {}, then --data.text_field COLUMN", program,
                       from, to);
  }
  return supported;
}

/// What is passed over, by reason.
class PassedOver {
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
         {"link that leads nowhere", "links that lead nowhere"},
         {"link back to a folder above it", "links back to folders above them"}}};
    for (std::size_t reason = 0; reason < entries_.size(); ++reason) {
      const Entry& entry = entries_[reason];
      if (entry.count == 0) continue;
      notes.push_back(fmt::format("{}: passed over {} {}, {} first", word, entry.count,
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

class Finder {
 public:
  void take_word(const std::string& word) {
    PassedOver passed_over;
    const std::size_t before = result.files.size();
    const auto status = status_of(word);
    if (status && S_ISDIR(status->st_mode)) {
      std::vector<InputFile> files;
      collect(word, *status, files, passed_over);
      take_all(word, std::move(files), passed_over);
    } else if (status) {
      take_named(word, *status, passed_over);
    } else if (word.find_first_of("*?[") != std::string::npos) {
      std::vector<InputFile> files;
      for (const Path& path : matches_of(word)) offer(path, files, passed_over);
      take_all(word, std::move(files), passed_over);
    } else {
      fail(ExitCode::input, "cannot open {}: no such file or folder", word);
    }
    passed_over.note(word, result.notes);
    if (result.files.size() == before) first_empty_ = passed_over.first_of(PassedOver::empty);
  }

  void require_files() const {
    if (!result.files.empty()) return;
    if (first_empty_.empty()) fail(ExitCode::input, "no input is named");
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
  void offer(const Path& path, std::vector<InputFile>& files, PassedOver& passed_over) {
    if (path.filename().string().starts_with('.')) return passed_over.add(PassedOver::hidden, path);
    const auto status = status_of(path);
    if (!status) return passed_over.add(PassedOver::leads_nowhere, path);
    if (S_ISDIR(status->st_mode)) return collect(path, *status, files, passed_over);
    auto file = S_ISREG(status->st_mode) ? classified(path) : std::nullopt;
    if (!file) return passed_over.add(PassedOver::other_type, path);
    if (status->st_size == 0) return passed_over.add(PassedOver::empty, path);
    file->bytes = static_cast<std::uint64_t>(status->st_size);
    files.push_back(std::move(*file));
  }

  void collect(const Path& folder, const struct stat& status, std::vector<InputFile>& files, PassedOver& passed_over) {
    const Folder self{status.st_dev, status.st_ino};
    if (std::ranges::find(above_, self) != above_.end()) return passed_over.add(PassedOver::leads_back, folder);
    above_.push_back(self);
    for (const Path& entry : list_folder(folder)) offer(entry, files, passed_over);
    above_.pop_back();
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

  void take_named(const Path& path, const struct stat& status, PassedOver& passed_over) {
    if (!S_ISREG(status.st_mode)) {
      throw Error(ExitCode::input, fmt::format("cannot read {} as a corpus: it is not a regular file", path.string()),
                  "prepare-data - reads standard input");
    }
    auto file = classified(path);
    if (!file) {
      throw Error(ExitCode::input, fmt::format("cannot read {} as a corpus: its type is not known", path.string()),
                  conversion_of(path));
    }
    if (status.st_size == 0) return passed_over.add(PassedOver::empty, path);
    file->bytes = static_cast<std::uint64_t>(status.st_size);
    result.files.push_back(std::move(*file));
  }

  void take_all(const std::string& word, std::vector<InputFile> files, const PassedOver& passed_over) {
    if (files.empty() && passed_over.first_of(PassedOver::empty).empty()) {
      const std::string& other = passed_over.first_of(PassedOver::other_type);
      throw Error(ExitCode::input, fmt::format("{} holds no text to prepare", word),
                  other.empty() ? supported : conversion_of(other));
    }
    std::ranges::sort(files, {}, [](const InputFile& file) { return file.path.string(); });
    for (InputFile& file : files) result.files.push_back(std::move(file));
  }

  std::vector<Folder> above_;  // the folders on the way to the one that is listed
  std::string first_empty_;
};

}  // namespace

InputFiles find_inputs(const std::vector<std::string>& words) {
  Finder finder;
  for (const std::string& word : words) finder.take_word(word);
  finder.require_files();
  return std::move(finder.result);
}

}  // namespace lockstep
