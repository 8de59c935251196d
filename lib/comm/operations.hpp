// The collective operations of a group of ranks, each as a state machine over non-blocking calls. Large amounts move in
// bounded pieces, so that other operations get their turn. If ranks can read each other's memory
// (comm/peer_memory.hpp), large data is read in place; otherwise it goes by messages. Both give the same bits.
#pragma once

#include "comm/communicator.hpp"
#include "comm/operation.hpp"
#include "comm/reduction.hpp"
#include "device/region.hpp"
#include "layout/shard_map.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// Memory that operations reuse, because allocating it would cost more than many of them. One operation uses it at a
/// time.
struct Workspace {
  std::vector<std::byte> wire;  // operands and packed messages
  std::vector<NonBlocking::Call> calls;
  std::vector<std::uint64_t> addresses;           // by rank
  std::vector<const std::byte*> operands;         // by rank
  std::vector<RemoteRegion> regions;              // to be read from one rank
  std::vector<ShardPiece> portion;                // of one rank
  std::vector<std::vector<ShardPiece>> portions;  // by rank
};

/// One rank's part in an exchange: bytes for a peer, or from it.
template <class Byte>
struct Part {
  int peer = 0;
  std::span<Byte> bytes;
};

/// Each operation is Collective over `ranks`, which has several ranks. All arguments must outlive the operation.

/// Communicator::all_reduce.
Operation all_reduce(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, DType dtype, Reduce reduce);
/// Writes the sum of `bytes`, which are overwritten, to `place` as described by `into`.
Operation all_reduce_into(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, DType dtype,
                          std::span<std::byte> place, SumInto into);
/// Copies every rank's shard to its place in the `whole` of all ranks. The own shard may already lie at its place.
Operation all_gather(NonBlocking& ranks, Workspace& space, std::span<const std::byte> shard, std::span<std::byte> whole,
                     const ShardMap& map, DType dtype);
/// Sums each rank's pieces of `whole` over the ranks as all_reduce does, and writes them to its shard as described by
/// `into`. The shard may lie at its place in `whole`.
Operation reduce_scatter(NonBlocking& ranks, Workspace& space, std::span<const std::byte> whole,
                         std::span<std::byte> shard, const ShardMap& map, DType dtype, SumInto into);
Operation broadcast(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, int root);
/// Only ranks that send to each other take part. Each rank knows the lengths of the parts that it sends and receives. A
/// rank may send to itself.
Operation exchange(NonBlocking& ranks, Workspace& space, std::vector<Part<const std::byte>> sent,
                   std::vector<Part<std::byte>> received);

/// These operations are for a single rank: they copy data that is not at its place yet, and let others have a turn.
/// Local.
Operation gather_alone(std::span<const std::byte> shard, std::span<std::byte> whole, const ShardMap& map, DType dtype);
Operation scatter_alone(std::span<const std::byte> whole, std::span<std::byte> shard, const ShardMap& map, DType dtype,
                        SumInto into);
Operation put_alone(std::span<const std::byte> sum, DType dtype, std::span<std::byte> place, SumInto into);
Operation copy_regions(std::vector<RegionCopy> copies);
Operation copy_alone(std::span<const std::byte> from, std::span<std::byte> into);

}  // namespace lockstep
