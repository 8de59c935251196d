// A corpus as a sequence of blocks of text of bounded size, in input order: whole lines of a .jsonl file, or a part of
// the one document of a .txt file. Where blocks end depends on the bytes alone, so any number of threads and ranks sees
// the same blocks. What documents a block of JSON lines holds: corpus/json_lines.hpp.
#pragma once

#include "base/hash.hpp"
#include "corpus/byte_reader.hpp"
#include "corpus/input_files.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct TextBlock {
  static constexpr std::size_t room_behind = 64;  // bytes that can be appended to the text without a copy of it

  std::int64_t index = 0;  // within the corpus
  const InputFile* file = nullptr;
  std::int64_t first_line = 1;  // of the block in its file, from 1
  std::string text;
  // Of .txt:
  bool begins_document = false;
  bool ends_document = false;
  Hash128 document_hash;  // of the whole document, in the block that ends it
};

/// Where a document may be cut: the largest p ≤ text.size(), or 0 (corpus/tokenizer.hpp, last_cut).
using LastCut = std::function<std::size_t(std::string_view text)>;

class BlockReader {
 public:
  static constexpr std::size_t block_bytes = std::size_t{1}
                                             << 18;  // of a block, unless a line or an uncuttable document is longer

  static constexpr std::size_t most_bytes = std::size_t{1}
                                            << 30;  // of a line or a document that cannot be cut: all of it is held

  /// `files` outlive the reader and its blocks.
  BlockReader(const std::vector<InputFile>& files, LastCut last_cut, std::size_t longest = most_bytes);
  ~BlockReader();
  /// The next block; false at the end. Throws as ByteReader does, and Error(input) "FILE:LINE: …" for more than
  /// `longest` bytes without a cut.
  bool next(TextBlock& block);
  /// Files that proved to hold nothing: their compressed data, or what follows a byte order mark.
  const std::vector<std::string>& empty_files() const { return empty_files_; }
  /// Bytes on disk read so far, of all files.
  std::uint64_t consumed() const;

 private:
  bool open_next_file();
  void grow(std::size_t bytes);
  std::size_t cut_of_pending() const;
  void cut_block(TextBlock& block, std::size_t size);

  const std::vector<InputFile>& files_;
  LastCut last_cut_;
  std::size_t longest_;
  std::size_t next_file_ = 0;
  const InputFile* file_ = nullptr;
  std::unique_ptr<ByteReader> bytes_;
  std::uint64_t consumed_before_ = 0;
  std::vector<std::string> empty_files_;
  std::string pending_;  // read, not yet given out
  bool at_end_ = false;  // of the file
  bool begun_ = false;   // a block of the file was given out
  std::int64_t line_ = 1;
  std::int64_t index_ = 0;
  StreamHash hash_;
};

/// Throws Error(input) "FILE:LINE: …" if the text is not valid UTF-8.
void require_utf8(const TextBlock& block);

}  // namespace lockstep
