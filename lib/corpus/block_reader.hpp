// A part of a corpus as a sequence of blocks of text: whole lines of a .jsonl file, or a part of the one document of a
// .txt file. Block k of a file is what begins in its bytes [k·S, (k+1)·S), S = block_bytes: where blocks begin is found
// in the bytes around k·S alone, so a reader may begin with any block, and all readers see the same blocks. Who reads
// which: corpus/input_parts.hpp. What documents a block of JSON lines holds: corpus/json_lines.hpp.
#pragma once

#include "corpus/bad_text.hpp"
#include "corpus/byte_reader.hpp"
#include "corpus/input_files.hpp"
#include "corpus/input_parts.hpp"

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
  ReadContent content = {};      // of a plain file: its bytes, and what was passed over before it
  bool begins_document = false;  // of .txt; others go on with the document of the block before
};

/// Where a text may be cut, whatever stands before it and behind it: the largest p ≤ text.size(), or 0
/// (corpus/tokenizer.hpp, last_cut).
using LastCut = std::function<std::size_t(std::string_view text)>;

class BlockReader {
 public:
  static constexpr std::size_t block_bytes = input_block_bytes;  // of a block, unless a line or an uncuttable document
                                                                 // is longer
  static constexpr std::size_t look_ahead = std::size_t{1} << 14;  // bytes in which a .txt document is cut, at each k·S

  static constexpr std::size_t most_bytes = std::size_t{1}
                                            << 30;  // of a line or a document that cannot be cut: all of it is held

  /// `files` outlive the reader and its blocks.
  BlockReader(const std::vector<InputFile>& files, std::vector<InputPart> parts, LastCut last_cut,
              std::size_t longest = most_bytes);
  ~BlockReader();
  /// The next block; false at the end. Throws as ByteReader does, and BadText for more than `longest` bytes without a
  /// cut.
  bool next(TextBlock& block);
  /// Warnings about files that begin in these parts: that they proved to hold nothing (their compressed data, or what
  /// follows a byte order mark), or that bytes behind their compressed data were ignored.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Bytes on disk read so far, of all files.
  std::uint64_t consumed() const { return consumed_before_ + (bytes_ ? bytes_->consumed() : 0); }
  /// Of them, those of the input itself: not of copies (InputFile::called).
  std::uint64_t input_consumed() const;
  /// What was read, by file, once next() has returned false: of all readers together it is the bytes of plain files,
  /// and of others those that their decoders took.
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
  ReadContent passed_over_;    // in front of the next block
  std::string held_;           // read, not yet given out
  std::uint64_t held_at_ = 0;  // its place in the file: there the next block begins
  bool at_end_ = false;        // nothing of the file is behind what is held
  bool begins_document_ = false;
};

/// Throws BadText if the text is not valid UTF-8.
void require_utf8(const TextBlock& block);

}  // namespace lockstep
