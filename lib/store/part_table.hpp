// The table of a part lists its pieces with their tensors, places and hashes. It lies in the part itself, as columns
// below /_index, and readers of a piece read it there. The part file: store/part_file.hpp.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "layout/dtype.hpp"
#include "layout/shape.hpp"
#include "store/fingerprint.hpp"
#include "store/hdf5.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

inline constexpr std::uint64_t block_bytes = 8 << 20;    // pieces are hashed, checked and read in blocks of this size
inline constexpr std::uint64_t packed_below = 64 << 10;  // smaller pieces share one dataset of their type

struct PartPiece {
  std::string tensor;  // full name: "model/wte.weight"
  Shape global;        // of the logical tensor
  DType dtype = DType::f32;
  Box box;  // of the tensor
};
std::uint64_t bytes_of(const PartPiece& piece);
bool is_packed(const PartPiece& piece);

struct PieceRecord {
  std::uint64_t offset = 0;          // of the piece in its file
  std::int64_t packed_at = -1;       // its first element in a shared dataset; -1: it has a dataset of its own
  std::vector<Hash128> blocks = {};  // XXH3-128 of each block_bytes of the piece
  Fingerprint fingerprint = {};      // the piece's share
};

/// Returns "/model/wte.weight/0:8,0:4", "/packed/fp32".
std::string dataset_of(const PartPiece& piece, const PieceRecord& record);

struct PartTable {
  std::vector<PartPiece> pieces;
  std::vector<PieceRecord> records;
};

/// A range of bytes in a file.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
/// Positions of the columns of a table: tensors, tensor, first_box, boxes, offset, packed_at, first_block,
/// fingerprints, blocks. They allow reading the table without HDF5.
using TableColumns = std::array<ByteRange, 9>;

/// Returns XXH3-128 over the columns of a table, in this order. Pure.
Hash128 hash_of(const PartTable& table);

/// Lays out the columns of a table in a new part. Throws Error(storage).
TableColumns add_table(Hdf5File& part, const PartTable& table);
/// Writes the last two columns, which are known only when all bytes of the part are. The rest of the table must be that
/// of add_table. Throws Error(storage).
void complete_table(const FileDescriptor& part, const TableColumns& columns, const PartTable& table, const Path& path);

/// Reads the table of a sealed part. Throws Error(input) if it does not match its hash, or a piece lies outside of its
/// tensor or has the wrong number of blocks; Error(storage) if it cannot be read.
PartTable read_part_table(const Path& path, const TableColumns& columns, const Hash128& hash);
/// Read the table's bytes, column after column, for another process, and parse them there. Throw the same.
std::string read_table_bytes(const Path& path, const TableColumns& columns);
PartTable parse_part_table(std::string_view bytes, const TableColumns& columns, const Hash128& hash, const Path& path);
/// Reads the table through HDF5, if no index gives its position and hash. Throws Error(input), also for a part that is
/// cut short.
PartTable read_part_table(const Path& path);

}  // namespace lockstep
