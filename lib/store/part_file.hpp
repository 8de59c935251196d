// A part: one HDF5 file with pieces of tensors, each a typed contiguous dataset or, if small, a stretch of one that
// small pieces of a type share, and a table of itself (store/part_table.hpp). The library lays the file out; the bytes
// are written at the datasets' offsets; the eight bytes that make it an HDF5 file come last, so a part that was cut
// short does not open. Several ranks may write one part. Which pieces go where: store/checkpoint_plan.hpp; the pass
// over their bytes: store/piece_pass.hpp.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "store/part_table.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

inline constexpr std::uint64_t page_bytes = 4096;  // datasets of a page and more begin at a multiple of it

struct StampedPart {
  PartTable table;          // without fingerprints and hashes
  TableColumns columns;     // where it lies
  std::uint64_t bytes = 0;  // of the whole file, whose room is taken
};
/// Lays out a new part and takes its room on the disk. The file is not HDF5 yet, nor durable. Throws Error(storage).
StampedPart stamp_part(const Path& path, std::span<const PartPiece> pieces);

/// An image is all that a part holds besides its pieces: what the library laid out, once, for all parts with the same
/// pieces.
struct PartImage {
  StampedPart stamped;
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> stretches;  // offset in the file, bytes
};
/// The image of a part that has just been stamped. Throws Error(storage).
PartImage image_of(const Path& path, StampedPart stamped);
/// A new part from an image, byte for byte as stamp_part makes it, without the library. Pieces may have been written to
/// the file before. Throws Error(storage).
void stamp_part(const Path& path, const PartImage& image);

/// A part, open for the bytes of its pieces, whether it is stamped already or another rank has still to do that. Each
/// rank of a shared part has its own.
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
  Hash128 hash;          // part_hash
  Hash128 table_hash;    // hash_of its table
  TableColumns columns;  // where that lies
};

/// Completes the table by the fingerprints and hashes of `records`, then, once that is durable, writes the signature.
/// All writers must have finished. Throws Error(storage), also if the file has another length than it was stamped with.
SealedPart seal_part(const Path& path, StampedPart stamped, std::span<const PieceRecord> records);

/// Reads the pieces of a part that has just been sealed anew, from the storage as far as the system lets go of what it
/// keeps in memory, and compares them with what was written. Throws Error(storage).
void read_back(const Path& path, const SealedPart& sealed, std::span<const PartPiece> pieces,
               std::span<const PieceRecord> records);

/// XXH3-128 over the file in order, where each block of a piece is replaced by its own hash (16 bytes, little-endian,
/// high half first). With `check`, pieces are read and their blocks hashed anew: it is called for each block with its
/// true hash; without, the records count. Throws Error(input) if the file ends early.
using BlockCheck =
    std::function<void(std::size_t piece, std::size_t block, std::span<const std::byte> bytes, const Hash128& hash)>;
Hash128 part_hash(const Path& path, std::span<const PartPiece> pieces, std::span<const PieceRecord> records,
                  const BlockCheck& check = {});

}  // namespace lockstep
