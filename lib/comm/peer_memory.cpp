#include "comm/peer_memory.hpp"

#include "base/error.hpp"

#include <cerrno>
#include <cstring>
#include <random>

#ifdef __linux__
#include <sys/uio.h>
#endif
#include <unistd.h>

namespace lockstep {

namespace {

/// The bytes read, or −1 with errno.
ssize_t read_some(const Peer& peer, std::uint64_t address, std::span<std::byte> into) {
#ifdef __linux__
  iovec local{into.data(), into.size()};
  iovec remote{reinterpret_cast<void*>(address), into.size()};
  return ::process_vm_readv(static_cast<pid_t>(peer.process), &local, 1, &remote, 1, 0);
#else
  static_cast<void>(peer), static_cast<void>(address), static_cast<void>(into);
  errno = ENOSYS;
  return -1;
#endif
}

}  // namespace

Peer this_process() {
  static const std::uint64_t number = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }();
  return {::getpid(), reinterpret_cast<std::uint64_t>(&number), number};
}

bool is_readable(const Peer& peer) {
  std::uint64_t found = 0;
  const std::span<std::byte> into = std::as_writable_bytes(std::span(&found, 1));
  return read_some(peer, peer.address, into) == static_cast<ssize_t>(into.size()) && found == peer.number;
}

bool read_memory(const Peer& peer, std::uint64_t address, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t count = read_some(peer, address, into);
    if (count < 0 && errno == ESRCH) return false;
    if (count <= 0)
      fail(ExitCode::communication, "reading {} bytes of process {} failed: {}", into.size(), peer.process,
           count < 0 ? std::strerror(errno) : "nothing there");
    address += static_cast<std::uint64_t>(count);
    into = into.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace lockstep
