// What the sources of the operations share: sizes, meetings, and the reading of other ranks' memory.
#pragma once

#include "comm/operations.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::parts {

/// Bytes that are reduced, read or sent in one turn: operands and result stay in cache, and other lanes wait little.
constexpr std::size_t piece_bytes = std::size_t{1} << 20;
/// Bytes from which reading each other's memory pays for its meetings.
constexpr std::size_t direct_bytes = std::size_t{4} << 20;

inline std::size_t size_of(const NonBlocking& ranks) { return static_cast<std::size_t>(ranks.size()); }
inline std::size_t rank_of(const NonBlocking& ranks) { return static_cast<std::size_t>(ranks.rank()); }
inline std::size_t width_of(DType dtype) { return static_cast<std::size_t>(lockstep::size_of(dtype)); }

inline bool reads_directly(const NonBlocking& ranks, std::size_t bytes) {
  return bytes >= direct_bytes && !ranks.readable().empty();
}

inline Operation::Ended ended(NonBlocking& ranks, std::vector<NonBlocking::Call>& calls) { return {&ranks, calls}; }
constexpr Operation::Ended others_turn;

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span<T>(&value, 1));
}

inline std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

/// The first `bytes` of the wire buffer.
std::span<std::byte> wire_of(Workspace& space, std::size_t bytes);

/// Starts to tell all ranks where this one's memory is; when it ends, theirs is there and known in space.addresses.
void start_addresses(NonBlocking& ranks, Workspace& space, const void* memory);

/// Starts a meeting of all ranks: when it ends, none of them reads any more.
void start_meeting(NonBlocking& ranks, Workspace& space);

/// Reads memory of `peer`. Of a rank that has ended nothing comes. Then the next meeting does not happen, and who
/// watches over the ranks ends the job.
void read(const NonBlocking& ranks, std::size_t peer, std::span<const RemoteRegion> regions);
void read(const NonBlocking& ranks, std::size_t peer, std::uint64_t address, std::span<std::byte> into);

/// Where operands of `length` bytes each lie in `wire`, by rank: in space.operands.
void point_at_operands(const NonBlocking& ranks, Workspace& space, std::span<const std::byte> wire, std::size_t length);

}  // namespace lockstep::parts
