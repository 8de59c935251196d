// Reads the memory of other processes on this machine without their help (process_vm_readv of Linux), instead of
// messages. A system may forbid it, so it is tried before it is used. The users are the operations of
// comm/operations.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

/// Peer identifies a process to a reader: a random number and its address. Plain bytes, sent unchanged.
struct Peer {
  std::int64_t process = 0;
  std::uint64_t address = 0;
  std::uint64_t number = 0;
};

/// This process. Local.
Peer this_process();
/// Whether this process can read the memory of `peer` and finds its number there. False for a process on another
/// machine or in another container that happens to have the same process number. Local.
bool is_readable(const Peer& peer);

/// A region of another process's memory and its destination here.
struct RemoteRegion {
  std::uint64_t address = 0;
  std::span<std::byte> into;
};

/// Fills all regions from `peer`, with as few system calls as possible. Returns false if that process has ended. Local.
/// Throws Error(communication) if the system refuses.
bool read_memory(const Peer& peer, std::span<const RemoteRegion> regions);

}  // namespace lockstep
