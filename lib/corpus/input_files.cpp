#include "corpus/input_files.hpp"

#include "base/error.hpp"
#include "base/words.hpp"

#include <glob.h>

#include <algorithm>
#include <filesystem>
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

class Finder {
 public:
  void take_word(const std::string& word) {
    if (is_folder(word)) {
      take_all(word, files_below(word));
    } else if (is_there(word)) {
      const auto file = classified(word);
      if (!file)
        throw Error(ExitCode::input, fmt::format("cannot read {} as a corpus: its type is not known", word), supported);
      take(*file);
    } else if (word.find_first_of("*?[") != std::string::npos) {
      take_all(word, matches_of(word));
    } else {
      fail(ExitCode::input, "cannot open {}: no such file or folder", word);
    }
  }

  InputFiles result;

 private:
  static std::vector<Path> files_below(const Path& folder) {
    std::vector<Path> paths;
    for (const Path& entry : list_folder(folder)) {
      if (kind_of_name(entry) == FileKind::folder) {
        const bool hidden = entry.filename().string().starts_with('.');
        const auto below = hidden ? std::vector<Path>() : files_below(entry);
        paths.insert(paths.end(), below.begin(), below.end());
      } else if (!is_folder(entry)) {
        paths.push_back(entry);
      }
    }
    return paths;
  }

  static std::vector<Path> matches_of(const std::string& pattern) {
    glob_t found{};
    const int error = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
    std::vector<Path> paths;
    for (std::size_t i = 0; error == 0 && i < found.gl_pathc; ++i) {
      const Path path = found.gl_pathv[i];
      if (is_folder(path)) {
        const auto below = files_below(path);
        paths.insert(paths.end(), below.begin(), below.end());
      } else {
        paths.push_back(path);
      }
    }
    ::globfree(&found);
    if (error != 0) fail(ExitCode::input, "no file matches {}", pattern);
    return paths;
  }

  void take(InputFile file) {
    std::error_code error;
    file.bytes = std::filesystem::file_size(file.path, error);
    if (error) fail(ExitCode::storage, "cannot read {}: {}", file.path.string(), error.message());
    if (file.bytes == 0) fail(ExitCode::input, "{} is empty", file.path.string());
    result.files.push_back(std::move(file));
  }

  void take_all(const std::string& word, std::vector<Path> paths) {
    std::ranges::sort(paths, {}, [](const Path& path) { return path.string(); });
    std::vector<std::string> passed_over;
    const std::size_t before = result.files.size();
    for (const Path& path : paths) {
      const bool hidden = path.filename().string().starts_with('.');
      const auto file = hidden ? std::nullopt : classified(path);
      if (file) {
        take(*file);
      } else {
        passed_over.push_back(path.string());
      }
    }
    if (result.files.size() == before)
      throw Error(ExitCode::input, fmt::format("{} holds no text to prepare", word), supported);
    if (!passed_over.empty()) {
      result.notes.push_back(fmt::format("{}: passed over {} of other types, {} first", word,
                                         counted(std::ssize(passed_over), "file"), passed_over.front()));
    }
  }
};

}  // namespace

InputFiles find_inputs(const std::vector<std::string>& words) {
  Finder finder;
  for (const std::string& word : words) finder.take_word(word);
  if (finder.result.files.empty()) fail(ExitCode::input, "no input is named");
  return std::move(finder.result);
}

}  // namespace lockstep
