// Token files of other programs: which files a corpus consists of, of which format each is, and where in it tokens lie.
// Where documents start: exchange/document_index.hpp, and for MDS exchange/mds.hpp. How such files become a dataset:
// data/in_place.hpp.
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
std::string_view name_of(TokenFormat format);                          // "megatron": the word of options
std::optional<TokenFormat> parse_token_format(std::string_view name);  // the inverse of name_of

/// A file with tokens, one after the other; of MDS a shard, whose samples tell where they lie.
struct TokenFile {
  TokenFormat format = TokenFormat::nanogpt;
  Path path;                 // that holds the tokens
  Path index = {};           // that tells of documents; empty: end-of-text tokens do
  std::int64_t number = 0;   // MDS: of the shard in the index
  bool compressed = false;   // MDS: the whole file, by zstd
  DType dtype = DType::u16;  // unless MDS
  std::uint64_t offset = 0;  // of the first token
  std::int64_t tokens = 0;   // unless MDS
  std::uint64_t bytes = 0;   // of the file at `path`
  std::string called = {};   // in messages, of a copy: what was copied

  std::string name() const { return called.empty() ? path.string() : called; }
};

struct TokenFiles {
  std::vector<TokenFile> files;    // in the order of the words
  std::vector<std::string> notes;  // for the log
};

/// The token files that the words (files, Megatron's prefixes, globs, folders without those below) name; within a
/// folder or a glob in the order of names. Without `format` by their content: nothing if no word names one. Reads
/// headers only. Local. Throws Error(input), naming the file, for a word that names nothing, for files that are no
/// whole ones of their format or that `format` does not describe, for words of which some name other files;
/// Error(storage).
std::optional<TokenFiles> find_token_files(const std::vector<std::string>& words, std::optional<TokenFormat> format);

}  // namespace lockstep
