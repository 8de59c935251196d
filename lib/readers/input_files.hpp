// Finds the files of a corpus: turns words of the command line (files, globs, folders, objects of object stores) into
// an ordered list of files. Reading them: readers/block_reader.hpp.
#pragma once

#include "base/files.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// .txt: each file is one document. All other formats have a document in each record and are read as JSON lines.
enum class TextFormat { text, json_lines, json, csv, tsv, parquet, arrow, plugin };
// By the suffix .gz, .zst, .bz2 or .xz; Parquet and Arrow files have none.
enum class Compression { none, gzip, zstd, bzip2, xz };

struct InputFile {
  Path path;
  TextFormat format = TextFormat::text;
  Compression compression = Compression::none;
  std::uint64_t bytes = 0;                     // on disk
  std::int64_t modified_ns = 0;                // of an object of a store, whose URI is `path`; else 0
  std::string called = {};                     // of a copy: the name of the original, for messages
  std::optional<TextFormat> copied_from = {};  // of a copy as JSON lines: the format of the original
  std::size_t reader = 0;                      // of format plugin: number of the reader (readers/plugin_reader.hpp)

  bool is_copy() const { return !called.empty(); }
  std::string name() const { return called.empty() ? path.string() : called; }
  bool has_records() const { return format != TextFormat::text; }
  /// Whether its text equals its bytes on disk, so that reading may begin anywhere.
  bool is_plain() const {
    return compression == Compression::none && (format == TextFormat::text || format == TextFormat::json_lines);
  }
  /// "FILE:LINE" for formats read line by line; "FILE: record N" for formats whose records are not lines of the file.
  std::string place(std::int64_t line) const;
};

struct InputFiles {
  std::vector<InputFile> files;
  std::vector<std::string> notes;  // for the log: files that were skipped in folders and globs
};

/// The format that a name indicates, with or without a suffix of compression. Nothing for other types, hidden files,
/// and files that describe a dataset (dataset_info.json …). If `format` is set: that format, unless the name
/// contradicts it.
std::optional<TextFormat> format_by_name(const Path& name, std::optional<TextFormat> format = {});

/// Lists the files in the order of the words. Files of a folder (including its sub-folders; links are followed) or of a
/// glob are sorted by path, bytewise. A note reports files skipped there: other types, hidden and empty files, and
/// links that lead nowhere or back to a folder above them. An empty file that is named itself is skipped with a note,
/// too; a named file of another type is refused. If `format` is set, all files have this format, unless their names
/// contradict it: .txt may stand for any text format, and .json and .jsonl for each other. Local. Throws Error(input)
/// if a word names nothing, or if no file contains text; Error(storage).
InputFiles find_inputs(const std::vector<std::string>& words, std::optional<TextFormat> format = {});

}  // namespace lockstep
