#include "store/part_file.hpp"

#include "base/error.hpp"
#include "store/hdf5.hpp"
#include "store/stored_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <numeric>

namespace lockstep {

namespace {

constexpr std::array<unsigned char, 8> signature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

// The records before anything is written: as many blocks as there will be, so that the table has its final length.
PartTable blank_table(std::span<const PartPiece> pieces) {
  PartTable table{{pieces.begin(), pieces.end()}, std::vector<PieceRecord>(pieces.size())};
  for (std::size_t i = 0; i < pieces.size(); ++i)
    table.records[i].blocks.resize((bytes_of(pieces[i]) + block_bytes - 1) / block_bytes);
  return table;
}

// Gives each piece its place in the file.
void lay_out(Hdf5File& file, PartTable& table) {
  std::map<DType, std::int64_t> packed;  // elements of each type
  for (std::size_t i = 0; i < table.pieces.size(); ++i) {
    const PartPiece& piece = table.pieces[i];
    if (is_packed(piece)) {
      std::int64_t& next = packed[piece.dtype];
      table.records[i].packed_at = next;
      next += elements(piece.box);
    } else {
      table.records[i].offset =
          file.create_dataset(dataset_of(piece, table.records[i]), piece.dtype, piece.box.extent).offset;
    }
  }
  std::map<DType, std::uint64_t> begin;
  for (const auto& [dtype, count] : packed)
    begin[dtype] = file.create_dataset(fmt::format("/packed/{}", name_of(dtype)), dtype, {count}).offset;
  for (std::size_t i = 0; i < table.pieces.size(); ++i) {
    PieceRecord& record = table.records[i];
    const DType dtype = table.pieces[i].dtype;
    if (record.packed_at >= 0)
      record.offset =
          begin.at(dtype) + static_cast<std::uint64_t>(record.packed_at) * static_cast<std::uint64_t>(size_of(dtype));
  }
}

std::uint64_t size_of_file(const FileDescriptor& file, const Path& path) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail_errno("access", path);
  return static_cast<std::uint64_t>(status.st_size);
}

// Takes the file's room on the disk now and in one go where the file system can: what does not fit fails here, and
// writers need not wait for one another to find room.
void reserve_room(const FileDescriptor& file, const Path& path) {
  const auto bytes = static_cast<off_t>(size_of_file(file, path));
  while (::fallocate(file.get(), 0, 0, bytes) != 0) {
    if (errno == EOPNOTSUPP || errno == ENOSYS) return;
    if (errno != EINTR) fail_errno("reserve space for", path);
  }
}

// Returns what memory must be aligned to for direct I/O at whole pages of the file; 0 where there is none. Older
// kernels and some file systems do not tell: then a page is, and a file system that wants more refuses the write.
std::uint64_t direct_memory_alignment(const FileDescriptor& file) {
#ifdef STATX_DIOALIGN
  struct statx status{};
  if (::statx(file.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 && (status.stx_mask & STATX_DIOALIGN) != 0)
    return status.stx_dio_offset_align == 0 || page_bytes % status.stx_dio_offset_align != 0 ? 0
                                                                                             : status.stx_dio_mem_align;
#endif
  return page_bytes;
}

void add_hash(StreamHash& stream, const Hash128& hash) {
  std::array<std::byte, 16> bytes;
  for (int i = 0; i < 8; ++i) {
    bytes[static_cast<std::size_t>(i)] = static_cast<std::byte>(hash.high >> (8 * i));
    bytes[static_cast<std::size_t>(8 + i)] = static_cast<std::byte>(hash.low >> (8 * i));
  }
  stream.add(std::span<const std::byte>(bytes));
}

}  // namespace

StampedPart stamp_part(const Path& path, std::span<const PartPiece> pieces) {
  StampedPart stamped;
  Hdf5File file = Hdf5File::create(path);
  file.set_attribute("/", "format", "lockstep.part");
  file.set_attribute("/", "version", 2);
  stamped.table = blank_table(pieces);
  lay_out(file, stamped.table);
  stamped.columns = add_table(file, stamped.table);
  file.close();
  FileDescriptor bare = open_file(path, O_WRONLY);
  constexpr std::array<std::byte, signature.size()> withheld{};  // until the part is whole
  write_at(bare, withheld, 0, path);
  reserve_room(bare, path);
  stamped.bytes = size_of_file(bare, path);
  bare.close(path);
  return stamped;
}

PartImage image_of(const Path& path, StampedPart stamped) {
  std::vector<ByteRange> pieces;
  for (std::size_t i = 0; i < stamped.table.pieces.size(); ++i)
    pieces.push_back({stamped.table.records[i].offset, bytes_of(stamped.table.pieces[i])});
  std::ranges::sort(pieces, {}, &ByteRange::offset);
  pieces.push_back({stamped.bytes, 0});
  PartImage image{std::move(stamped), {}};
  const FileDescriptor file = open_stored(path);
  std::uint64_t at = 0;
  for (const ByteRange& piece : pieces) {
    if (piece.offset > at) {
      std::vector<std::byte> bytes(piece.offset - at);
      read_stored(file, bytes, at, path);
      image.stretches.emplace_back(at, std::move(bytes));
    }
    at = std::max(at, piece.offset + piece.bytes);
  }
  return image;
}

void stamp_part(const Path& path, const PartImage& image) {
  FileDescriptor file = open_file(path, O_WRONLY | O_CREAT);
  for (const auto& [offset, bytes] : image.stretches) write_at(file, bytes, offset, path);
  if (::ftruncate(file.get(), static_cast<off_t>(image.stamped.bytes)) != 0) fail_errno("set the length of", path);
  reserve_room(file, path);
  file.close(path);
}

PartFile::PartFile(Path path, Cache cache) : path_(std::move(path)), buffered_(open_file(path_, O_WRONLY | O_CREAT)) {
  if (cache == Cache::through) return;
  const std::uint64_t alignment = direct_memory_alignment(buffered_);
  if (alignment == 0) return;
  const int direct = ::open(path_.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);  // refused by some file systems
  if (direct < 0) return;
  direct_ = FileDescriptor(direct);
  direct_alignment_ = alignment;
}

// Only whole pages: a padded one would overwrite the file's neighbouring objects. Fewer than these where the file
// system takes a part of a page or wants another alignment after all.
std::uint64_t PartFile::write_around(std::span<const std::byte> bytes, std::uint64_t offset) const {
  const bool aligned = direct_alignment_ > 0 && offset % page_bytes == 0 &&
                       reinterpret_cast<std::uintptr_t>(bytes.data()) % direct_alignment_ == 0;
  const std::uint64_t whole = aligned ? bytes.size() / page_bytes * page_bytes : 0;
  std::uint64_t done = 0;
  while (done < whole) {
    const ssize_t written =
        ::pwrite(direct_.get(), bytes.data() + done, whole - done, static_cast<off_t>(offset + done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL) return done;
    if (written < 0) fail_errno("write", path_);
    done += static_cast<std::uint64_t>(written) / page_bytes * page_bytes;
    if (written == 0 || static_cast<std::uint64_t>(written) % page_bytes != 0) return done;
  }
  return done;
}

void PartFile::finish() {
  sync_file(buffered_, path_);
  buffered_.close(path_);
  if (direct_.get() >= 0) direct_.close(path_);
}

SealedPart seal_part(const Path& path, StampedPart stamped, std::span<const PieceRecord> records) {
  PartTable& table = stamped.table;
  for (std::size_t i = 0; i < table.records.size(); ++i) {
    table.records[i].fingerprint = records[i].fingerprint;
    table.records[i].blocks = records[i].blocks;
  }
  FileDescriptor file = open_file(path, O_RDWR);
  complete_table(file, stamped.columns, table, path);
  sync_file(file, path);
  write_at(file, std::as_bytes(std::span(signature)), 0, path);
  sync_file(file, path);
  const std::uint64_t bytes = size_of_file(file, path);
  if (bytes != stamped.bytes)
    fail(ExitCode::storage, "{} has {} bytes instead of {}: it was truncated, or another process writes to it",
         path.string(), bytes, stamped.bytes);
  file.close(path);
  return {bytes, part_hash(path, table.pieces, table.records), hash_of(table), stamped.columns};
}

void read_back(const Path& path, const SealedPart& sealed, std::span<const PartPiece> pieces,
               std::span<const PieceRecord> records) {
  const auto differs = [&](const std::string& what) {
    throw Error(ExitCode::storage,
                fmt::format("{} of {} reads back differently than it was written", what, path.string()),
                "the storage reported no write error: check its disk, controller and driver");
  };
  {
    const FileDescriptor file = open_file(path, O_RDONLY);
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);  // advice: where it is not taken, memory is read
  }
  const Hash128 hash =
      part_hash(path, pieces, records,
                [&](std::size_t piece, std::size_t block, std::span<const std::byte>, const Hash128& found) {
                  if (found != records[piece].blocks[block])
                    differs(fmt::format("block {} of {}", block, pieces[piece].tensor));
                });
  if (hash != sealed.hash) differs("the data between the pieces");
}

Hash128 part_hash(const Path& path, std::span<const PartPiece> pieces, std::span<const PieceRecord> records,
                  const BlockCheck& check) {
  const FileDescriptor file = open_regular(path);
  const std::uint64_t size = size_of_file(file, path);
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return records[a].offset < records[b].offset; });
  StreamHash stream;
  std::vector<std::byte> buffer;
  std::uint64_t at = 0;
  const auto read_next = [&](std::uint64_t bytes) {
    buffer.resize(bytes);
    read_at(file, buffer, at, path);
    at += bytes;
    return std::span<const std::byte>(buffer);
  };
  const auto add_rest = [&](std::uint64_t end) {
    while (at < end) stream.add(read_next(std::min(block_bytes, end - at)));
  };
  for (const std::size_t number : order) {
    const PieceRecord& record = records[number];
    const std::uint64_t bytes = bytes_of(pieces[number]);
    if (bytes == 0) continue;
    if (record.offset < at) fail(ExitCode::input, "{}: the pieces of the index overlap", path.string());
    if (record.offset + bytes > size)
      fail(ExitCode::input, "{} ends at byte {}, within {}", path.string(), size, pieces[number].tensor);
    add_rest(record.offset);
    for (std::size_t block = 0; block < record.blocks.size(); ++block) {
      Hash128 hash = record.blocks[block];
      const std::uint64_t length = std::min(block_bytes, record.offset + bytes - at);
      if (check) {
        const auto content = read_next(length);
        hash = hash128(content);
        check(number, block, content, hash);
      } else {
        at += length;
      }
      add_hash(stream, hash);
    }
  }
  add_rest(size);
  return stream.digest();
}

}  // namespace lockstep
