// Which files a corpus consists of, and in which order: words of the command line (files, globs, folders) to a list of
// files. Reading them: corpus/block_reader.hpp.
#pragma once

#include "base/files.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

enum class TextFormat { text, json_lines };   // .txt: one document a file; .jsonl: one a line
enum class Compression { none, gzip, zstd };  // .gz, .zst behind the former

struct InputFile {
  Path path;
  TextFormat format = TextFormat::text;
  Compression compression = Compression::none;
  std::uint64_t bytes = 0;  // on disk
};

struct InputFiles {
  std::vector<InputFile> files;
  std::vector<std::string> notes;  // what was passed over in folders and globs, for the log
};

/// The files in the order of the words; within a folder (with all its sub-folders) or a glob sorted by path, bytewise.
/// Files of other types, and hidden ones, are passed over with a note there; one that is named itself is refused.
/// Local. Throws Error(input) for a word that names nothing, an unsupported or empty file, and if there is no file at
/// all.
InputFiles find_inputs(const std::vector<std::string>& words);

}  // namespace lockstep
