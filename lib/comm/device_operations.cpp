#include "comm/device_operations.hpp"

#include "base/error.hpp"
#include "device/device.hpp"

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::size_t aligned_to = 512;  // bytes: parts of a message begin as memory of the device does

std::size_t aligned(std::size_t bytes) { return (bytes + aligned_to - 1) / aligned_to * aligned_to; }
std::size_t width_of(DType dtype) { return static_cast<std::size_t>(size_of(dtype)); }
bool is_short(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

NcclType type_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return NcclType::f64;
    case DType::f32: return NcclType::f32;
    case DType::i64: return NcclType::i64;
    case DType::u64: return NcclType::u64;
    case DType::i32: return NcclType::i32;
    default: fail(ExitCode::bug, "NCCL does not reduce {} elements here", name_of(dtype));
  }
}

NcclSum sum_of(Reduce reduce) {
  return reduce == Reduce::sum ? NcclSum::sum : reduce == Reduce::min ? NcclSum::min : NcclSum::max;
}

/// Where pieces of a map lie in memory.
struct Places {
  std::byte* whole;
  std::byte* shard;
  std::size_t width;
  std::size_t shard_width;

  std::size_t bytes(const ShardPiece& piece) const { return static_cast<std::size_t>(piece.length) * width; }
  std::byte* in_whole(const ShardPiece& piece) const { return whole + static_cast<std::size_t>(piece.whole) * width; }
  std::byte* in_shard(const ShardPiece& piece) const {
    return shard + static_cast<std::size_t>(piece.shard) * shard_width;
  }
};

/// Whether each rank has one piece, all pieces are equally long, and they lie one behind the other: nothing needs to be
/// packed.
bool is_plain(const ShardMap& map) {
  const std::int64_t length = map.pieces.front().empty() ? 0 : map.pieces.front().front().length;
  std::int64_t at = 0;
  for (const std::vector<ShardPiece>& pieces : map.pieces) {
    if (pieces.size() != 1 || pieces.front().length != length || pieces.front().whole != at) return false;
    at += length;
  }
  return true;
}

/// The pieces of all ranks, in portions whose parts fit into equal parts of a message.
class Portions {
 public:
  Portions(const ShardMap& map, std::size_t part_bytes, std::size_t width)
      : progress_(map.pieces.begin(), map.pieces.end()),
        pieces_(map.pieces.size()),
        length_(static_cast<std::int64_t>(std::max<std::size_t>(part_bytes / width, 1))),
        width_(width) {}

  /// Goes on to the next portion. Returns false if there is none.
  bool next() {
    std::int64_t most = 0;
    for (std::size_t rank = 0; rank < pieces_.size(); ++rank)
      most = std::max(most, progress_[rank].next(length_, pieces_[rank]));
    part_bytes_ = aligned(static_cast<std::size_t>(most) * width_);
    return most > 0;
  }
  const std::vector<ShardPiece>& of(std::size_t rank) const { return pieces_[rank]; }
  std::size_t part_bytes() const { return part_bytes_; }

 private:
  std::vector<ShardPortions> progress_;
  std::vector<std::vector<ShardPiece>> pieces_;  // by rank, of this portion
  std::int64_t length_;
  std::size_t width_;
  std::size_t part_bytes_ = 0;
};

std::size_t longest_shard(const ShardMap& map) {
  std::int64_t most = 0;
  for (const std::vector<ShardPiece>& pieces : map.pieces) {
    std::int64_t own = 0;
    for (const ShardPiece& piece : pieces) own += piece.length;
    most = std::max(most, own);
  }
  return static_cast<std::size_t>(most);
}

}  // namespace

/// Grows when it is first needed. The old memory is used until the queue has come here.
std::byte* DeviceOperations::packing_memory(std::size_t bytes) {
  if (bytes > memory_bytes_) {
    Device& device = this_device();
    device.follow(DeviceQueue::compute, device.record(DeviceQueue::exchange));
    memory_.reset();
    memory_bytes_ = 0;
    memory_ = device_.memory(bytes);
    memory_bytes_ = bytes;
    device.follow(DeviceQueue::exchange, device.record(DeviceQueue::compute));
  }
  return memory_.get();
}

/// Bytes of one rank's part in a message of `parts` parts, if it shall carry `wanted` bytes for each rank.
std::size_t DeviceOperations::part_of_message(std::size_t wanted, std::size_t parts) const {
  const std::size_t most = static_cast<std::size_t>(device_.most_packed_bytes) / parts / aligned_to * aligned_to;
  return std::min(aligned(wanted), std::max(most, aligned_to));
}

void DeviceOperations::copy(const std::vector<MemoryCopy>& copies) {
  std::vector<MemoryCopy> needed;
  for (const MemoryCopy& one : copies)
    if (one.bytes > 0 && one.from != one.to) needed.push_back(one);
  if (!needed.empty()) device_.kernels.copy_pieces(needed.data(), static_cast<int>(needed.size()));
}

void DeviceOperations::put_sum(const std::byte* operands, std::int64_t distance, int count, std::int64_t elements,
                               DType dtype, std::byte* place, SumInto into) {
  if (elements == 0) return;
  device_.kernels.sum_operands({.operands = operands,
                                .distance = distance,
                                .count = count,
                                .elements = elements,
                                .dtype = dtype,
                                .place = place,
                                .place_dtype = into.dtype.value_or(dtype),
                                .adds = into.how == SumInto::Mode::add});
}

void DeviceOperations::all_reduce(DeviceRanks* ranks, const Region& bytes, DType dtype, Reduce reduce) {
  if (ranks == nullptr || bytes.bytes == 0) return;
  if (!is_short(dtype)) {
    ranks->all_reduce(bytes.pointer, bytes.bytes / width_of(dtype), type_of(dtype), sum_of(reduce));
    return;
  }
  invariant(reduce == Reduce::sum, "16-bit values of a device are only summed");
  sum_short(*ranks, bytes, dtype);
}

/// Each rank adds up one part of every portion, and all ranks receive the sums.
void DeviceOperations::sum_short(DeviceRanks& ranks, const Region& bytes, DType dtype) {
  const auto size = static_cast<std::size_t>(ranks.size()), mine = static_cast<std::size_t>(ranks.rank());
  const std::size_t part = part_of_message((bytes.bytes + size - 1) / size, size);
  for (std::size_t begin = 0; begin < bytes.bytes; begin += part * size) {
    const auto part_at = [&](std::size_t rank) {
      const std::size_t from = std::min(bytes.bytes, begin + rank * part);
      return std::span(bytes.pointer + from, std::min(bytes.bytes - from, part));
    };
    std::byte* const packed = packing_memory(part * size);
    const std::span<std::byte> own = part_at(mine);
    copy({{own.data(), packed + mine * part, std::ssize(own)}});
    ranks.begin_group();
    for (std::size_t peer = 0; peer < size; ++peer) {
      if (peer == mine) continue;
      if (!part_at(peer).empty()) ranks.send(part_at(peer).data(), part_at(peer).size(), static_cast<int>(peer));
      if (!own.empty()) ranks.receive(packed + peer * part, own.size(), static_cast<int>(peer));
    }
    ranks.end_group();
    put_sum(packed, static_cast<std::int64_t>(part), ranks.size(),
            static_cast<std::int64_t>(own.size() / width_of(dtype)), dtype, own.data(), {});
    ranks.begin_group();
    for (std::size_t peer = 0; peer < size; ++peer) {
      if (peer == mine) continue;
      if (!own.empty()) ranks.send(own.data(), own.size(), static_cast<int>(peer));
      if (!part_at(peer).empty()) ranks.receive(part_at(peer).data(), part_at(peer).size(), static_cast<int>(peer));
    }
    ranks.end_group();
  }
}

void DeviceOperations::all_reduce_into(DeviceRanks* ranks, const Region& bytes, DType dtype, const Region& place,
                                       SumInto into) {
  all_reduce(ranks, bytes, dtype, Reduce::sum);
  put_sum(bytes.pointer, 0, 1, static_cast<std::int64_t>(bytes.bytes / width_of(dtype)), dtype, place.pointer, into);
}

void DeviceOperations::all_gather(DeviceRanks* ranks, const Region& shard, const Region& whole, const ShardMap& map,
                                  DType dtype) {
  const std::size_t mine = ranks == nullptr ? 0 : static_cast<std::size_t>(ranks->rank());
  const Places places{whole.pointer, shard.pointer, width_of(dtype), width_of(dtype)};
  const auto own_pieces = [&](std::size_t rank, const std::vector<ShardPiece>& pieces, std::byte* packed) {
    std::vector<MemoryCopy> copies;
    for (const ShardPiece& piece : pieces) {
      const auto bytes = static_cast<std::int64_t>(places.bytes(piece));
      copies.push_back({rank == mine ? places.in_shard(piece) : packed, places.in_whole(piece), bytes});
      packed += bytes;
    }
    return copies;
  };
  if (ranks == nullptr) return copy(own_pieces(mine, map.pieces[mine], nullptr));
  if (is_plain(map)) {
    const ShardPiece& piece = map.pieces[mine].front();
    if (piece.length > 0) ranks->all_gather(places.in_shard(piece), places.bytes(piece), whole.pointer);
    return;
  }
  const auto size = static_cast<std::size_t>(ranks->size());
  const std::size_t most = part_of_message(longest_shard(map) * places.width, size);
  Portions portions(map, most, places.width);
  while (portions.next()) {
    const std::size_t part = portions.part_bytes();
    std::byte* const packed = packing_memory(part * size);
    std::vector<MemoryCopy> copies;
    std::byte* at = packed + mine * part;
    for (const ShardPiece& piece : portions.of(mine)) {
      copies.push_back({places.in_shard(piece), at, static_cast<std::int64_t>(places.bytes(piece))});
      at += places.bytes(piece);
    }
    copy(copies);
    ranks->all_gather(packed + mine * part, part, packed);
    copies.clear();
    for (std::size_t rank = 0; rank < size; ++rank)
      for (const MemoryCopy& one : own_pieces(rank, portions.of(rank), packed + rank * part)) copies.push_back(one);
    copy(copies);
  }
}

void DeviceOperations::reduce_scatter(DeviceRanks* ranks, const Region& whole, const Region& shard, const ShardMap& map,
                                      DType dtype, SumInto into) {
  const std::size_t mine = ranks == nullptr ? 0 : static_cast<std::size_t>(ranks->rank());
  const Places places{whole.pointer, shard.pointer, width_of(dtype), width_of(into.dtype.value_or(dtype))};
  if (ranks == nullptr) {
    for (const ShardPiece& piece : map.pieces[mine])
      put_sum(places.in_whole(piece), 0, 1, piece.length, dtype, places.in_shard(piece), into);
    return;
  }
  const auto size = static_cast<std::size_t>(ranks->size());
  const bool shorts = is_short(dtype);
  // A message has what goes to each rank, and behind it what comes: the operands of each rank, or one sum.
  const std::size_t incoming = shorts ? size : 1;
  const std::size_t most = part_of_message(longest_shard(map) * places.width, size + incoming);
  Portions portions(map, most, places.width);
  while (portions.next()) {
    const std::size_t part = portions.part_bytes();
    std::byte* const going = packing_memory(part * (size + incoming));
    std::byte* const coming = going + part * size;
    std::vector<MemoryCopy> copies;
    std::vector<std::size_t> lengths(size);
    for (std::size_t rank = 0; rank < size; ++rank) {
      std::byte* const to = (shorts && rank == mine ? coming : going) + rank * part;
      for (const ShardPiece& piece : portions.of(rank)) {
        copies.push_back({places.in_whole(piece), to + lengths[rank], static_cast<std::int64_t>(places.bytes(piece))});
        lengths[rank] += places.bytes(piece);
      }
    }
    copy(copies);
    if (shorts) {
      ranks->begin_group();
      for (std::size_t peer = 0; peer < size; ++peer) {
        if (peer == mine) continue;
        if (lengths[peer] > 0) ranks->send(going + peer * part, lengths[peer], static_cast<int>(peer));
        if (lengths[mine] > 0) ranks->receive(coming + peer * part, lengths[mine], static_cast<int>(peer));
      }
      ranks->end_group();
    } else {
      ranks->reduce_scatter(going, coming, part / places.width, type_of(dtype));
    }
    const std::byte* at = coming;
    for (const ShardPiece& piece : portions.of(mine)) {
      put_sum(at, static_cast<std::int64_t>(part), static_cast<int>(incoming), piece.length, dtype,
              places.in_shard(piece), into);
      at += places.bytes(piece);
    }
  }
}

void DeviceOperations::broadcast(DeviceRanks* ranks, const Region& bytes, int root) {
  if (ranks != nullptr && bytes.bytes > 0) ranks->broadcast(bytes.pointer, bytes.bytes, root);
}

void DeviceOperations::exchange(DeviceRanks* ranks, const std::vector<Part<std::byte>>& sent,
                                const std::vector<Part<std::byte>>& received) {
  const int mine = ranks == nullptr ? 0 : ranks->rank();
  std::byte* own = nullptr;
  for (const auto& [peer, bytes] : sent)
    if (peer == mine) own = bytes.data();
  for (const auto& [peer, bytes] : received)
    if (peer == mine) copy({{own, bytes.data(), std::ssize(bytes)}});
  if (ranks == nullptr) return;
  ranks->begin_group();
  for (const auto& [peer, bytes] : sent)
    if (peer != mine && !bytes.empty()) ranks->send(bytes.data(), bytes.size(), peer);
  for (const auto& [peer, bytes] : received)
    if (peer != mine && !bytes.empty()) ranks->receive(bytes.data(), bytes.size(), peer);
  ranks->end_group();
}

}  // namespace lockstep
