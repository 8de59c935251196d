// What a group of ranks can do together, each as a state machine over calls that do not block. Large amounts go in
// bounded pieces, so that operations beside this one get their turn. Where the ranks can read each other's memory, what
// is large is read from where it lies; else it goes by messages. Either way gives the same bits.
#pragma once

#include "base/region.hpp"
#include "comm/communicator.hpp"
#include "comm/operation.hpp"
#include "comm/reduction.hpp"
#include "layout/shard_map.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// What operations keep from one to the next, for fresh memory costs more than many of them. One operation uses it at a
/// time.
struct Workspace {
  std::vector<std::byte> wire;  // operands and what is packed for messages
  std::vector<NonBlocking::Call> calls;
  std::vector<std::uint64_t> addresses;           // by rank
  std::vector<const std::byte*> operands;         // by rank
  std::vector<RemoteRegion> regions;              // to be read of one rank
  std::vector<ShardPiece> portion;                // of one rank
  std::vector<std::vector<ShardPiece>> portions;  // by rank
};

/// One rank's part in an exchange: bytes for, or from, a peer.
template <class Byte>
struct Part {
  int peer = 0;
  std::span<Byte> bytes;
};

/// Each is Collective over `ranks`, of which there are several. All arguments outlive the operation.

/// Communicator::all_reduce.
Operation all_reduce(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, DType dtype, Reduce reduce);
/// The sum of `bytes`, which are used up, brought to `place` as `into` says.
Operation all_reduce_into(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, DType dtype,
                          std::span<std::byte> place, SumInto into);
/// Every rank's shard to its places in everyone's `whole`. The own shard may lie at its place already.
Operation all_gather(NonBlocking& ranks, Workspace& space, std::span<const std::byte> shard, std::span<std::byte> whole,
                     const ShardMap& map, DType dtype);
/// Each rank's pieces of `whole`, summed over the ranks as all_reduce does, in its shard, which may lie at its place in
/// `whole`, as `into` says.
Operation reduce_scatter(NonBlocking& ranks, Workspace& space, std::span<const std::byte> whole,
                         std::span<std::byte> shard, const ShardMap& map, DType dtype, SumInto into);
Operation broadcast(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, int root);
/// Only the ranks that send to each other take part; each knows the lengths of what it sends and of what it gets. A
/// rank may send to itself.
Operation exchange(NonBlocking& ranks, Workspace& space, std::vector<Part<const std::byte>> sent,
                   std::vector<Part<std::byte>> received);

/// The same of a rank alone: what does not lie at its place already is copied, with turns for others. Local.
Operation gather_alone(std::span<const std::byte> shard, std::span<std::byte> whole, const ShardMap& map, DType dtype);
Operation scatter_alone(std::span<const std::byte> whole, std::span<std::byte> shard, const ShardMap& map, DType dtype,
                        SumInto into);
Operation put_alone(std::span<const std::byte> sum, DType dtype, std::span<std::byte> place, SumInto into);
Operation copy_regions(std::vector<RegionCopy> copies);
Operation copy_alone(std::span<const std::byte> from, std::span<std::byte> into);

}  // namespace lockstep
