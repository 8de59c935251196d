// Which files a corpus consists of, and in which order: words of the command line (files, globs, folders, objects of
// stores) to a list of files. Reading them: corpus/block_reader.hpp.
#pragma once

#include "base/files.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// .txt: one document a file; the others: a record a document, which all are read as JSON lines
enum class TextFormat { text, json_lines, json, csv, tsv, parquet, arrow, plugin };
enum class Compression { none, gzip, zstd, bzip2, xz };  // .gz, .zst, .bz2, .xz behind what is not Parquet or Arrow

struct InputFile {
  Path path;
  TextFormat format = TextFormat::text;
  Compression compression = Compression::none;
  std::uint64_t bytes = 0;                     // on disk
  std::int64_t modified_ns = 0;                // of an object of a store, which its path is the URI of; else 0
  std::string called = {};                     // in messages, of a copy of the input: what was copied
  std::optional<TextFormat> copied_from = {};  // of a copy as JSON lines: the form of what it is a copy of
  std::size_t reader = 0;                      // of format plugin: which one (corpus/plugin_reader.hpp)

  bool is_copy() const { return !called.empty(); }
  std::string name() const { return called.empty() ? path.string() : called; }
  bool has_records() const { return format != TextFormat::text; }
  /// Whether its bytes are what is read of it, so that reading may begin anywhere.
  bool is_plain() const {
    return compression == Compression::none && (format == TextFormat::text || format == TextFormat::json_lines);
  }
  /// "FILE:LINE" of a line as it is read; "FILE: record N" where records are no lines of the file.
  std::string place(std::int64_t line) const;
};

struct InputFiles {
  std::vector<InputFile> files;
  std::vector<std::string> notes;  // what was passed over in folders and globs, for the log
};

/// What a file of that name holds, compressed or not; nothing for other types, hidden files, and what describes data.
/// With a format: that, unless the name says another one.
std::optional<TextFormat> form_by_name(const Path& name, std::optional<TextFormat> format = {});

/// The files in the order of the words; within a folder (with all its sub-folders, links followed) or a glob sorted by
/// path, bytewise. What is passed over there has a note: files of other types, hidden and empty ones, links that lead
/// nowhere or back to a folder above them. Empty files that are named themselves are, too; a file of another type is
/// refused. With a format, files of any name are of this one, unless their name says another: .txt may stand for any
/// format of text, and .json and .jsonl for each other. Local. Throws Error(input) for a word that names nothing, and
/// if there is no file with text at all; Error(storage).
InputFiles find_inputs(const std::vector<std::string>& words, std::optional<TextFormat> format = {});

}  // namespace lockstep
