// Tokens between the two halves of preparation: each rank writes those of its blocks to spills, in the order of its
// blocks, and reads them again as it writes its parts of the shards. Which blocks are in a spill: data/spill_units.hpp.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "corpus/normal_hash.hpp"

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

/// The files of a spill: tokens, mask, fragments, normal hashes. Pure.
std::vector<Path> spill_files(const Path& folder, const std::string& name);

class SpillWriter {
 public:
  /// New files in `folder`. Throws Error(storage).
  SpillWriter(const Path& folder, const std::string& name, int token_bytes);
  /// Fills in the block's place in the spill. `mask`: of each token, in all blocks or in none; `normals`: of each
  /// fragment, likewise. Throws Error(storage).
  void append(TokenizedBlock& block, std::span<const std::byte> packed_tokens, std::span<const std::uint8_t> mask,
              std::span<const Fragment> fragments, std::span<const NormalHash> normals);
  /// Makes all of it durable; the hashes of spill_files. Throws Error(storage).
  std::vector<Hash128> finish();

 private:
  struct Stream {
    Path path;
    FileDescriptor file;
    std::uint64_t written = 0;
    std::vector<std::byte> buffer;
    StreamHash hash = {};
    void put(std::span<const std::byte> bytes);
    void write(std::span<const std::byte> bytes);
    void flush();
  };
  int token_bytes_;
  Stream tokens_;
  Stream mask_;
  Stream fragments_;
  Stream normals_;
  std::uint64_t token_count_ = 0;
  std::uint64_t fragment_count_ = 0;
};

/// A finished spill as a part of what a rank has: where it begins in that.
struct SpillPart {
  Path folder;
  std::string name;
  std::uint64_t first_token = 0;
  std::uint64_t first_fragment = 0;
};

/// All that a rank has, in the order of its spills. Its functions throw Error(storage) if a spill cannot be read.
class SpillReader {
 public:
  SpillReader(const std::vector<SpillPart>& parts, int token_bytes);
  void copy_tokens(std::uint64_t first, std::span<std::uint32_t> out) const;  // of one block
  /// Of tokens of one block, where they were written with one.
  void copy_mask(std::uint64_t first, std::span<std::uint8_t> out) const;
  std::vector<Fragment> fragments(std::uint64_t first, std::uint64_t count) const;  // of one block

 private:
  struct Part {
    std::uint64_t first_token = 0;
    std::uint64_t first_fragment = 0;
    MappedFile tokens;
    MappedFile mask;
    MappedFile fragments;
  };
  const Part& part_at(std::uint64_t token) const;
  int token_bytes_;
  std::vector<Part> parts_;
};

/// What a spill says of its fragments, without tokens.
struct SpilledFragments {
  std::vector<Fragment> fragments;
  std::vector<NormalHash> normals;  // empty where documents are not compared
};
/// Throws Error(storage).
SpilledFragments read_fragments(const Path& folder, const std::string& name);

}  // namespace lockstep
