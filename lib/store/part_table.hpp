// The table of a part: which pieces of which tensors lie in it, where, and with which hashes. It lies in the part
// itself, below /_index, as columns; whoever wants a piece reads it there. The part around it: store/part_file.hpp.
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
  Box box;  // what of it this piece is
};
std::uint64_t bytes_of(const PartPiece& piece);
bool is_packed(const PartPiece& piece);

struct PieceRecord {
  std::uint64_t offset = 0;          // of the piece in its file
  std::int64_t packed_at = -1;       // its first element in the dataset that it shares; -1: it has one of its own
  std::vector<Hash128> blocks = {};  // XXH3-128 of each block_bytes of the piece
  Fingerprint fingerprint = {};      // the piece's share
};

std::string dataset_of(const PartPiece& piece,
                       const PieceRecord& record);  // "/model/wte.weight/0:8,0:4", "/packed/fp32"

struct PartTable {
  std::vector<PartPiece> pieces;
  std::vector<PieceRecord> records;
};

/// Bytes of a file.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
/// Where the columns of a table lie: tensors, tensor, first_box, boxes, offset, packed_at, first_block, fingerprints,
/// blocks. Whoever knows that reads it without HDF5.
using TableColumns = std::array<ByteRange, 9>;

/// What is in a table, in one number: XXH3-128 over its columns, in this order. Pure.
Hash128 hash_of(const PartTable& table);

/// Lays the columns of a table out in a new part. Throws Error(storage).
TableColumns add_table(Hdf5File& part, const PartTable& table);
/// Writes the last two columns, which are known only when all bytes of the part are. The table is that of add_table but
/// for these. Throws Error(storage).
void complete_table(const FileDescriptor& part, const TableColumns& columns, const PartTable& table, const Path& path);

/// What a sealed part says of itself. Throws Error(input) if that does not match its hash, if a piece does not lie in
/// its tensor or has not the blocks that it should have, Error(storage) if it cannot be read.
PartTable read_part_table(const Path& path, const TableColumns& columns, const Hash128& hash);
/// Its bytes as another process can be told them, column after column, and what they say. Throw the same.
std::string read_table_bytes(const Path& path, const TableColumns& columns);
PartTable parse_part_table(std::string_view bytes, const TableColumns& columns, const Hash128& hash, const Path& path);
/// The same where no index says where the table lies and what its hash is: by HDF5. Throws Error(input), also for a
/// part that is cut short.
PartTable read_part_table(const Path& path);

}  // namespace lockstep
