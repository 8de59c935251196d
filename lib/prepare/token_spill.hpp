// Spills hold tokens between the two halves of preparation: each rank writes the tokens of its blocks to spills, in
// order, and reads them again when it writes its parts of the shards. The blocks of a spill: prepare/spill_units.hpp.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "prepare/normal_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Fragment is a document, a sample made from a record, or the part of a document in a block.
struct Fragment {
  std::uint64_t tokens = 0;
  std::uint64_t text_bytes = 0;
  // of a whole document: a hash of its content that decides hash:FRACTION; of a part: its content_sum
  std::uint64_t draw = 0;
};

/// TokenizedBlock is a tokenized block of the corpus. Fragments of JSON lines are whole documents; a block of .txt has
/// one fragment.
struct TokenizedBlock {
  std::uint64_t first_token = 0;  // position in the rank's spill
  std::uint64_t tokens = 0;
  std::uint64_t first_fragment = 0;
  std::uint64_t fragments = 0;
  bool whole_documents = false;  // false: a part of a .txt document
  bool begins_document = false;
  bool malformed = false;
  bool left_out = false;   // the document is left out; known after all its blocks
  std::uint64_t draw = 0;  // of the document; known after all its blocks
};

/// Appends tokens to `packed` as a spill stores them, in token_bytes bytes each, 2 or 4.
void pack_tokens(std::span<const std::int32_t> tokens, int token_bytes, std::vector<std::byte>& packed);

/// Returns the files of a spill: tokens, mask, fragments, normal hashes. Pure.
std::vector<Path> spill_files(const Path& folder, const std::string& name);

class SpillWriter {
 public:
  /// Creates the files in `folder`. Throws Error(storage).
  SpillWriter(const Path& folder, const std::string& name, int token_bytes);
  /// Appends a block and stores its position in `block`. `mask` has a value for each token, in all blocks or in none;
  /// `normals` has one for each fragment, likewise. Throws Error(storage).
  void append(TokenizedBlock& block, std::span<const std::byte> packed_tokens, std::span<const std::uint8_t> mask,
              std::span<const Fragment> fragments, std::span<const NormalHash> normals);
  /// Makes the files durable and returns the hashes of spill_files. Throws Error(storage).
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

/// SpillPart is a finished spill, and its position among all spills of the rank.
struct SpillPart {
  Path folder;
  std::string name;
  std::uint64_t first_token = 0;
  std::uint64_t first_fragment = 0;
};

/// SpillReader reads all spills of a rank, in order. Its functions throw Error(storage) if a spill cannot be read.
class SpillReader {
 public:
  SpillReader(const std::vector<SpillPart>& parts, int token_bytes);
  void copy_tokens(std::uint64_t first, std::span<std::uint32_t> out) const;  // within one block
  /// Copies the mask of tokens within one block, which must have been written with a mask.
  void copy_mask(std::uint64_t first, std::span<std::uint8_t> out) const;
  std::vector<Fragment> fragments(std::uint64_t first, std::uint64_t count) const;  // within one block

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

/// SpilledFragments are the fragments of a spill, without tokens.
struct SpilledFragments {
  std::vector<Fragment> fragments;
  std::vector<NormalHash> normals;  // empty if documents are not compared
};
/// Reads the fragments of a spill. Throws Error(storage).
SpilledFragments read_fragments(const Path& folder, const std::string& name);

}  // namespace lockstep
