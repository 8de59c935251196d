// Tokens between the two halves of preparation: each rank writes those of its blocks to a file of its own, in the order
// of its blocks, and reads them again as it writes its parts of the shards. Lives in the staging folder of the dataset.
#pragma once

#include "base/files.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// A document, a sample made of a record, or the part of a document that a block holds.
struct Fragment {
  std::uint64_t tokens = 0;
  std::uint64_t text_bytes = 0;
  std::uint64_t draw = 0;  // of a whole document's content: decides hash:FRACTION; of a part: its content_sum
};

/// A block of the corpus, tokenized. Fragments of JSON lines are whole documents; a block of .txt has one fragment.
struct TokenizedBlock {
  std::uint64_t first_token = 0;  // within the rank's spill
  std::uint64_t tokens = 0;
  std::uint64_t first_fragment = 0;
  std::uint64_t fragments = 0;
  bool whole_documents = false;  // else a part of a .txt document:
  bool begins_document = false;
  bool malformed = false;
  bool left_out = false;   // the document, once all its blocks are known
  std::uint64_t draw = 0;  // of the document, likewise
};

/// Appends tokens as a spill holds them: in `token_bytes` each, 2 or 4.
void pack_tokens(std::span<const std::int32_t> tokens, int token_bytes, std::vector<std::byte>& packed);

class SpillWriter {
 public:
  /// New files for `rank` in `folder`. Throws Error(storage).
  SpillWriter(const Path& folder, int rank, int token_bytes);
  /// Fills in the block's place in the spill. `mask`: of each token, in all blocks or in none. Throws Error(storage).
  void append(TokenizedBlock& block, std::span<const std::byte> packed_tokens, std::span<const std::uint8_t> mask,
              std::span<const Fragment> fragments);
  /// Hands the rest to the system. Throws Error(storage).
  void finish();

 private:
  struct Stream {
    Path path;
    FileDescriptor file;
    std::uint64_t written = 0;
    std::vector<std::byte> buffer;
    void put(std::span<const std::byte> bytes);
    void write(std::span<const std::byte> bytes);
    void flush();
  };
  int token_bytes_;
  Stream tokens_;
  Stream mask_;
  Stream fragments_;
  std::uint64_t token_count_ = 0;
  std::uint64_t fragment_count_ = 0;
};

/// The finished spill of a rank.
class SpillReader {
 public:
  SpillReader(const Path& folder, int rank, int token_bytes);
  void copy_tokens(std::uint64_t first, std::span<std::uint32_t> out) const;
  /// Of tokens, where they were written with one.
  void copy_mask(std::uint64_t first, std::span<std::uint8_t> out) const;
  Fragment fragment(std::uint64_t index) const;

 private:
  int token_bytes_;
  MappedFile tokens_;
  MappedFile mask_;
  MappedFile fragments_;
};

}  // namespace lockstep
