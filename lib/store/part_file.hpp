// A part is one HDF5 file with pieces of tensors and a table of itself (store/part_table.hpp). A piece is a typed
// contiguous dataset; small pieces of one type share a dataset. The HDF5 library lays out the file, and the bytes are
// written at the datasets' offsets. The eight bytes of the HDF5 signature are written last, so a part that was cut
// short does not open. Several ranks may write one part. The plan of pieces: store/checkpoint_plan.hpp. The pass over
// their bytes: store/piece_pass.hpp.
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

inline constexpr std::uint64_t page_bytes = 4096;  // datasets of a page or more begin at a multiple of it

struct StampedPart {
  PartTable table;          // without fingerprints and hashes
  TableColumns columns;     // position of the table
  std::uint64_t bytes = 0;  // of the whole file; its space is reserved
};
/// Lays out a new part and reserves its space on the disk. The file is not HDF5 yet, nor durable. Throws
/// Error(storage).
StampedPart stamp_part(const Path& path, std::span<const PartPiece> pieces);

/// The bytes of a part besides its pieces, as the library laid them out. One image serves all parts with the same
/// pieces.
struct PartImage {
  StampedPart stamped;
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> stretches;  // offset in the file, bytes
};
/// Returns the image of a part that has just been stamped. Throws Error(storage).
PartImage image_of(const Path& path, StampedPart stamped);
/// Creates a part from an image without the HDF5 library, with the same bytes as the other stamp_part. Pieces may
/// already be in the file. Throws Error(storage).
void stamp_part(const Path& path, const PartImage& image);

/// A part that is open for writing its pieces, whether or not it is stamped already. Each rank of a shared part has its
/// own object.
class PartFile {
 public:
  /// Says whether whole pages of aligned memory bypass the page cache (direct I/O), if the file system can. The bytes
  /// of the file are the same.
  enum class Cache { around, through };
  /// Opens or creates the part. Throws Error(storage).
  explicit PartFile(Path path, Cache cache = Cache::around);
  /// Returns the memory alignment in bytes that direct I/O needs; 0 if there is none.
  std::uint64_t direct_alignment() const { return direct_alignment_; }
  /// Writes as many of `bytes` as direct I/O can take, and returns that number: the whole pages of aligned memory.
  /// write_through writes the others, best later, because a write through the cache waits for direct writes in
  /// progress. Safe from several threads. Both throw Error(storage).
  std::uint64_t write_around(std::span<const std::byte> bytes, std::uint64_t offset) const;
  void write_through(std::span<const std::byte> bytes, std::uint64_t offset) const {
    write_at(buffered_, bytes, offset, path_);
  }
  /// Makes the written bytes durable. Throws Error(storage); the part is then lost, because a second fsync may report
  /// success although bytes are lost.
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
  TableColumns columns;  // position of the table
};

/// Completes the table with the fingerprints and hashes of `records`; once that is durable, writes the signature. All
/// writers must have finished. Throws Error(storage), also if the file's length differs from that of the stamp.
SealedPart seal_part(const Path& path, StampedPart stamped, std::span<const PieceRecord> records);

/// Reads the pieces of a sealed part back and compares them with the records. The bytes come from the storage as far as
/// the system drops its cache. Throws Error(storage).
void read_back(const Path& path, const SealedPart& sealed, std::span<const PartPiece> pieces,
               std::span<const PieceRecord> records);

/// XXH3-128 over the file in order, where each block of a piece is replaced by its own hash (16 bytes, little-endian,
/// high half first). With `check`, the pieces are read and hashed, and it is called for each block with its true hash;
/// without it, the hashes of `records` are used. Throws Error(input) if the file ends early.
using BlockCheck =
    std::function<void(std::size_t piece, std::size_t block, std::span<const std::byte> bytes, const Hash128& hash)>;
Hash128 part_hash(const Path& path, std::span<const PartPiece> pieces, std::span<const PieceRecord> records,
                  const BlockCheck& check = {});

}  // namespace lockstep
