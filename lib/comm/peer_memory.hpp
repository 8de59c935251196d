// This process reads the memory of others on its machine without their help (process_vm_readv of Linux): a copy takes
// the place of messages. Systems may forbid it, so it is tried before it is relied on. Who uses it:
// comm/operations.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

/// Peer lets a reader recognise a process: a number of its own and where that stands. Plain bytes, sent as
/// they are.
struct Peer {
  std::int64_t process = 0;
  std::uint64_t address = 0;
  std::uint64_t number = 0;
};

/// This process. Local.
Peer this_process();
/// Whether this process may read the memory of `peer` and finds its number there: not one on another machine or in
/// another container that happens to have the same process number. Local.
bool is_readable(const Peer& peer);

/// A region of another process's memory and where it goes.
struct RemoteRegion {
  std::uint64_t address = 0;
  std::span<std::byte> into;
};

/// Fills all of them from `peer`, with as few system calls as it takes. False if that process has ended. Local. Throws
/// Error(communication) if the system refuses.
bool read_memory(const Peer& peer, std::span<const RemoteRegion> regions);

}  // namespace lockstep
