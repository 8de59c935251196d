// Token files of other programs: which files an input consists of, their formats, and the place of the tokens. Starts
// of documents: exchange/document_index.hpp, and for MDS exchange/mds.hpp. How such files become a dataset:
// prepare/in_place.hpp.
#pragma once

#include "base/files.hpp"
#include "layout/dtype.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class TokenFormat { megatron, llmc, nanogpt, datatrove, mds };
std::string_view name_of(TokenFormat format);                          // "megatron", as in options
std::optional<TokenFormat> parse_token_format(std::string_view name);  // the inverse of name_of

/// A file of contiguous tokens; for MDS a shard, whose samples give the places of tokens.
struct TokenFile {
  TokenFormat format = TokenFormat::nanogpt;
  Path path;                 // holds the tokens
  Path index = {};           // index of documents; empty: end-of-text tokens separate them
  std::int64_t number = 0;   // MDS: of the shard in the index
  bool compressed = false;   // MDS: the whole file, by zstd
  DType dtype = DType::u16;  // except for MDS
  std::uint64_t offset = 0;  // bytes; of the first token
  std::int64_t tokens = 0;   // except for MDS
  std::uint64_t bytes = 0;   // length of the file at `path`
  std::string called = {};   // for a copy: name of the original, for messages

  std::string name() const { return called.empty() ? path.string() : called; }
};

struct TokenFiles {
  std::vector<TokenFile> files;    // in the order of the words
  std::vector<std::string> notes;  // for the log
};

/// Finds the token files that the words name: files, Megatron's prefixes, globs, and folders without their subfolders.
/// In a folder or glob, files are ordered by name. Without `format`, content decides; returns nothing if no word names
/// token files. Reads headers only. Local. Throws Error(input), naming the file, for a word that names nothing, for
/// files that are incomplete or not in `format`, and if only some words name token files; Error(storage).
std::optional<TokenFiles> find_token_files(const std::vector<std::string>& words, std::optional<TokenFormat> format);

}  // namespace lockstep
