#include "comm/operation_parts.hpp"

#include <algorithm>
#include <cstring>

// Gathering and scattering of shards.
namespace lockstep {

using namespace parts;

namespace {

/// Elements of a portion of which there is one for each rank.
std::int64_t portion_length(const NonBlocking& ranks, std::size_t width) {
  return static_cast<std::int64_t>(std::max(piece_bytes / size_of(ranks) / width, std::size_t{1}));
}

/// A shard map in bytes: where pieces lie.
struct Places {
  std::size_t width;        // of an element of the whole
  std::size_t shard_width;  // and of one of the shard
  explicit Places(DType dtype) : Places(dtype, {}) {}
  Places(DType dtype, const SumInto& into)
      : width(width_of(dtype)), shard_width(width_of(into.dtype.value_or(dtype))) {}
  std::size_t length(const ShardPiece& piece) const { return static_cast<std::size_t>(piece.length) * width; }
  template <class Byte>
  std::span<Byte> in_whole(std::span<Byte> whole, const ShardPiece& piece) const {
    return whole.subspan(static_cast<std::size_t>(piece.whole) * width, length(piece));
  }
  template <class Byte>
  std::span<Byte> in_shard(std::span<Byte> shard, const ShardPiece& piece) const {
    return shard.subspan(static_cast<std::size_t>(piece.shard) * shard_width,
                         static_cast<std::size_t>(piece.length) * shard_width);
  }
  /// Whether the shard is nothing but a view of the whole.
  bool lie_in_place(const std::byte* whole, const std::byte* shard, const std::vector<ShardPiece>& pieces) const {
    return width == shard_width && std::ranges::all_of(pieces, [&](const ShardPiece& piece) {
             return whole + static_cast<std::size_t>(piece.whole) * width ==
                    shard + static_cast<std::size_t>(piece.shard) * width;
           });
  }
};

/// Packs what `place` says of each piece, unless there is one piece alone: that is sent from where it lies.
template <class Place>
std::span<const std::byte> packed(const std::vector<ShardPiece>& portion, std::span<std::byte> wire, Place&& place) {
  if (portion.size() == 1) return place(portion.front());
  std::size_t at = 0;
  for (const ShardPiece& piece : portion) {
    const std::span<const std::byte> bytes = place(piece);
    std::memcpy(wire.data() + at, bytes.data(), bytes.size());
    at += bytes.size();
  }
  return wire.first(at);
}

Operation gather_by_messages(NonBlocking& ranks, Workspace& space, std::span<const std::byte> shard,
                             std::span<std::byte> whole, const ShardMap& map, Places places) {
  const std::size_t size = size_of(ranks), mine = rank_of(ranks);
  const std::int64_t length = portion_length(ranks, places.width);
  const std::size_t slot = static_cast<std::size_t>(length) * places.width;
  std::vector<ShardPortions> progress(map.pieces.begin(), map.pieces.end());
  space.portions.resize(std::max(space.portions.size(), size));
  ranks.halfway();
  for (;;) {
    const std::span<std::byte> wire = wire_of(space, slot * size);
    space.calls.clear();
    bool any = false;
    for (std::size_t peer = 0; peer < size; ++peer) {
      const auto count = static_cast<std::size_t>(progress[peer].next(length, space.portions[peer])) * places.width;
      any = any || count > 0;
      if (peer == mine || count == 0) continue;
      const std::vector<ShardPiece>& portion = space.portions[peer];
      const std::span<std::byte> into =
          portion.size() == 1 ? places.in_whole(whole, portion.front()) : wire.subspan(peer * slot, count);
      space.calls.push_back(ranks.receive(into, static_cast<int>(peer)));
    }
    if (!any) co_return;
    if (!space.portions[mine].empty()) {
      const std::span<const std::byte> sent =
          packed(space.portions[mine], wire.subspan(mine * slot, slot),
                 [&](const ShardPiece& piece) { return places.in_shard(shard, piece); });
      for (std::size_t peer = 0; peer < size; ++peer)
        if (peer != mine) space.calls.push_back(ranks.send(sent, static_cast<int>(peer)));
    }
    for (const ShardPiece& piece : space.portions[mine]) {
      const std::span<std::byte> to = places.in_whole(whole, piece);
      const std::span<const std::byte> from = places.in_shard(shard, piece);
      if (to.data() != from.data()) std::memcpy(to.data(), from.data(), from.size());
    }
    co_await ended(ranks, space.calls);
    for (std::size_t peer = 0; peer < size; ++peer) {
      if (peer == mine || space.portions[peer].size() < 2) continue;
      const std::byte* from = wire.data() + peer * slot;
      for (const ShardPiece& piece : space.portions[peer]) {
        std::memcpy(places.in_whole(whole, piece).data(), from, places.length(piece));
        from += places.length(piece);
      }
    }
  }
}

Operation gather_directly(NonBlocking& ranks, Workspace& space, std::span<const std::byte> shard,
                          std::span<std::byte> whole, const ShardMap& map, Places places) {
  const std::size_t size = size_of(ranks), mine = rank_of(ranks);
  const auto length = static_cast<std::int64_t>(piece_bytes / places.width);
  start_addresses(ranks, space, shard.data());
  co_await ended(ranks, space.calls);
  ranks.halfway();
  for (std::size_t step = 0; step < size; ++step) {
    const std::size_t owner = (mine + step) % size;
    ShardPortions progress(map.pieces[owner]);
    while (progress.next(length, space.portion) > 0) {
      space.regions.clear();
      for (const ShardPiece& piece : space.portion) {
        const std::span<std::byte> to = places.in_whole(whole, piece);
        if (owner != mine) {
          space.regions.push_back(
              {space.addresses[owner] + static_cast<std::uint64_t>(piece.shard) * places.width, to});
        } else if (const std::span<const std::byte> from = places.in_shard(shard, piece); from.data() != to.data()) {
          std::memcpy(to.data(), from.data(), from.size());
        }
      }
      if (owner != mine) read(ranks, owner, space.regions);
      co_await others_turn;
    }
  }
  start_meeting(ranks, space);
  co_await ended(ranks, space.calls);
}

/// Reduces a portion of this rank's pieces, whose operands of the other ranks lie packed in `wire`, each in a slot of
/// its own.
void reduce_portion(const NonBlocking& ranks, Workspace& space, std::span<std::byte> wire, std::size_t slot,
                    std::span<const std::byte> whole, std::span<std::byte> shard, Places places, DType dtype,
                    SumInto into) {
  const std::size_t mine = rank_of(ranks);
  std::size_t at = 0;
  for (const ShardPiece& piece : space.portion) {
    const std::span<std::byte> place = places.in_shard(shard, piece);
    const bool stays = into.how == SumInto::Mode::replace && places.width == places.shard_width;
    const std::span<std::byte> sum = stays ? place : wire.subspan(mine * slot + at, places.length(piece));
    point_at_operands(ranks, space, wire.subspan(at), slot);
    space.operands[mine] = places.in_whole(whole, piece).data();
    reduce_in_order(space.operands, sum, dtype, Reduce::sum);
    write_sum(sum, dtype, place, into);
    at += places.length(piece);
  }
}

Operation scatter_by_messages(NonBlocking& ranks, Workspace& space, std::span<const std::byte> whole,
                              std::span<std::byte> shard, const ShardMap& map, DType dtype, SumInto into) {
  const std::size_t size = size_of(ranks), mine = rank_of(ranks);
  const Places places(dtype, into);
  const std::int64_t length = portion_length(ranks, places.width);
  const std::size_t slot = static_cast<std::size_t>(length) * places.width;
  std::vector<ShardPortions> progress(map.pieces.begin(), map.pieces.end());
  space.portions.resize(std::max(space.portions.size(), size));
  ranks.halfway();
  for (;;) {
    const std::span<std::byte> wire = wire_of(space, 2 * slot * size);  // what comes, then what goes
    const std::span<std::byte> outgoing = wire.subspan(slot * size);
    space.calls.clear();
    bool any = false;
    for (std::size_t peer = 0; peer < size; ++peer) any = progress[peer].next(length, space.portions[peer]) > 0 || any;
    if (!any) co_return;
    std::size_t incoming = 0;
    for (const ShardPiece& piece : space.portions[mine]) incoming += places.length(piece);
    for (std::size_t peer = 0; peer < size; ++peer)
      if (peer != mine && incoming > 0)
        space.calls.push_back(ranks.receive(wire.subspan(peer * slot, incoming), static_cast<int>(peer)));
    for (std::size_t peer = 0; peer < size; ++peer) {
      if (peer == mine || space.portions[peer].empty()) continue;
      space.calls.push_back(ranks.send(packed(space.portions[peer], outgoing.subspan(peer * slot, slot),
                                              [&](const ShardPiece& piece) { return places.in_whole(whole, piece); }),
                                       static_cast<int>(peer)));
    }
    co_await ended(ranks, space.calls);
    space.portion = space.portions[mine];
    reduce_portion(ranks, space, wire, slot, whole, shard, places, dtype, into);
  }
}

Operation scatter_directly(NonBlocking& ranks, Workspace& space, std::span<const std::byte> whole,
                           std::span<std::byte> shard, const ShardMap& map, DType dtype, SumInto into) {
  const std::size_t size = size_of(ranks), mine = rank_of(ranks);
  const Places places(dtype, into);
  const std::int64_t length = portion_length(ranks, places.width);
  const std::size_t slot = static_cast<std::size_t>(length) * places.width;
  start_addresses(ranks, space, whole.data());
  co_await ended(ranks, space.calls);
  ranks.halfway();
  ShardPortions progress(map.pieces[mine]);
  while (progress.next(length, space.portion) > 0) {
    const std::span<std::byte> wire = wire_of(space, slot * size);
    for (std::size_t step = 1; step < size; ++step) {
      const std::size_t peer = (mine + step) % size;
      std::size_t at = peer * slot;
      space.regions.clear();
      for (const ShardPiece& piece : space.portion) {
        space.regions.push_back({space.addresses[peer] + static_cast<std::uint64_t>(piece.whole) * places.width,
                                 wire.subspan(at, places.length(piece))});
        at += places.length(piece);
      }
      read(ranks, peer, space.regions);
    }
    reduce_portion(ranks, space, wire, slot, whole, shard, places, dtype, into);
    co_await others_turn;
  }
  start_meeting(ranks, space);
  co_await ended(ranks, space.calls);
}

/// Calls `move` with each piece, in portions between which others have a turn.
template <class Move>
Operation move_pieces(const std::vector<ShardPiece>& pieces, std::size_t width, Move move) {
  ShardPortions progress(pieces);
  std::vector<ShardPiece> portion;
  while (progress.next(static_cast<std::int64_t>(piece_bytes / width), portion) > 0) {
    for (const ShardPiece& piece : portion) move(piece);
    co_await others_turn;
  }
}

/// Equal on all ranks, for the map is.
bool goes_directly(const NonBlocking& ranks, const ShardMap& map, DType dtype) {
  return reads_directly(ranks, static_cast<std::size_t>(owned_elements(map)) * width_of(dtype));
}

}  // namespace

Operation all_gather(NonBlocking& ranks, Workspace& space, std::span<const std::byte> shard, std::span<std::byte> whole,
                     const ShardMap& map, DType dtype) {
  const Places places(dtype);
  return goes_directly(ranks, map, dtype) ? gather_directly(ranks, space, shard, whole, map, places)
                                          : gather_by_messages(ranks, space, shard, whole, map, places);
}

Operation reduce_scatter(NonBlocking& ranks, Workspace& space, std::span<const std::byte> whole,
                         std::span<std::byte> shard, const ShardMap& map, DType dtype, SumInto into) {
  return goes_directly(ranks, map, dtype) ? scatter_directly(ranks, space, whole, shard, map, dtype, into)
                                          : scatter_by_messages(ranks, space, whole, shard, map, dtype, into);
}

Operation gather_alone(std::span<const std::byte> shard, std::span<std::byte> whole, const ShardMap& map, DType dtype) {
  const Places places(dtype);
  if (places.lie_in_place(whole.data(), shard.data(), map.pieces.front())) return {};
  return move_pieces(map.pieces.front(), places.width, [=](const ShardPiece& piece) {
    std::memcpy(places.in_whole(whole, piece).data(), places.in_shard(shard, piece).data(), places.length(piece));
  });
}

Operation scatter_alone(std::span<const std::byte> whole, std::span<std::byte> shard, const ShardMap& map, DType dtype,
                        SumInto into) {
  const Places places(dtype, into);
  const bool stays = into.how == SumInto::Mode::replace;
  if (stays && places.lie_in_place(whole.data(), shard.data(), map.pieces.front())) return {};
  return move_pieces(map.pieces.front(), places.width, [=](const ShardPiece& piece) {
    write_sum(places.in_whole(whole, piece), dtype, places.in_shard(shard, piece), into);
  });
}

Operation copy_alone(std::span<const std::byte> from, std::span<std::byte> into) {
  if (from.data() == into.data()) co_return;
  for (std::size_t at = 0; at < into.size(); at += piece_bytes) {
    std::memcpy(into.data() + at, from.data() + at, std::min(piece_bytes, into.size() - at));
    co_await others_turn;
  }
}

Operation copy_regions(std::vector<RegionCopy> copies) {
  for (const auto& [from, to] : copies) {
    for (std::size_t at = 0; at < to.bytes; at += piece_bytes) {
      std::memcpy(to.pointer + at, from.pointer + at, std::min(piece_bytes, to.bytes - at));
      co_await others_turn;
    }
  }
}

}  // namespace lockstep
