// Parts that the sources of the operations (comm/operations.hpp) share: sizes, meetings, and reading memory of other
// ranks.
#pragma once

#include "comm/operations.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::parts {

/// Bytes that are reduced, read or sent in one turn. Operands and result stay in cache, and other lanes wait only
/// briefly.
constexpr std::size_t piece_bytes = std::size_t{1} << 20;
/// From this number of bytes on, reading each other's memory is faster despite its meetings.
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

/// Starts to tell all ranks the address of `memory`. At its end the addresses of all ranks are in space.addresses.
void start_addresses(NonBlocking& ranks, Workspace& space, const void* memory);

/// Starts a meeting of all ranks. At its end no rank reads memory of another one any more.
void start_meeting(NonBlocking& ranks, Workspace& space);

/// Reads memory of `peer`. If that rank has ended, nothing is read. Then the next meeting does not happen, and the
/// watchdog of the ranks ends the job.
void read(const NonBlocking& ranks, std::size_t peer, std::span<const RemoteRegion> regions);
void read(const NonBlocking& ranks, std::size_t peer, std::uint64_t address, std::span<std::byte> into);

/// Sets space.operands to the operands in `wire`, which are `length` bytes long each, by rank.
void point_at_operands(const NonBlocking& ranks, Workspace& space, std::span<const std::byte> wire, std::size_t length);

}  // namespace lockstep::parts
