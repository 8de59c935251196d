#include "comm/peer_memory.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>

#ifdef __linux__
#include <sys/uio.h>
#endif
#include <unistd.h>

namespace lockstep {

namespace {

#ifdef __linux__
constexpr std::size_t most_regions = 256;  // of one system call; the system allows 1024

/// The bytes read of the first regions, without the `done` first bytes of the very first, or −1 with errno.
ssize_t read_some(const Peer& peer, std::span<const RemoteRegion> regions, std::size_t done) {
  std::array<iovec, most_regions> local, remote;
  const std::size_t count = std::min(most_regions, regions.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i == 0 ? done : 0, length = regions[i].into.size() - begin;
    local[i] = {regions[i].into.data() + begin, length};
    remote[i] = {reinterpret_cast<void*>(regions[i].address + begin), length};
  }
  return ::process_vm_readv(static_cast<pid_t>(peer.process), local.data(), count, remote.data(), count, 0);
}
#else
ssize_t read_some(const Peer&, std::span<const RemoteRegion>, std::size_t) {
  errno = ENOSYS;
  return -1;
}
#endif

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
  const RemoteRegion region{peer.address, std::as_writable_bytes(std::span(&found, 1))};
  return read_some(peer, {&region, 1}, 0) == static_cast<ssize_t>(sizeof found) && found == peer.number;
}

bool read_memory(const Peer& peer, std::span<const RemoteRegion> regions) {
  for (std::size_t done = 0;;) {  // of the first region
    for (; !regions.empty() && done >= regions.front().into.size(); regions = regions.subspan(1))
      done -= regions.front().into.size();
    if (regions.empty()) return true;
    const ssize_t count = read_some(peer, regions, done);
    if (count < 0 && errno == ESRCH) return false;
    if (count <= 0)
      fail(ExitCode::communication, "reading {} bytes of process {} failed: {}", regions.front().into.size() - done,
           peer.process, count < 0 ? std::strerror(errno) : "no data");
    done += static_cast<std::size_t>(count);
  }
}

}  // namespace lockstep
