// A part: one HDF5 file with pieces of tensors, each a typed contiguous dataset, and a table of itself in /_index. The
// library lays the file out; the bytes are written at the datasets' offsets; the eight bytes that make it an HDF5 file
// come last, so a part that was cut short does not open. Several ranks may write one part. Which pieces go where:
// store/checkpoint_plan.hpp; the pass over their bytes: store/piece_pass.hpp.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "layout/dtype.hpp"
#include "store/fingerprint.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

inline constexpr std::uint64_t page_bytes = 4096;      // pieces of a page and more begin at a multiple of it
inline constexpr std::uint64_t block_bytes = 8 << 20;  // pieces are hashed, checked and read in blocks of this size

struct PartPiece {
  std::string tensor;  // full name: "model/wte.weight"
  Shape global;        // of the logical tensor
  DType dtype = DType::f32;
  Box box;  // what of it this piece is
};
std::uint64_t bytes_of(const PartPiece& piece);
std::string dataset_of(const PartPiece& piece);  // "/model/wte.weight/0:8,0:4"

struct PieceRecord {
  std::uint64_t offset = 0;     // of the piece in its file
  std::vector<Hash128> blocks;  // XXH3-128 of each block_bytes of the piece
  Fingerprint fingerprint;      // the piece's share
};

struct StampedPart {
  std::vector<std::uint64_t> offsets;  // of each piece
  std::uint64_t table_offset = 0;      // of /_index
  std::uint64_t bytes = 0;             // of the whole file, whose room is taken
};
/// Lays out a new part and takes its room on the disk. The file is not HDF5 yet, nor durable. Throws Error(storage).
StampedPart stamp_part(const Path& path, std::span<const PartPiece> pieces);

/// A stamped part, open for the bytes of its pieces. Each rank of a shared part has its own.
class PartFile {
 public:
  /// Cache says whether whole pages of aligned memory go around the page cache, where the file system can. The bytes of
  /// the file are the same.
  enum class Cache { around, through };
  /// Throws Error(storage).
  explicit PartFile(Path path, Cache cache = Cache::around);
  /// The alignment that memory must have to go around the page cache; 0 where nothing does.
  std::uint64_t direct_alignment() const { return direct_alignment_; }
  /// Writes as many of `bytes` as can go around the page cache, and returns that number: the whole pages of aligned
  /// memory. The others go through it, best later: a write through the cache waits for those around it that are under
  /// way. Safe from several threads. Both throw Error(storage).
  std::uint64_t write_around(std::span<const std::byte> bytes, std::uint64_t offset) const;
  void write_through(std::span<const std::byte> bytes, std::uint64_t offset) const {
    write_at(buffered_, bytes, offset, path_);
  }
  /// Makes what was written durable. Throws Error(storage); the part is then lost, a second try would lie.
  void finish();

 private:
  Path path_;
  FileDescriptor buffered_;
  FileDescriptor direct_;
  std::uint64_t direct_alignment_ = 0;
};

struct SealedPart {
  std::uint64_t bytes = 0;
  Hash128 hash;  // part_hash
};

/// Writes the table, then, once that is durable, the signature. All writers must have finished. Throws Error(storage),
/// also if the file has another length than it was stamped with.
SealedPart seal_part(const Path& path, std::span<const PartPiece> pieces, std::span<const PieceRecord> records,
                     const StampedPart& stamped);

/// XXH3-128 over the file in order, where each block of a piece is replaced by its own hash (16 bytes, little-endian,
/// high half first). With `check`, pieces are read and their blocks hashed anew: it is called for each block with its
/// true hash; without, the records count. Throws Error(input) if the file ends early.
using BlockCheck =
    std::function<void(std::size_t piece, std::size_t block, std::span<const std::byte> bytes, const Hash128& hash)>;
Hash128 part_hash(const Path& path, std::span<const PartPiece> pieces, std::span<const PieceRecord> records,
                  const BlockCheck& check = {});

struct PartTable {
  std::vector<PartPiece> pieces;
  std::vector<PieceRecord> records;
};
/// A table is what a sealed part says of itself. Throws Error(input).
PartTable read_part_table(const Path& path);

}  // namespace lockstep
