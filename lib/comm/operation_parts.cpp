#include "comm/operation_parts.hpp"

namespace lockstep::parts {

std::span<std::byte> wire_of(Workspace& space, std::size_t bytes) {
  if (space.wire.size() < bytes) space.wire.resize(bytes);
  return std::span(space.wire).first(bytes);
}

void start_addresses(NonBlocking& ranks, Workspace& space, const void* memory) {
  space.addresses.assign(size_of(ranks), 0);
  std::uint64_t& mine = space.addresses[rank_of(ranks)];
  mine = address_of(memory);
  space.calls.assign(1, ranks.all_gather(bytes_of(mine), std::as_writable_bytes(std::span(space.addresses))));
}

void start_meeting(NonBlocking& ranks, Workspace& space) { space.calls.assign(1, ranks.barrier()); }

void read(const NonBlocking& ranks, std::size_t peer, std::span<const RemoteRegion> regions) {
  read_memory(ranks.readable()[peer], regions);
}

void read(const NonBlocking& ranks, std::size_t peer, std::uint64_t address, std::span<std::byte> into) {
  const RemoteRegion region{address, into};
  read(ranks, peer, {&region, 1});
}

void point_at_operands(const NonBlocking& ranks, Workspace& space, std::span<const std::byte> wire,
                       std::size_t length) {
  space.operands.clear();
  for (std::size_t rank = 0; rank < size_of(ranks); ++rank) space.operands.push_back(wire.data() + rank * length);
}

}  // namespace lockstep::parts
