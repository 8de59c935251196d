// Reads a part of a corpus as a sequence of blocks of text: whole lines of a .jsonl file, or a part of the one document
// of a .txt file. Block k of a file holds the text that begins in its bytes [k·S, (k+1)·S), S = block_bytes. The bytes
// around k·S suffice to find where it begins, so a reader may start at any block and all readers see the same blocks.
// How ranks divide a corpus: readers/input_parts.hpp. Documents in a block of JSON lines: readers/json_lines.hpp.
#pragma once

#include "readers/bad_text.hpp"
#include "readers/byte_reader.hpp"
#include "readers/input_files.hpp"
#include "readers/input_parts.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct TextBlock {
  static constexpr std::size_t room_behind = 64;  // bytes that can be appended to the text without a copy of it

  const InputFile* file = nullptr;
  std::uint64_t offset = 0;  // of the text in the decompressed file
  std::string text;
  ReadContent content = {};      // of a plain file: the block's bytes and the bytes skipped before it
  bool begins_document = false;  // of .txt; other blocks continue the document of the block before
};

/// Returns where a text may be cut for any text before and after it: the largest p ≤ text.size(), or 0 if there is no
/// such place (Tokenizer::last_cut in tokenizer/tokenizer.hpp).
using LastCut = std::function<std::size_t(std::string_view text)>;

class BlockReader {
 public:
  static constexpr std::size_t block_bytes = input_block_bytes;    // longer if a line or an uncuttable document is
  static constexpr std::size_t look_ahead = std::size_t{1} << 14;  // bytes in which a .txt document is cut, at each k·S

  static constexpr std::size_t most_bytes = std::size_t{1} << 30;  // of a line or uncuttable document, held in memory

  /// `files` must outlive the reader and its blocks.
  BlockReader(const std::vector<InputFile>& files, std::vector<InputPart> parts, LastCut last_cut,
              std::size_t longest = most_bytes);
  ~BlockReader();
  /// Reads the next block; false at the end. Throws as ByteReader does, and BadText if more than `longest` bytes have
  /// no cut.
  bool next(TextBlock& block);
  /// Warnings about files that begin in these parts: files whose data is empty (when decompressed, or after a byte
  /// order mark), and bytes after compressed data that were ignored.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Bytes on disk read so far, of all files.
  std::uint64_t consumed() const { return consumed_before_ + (bytes_ ? bytes_->consumed() : 0); }
  /// As consumed(), but without the bytes of copies (InputFile::called).
  std::uint64_t input_consumed() const;
  /// Bytes read and their content sums, by file; complete once next() has returned false. Summed over all readers: all
  /// bytes of plain files, and the bytes that the decoders of other files have read.
  const std::vector<ReadContent>& contents() const { return contents_; }

 private:
  bool open_next_part();
  void open_at(std::uint64_t offset);
  void close();
  bool part_is_done();
  void skip_to_first_line();
  void skip_to_first_cut();
  void hold(std::uint64_t end);
  void drop_before(std::uint64_t offset);
  std::uint64_t held_end() const { return held_at_ + held_.size(); }
  std::uint64_t part_end() const;
  std::uint64_t end_of_lines();
  std::uint64_t end_of_text();
  std::optional<std::uint64_t> cut_at(std::uint64_t boundary) const;

  const std::vector<InputFile>& files_;
  std::vector<InputPart> parts_;
  LastCut last_cut_;
  std::size_t longest_;
  std::size_t next_part_ = 0;
  InputPart part_;
  const InputFile* file_ = nullptr;
  std::unique_ptr<ByteReader> bytes_;
  std::uint64_t consumed_before_ = 0;
  std::uint64_t input_consumed_before_ = 0;
  std::vector<std::string> warnings_;
  std::vector<ReadContent> contents_;
  ReadContent passed_over_;    // before the next block
  std::string held_;           // read, but not yet returned
  std::uint64_t held_at_ = 0;  // offset of held_ in the file: the next block begins there
  bool at_end_ = false;        // the file ends with held_
  bool begins_document_ = false;
};

/// Throws BadText if the text is not valid UTF-8.
void require_utf8(const TextBlock& block);

}  // namespace lockstep
