#include "checkpoint/snapshot.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "device/device.hpp"
#include "store/part_file.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

namespace lockstep {

namespace {

constexpr std::uint64_t copied_at_once = 4 << 20;
constexpr std::size_t most_threads = 4;

std::uint64_t rounded_to_pages(std::uint64_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

// Where the next piece goes: those that may go around the page cache at a page, others as they come.
std::uint64_t place_for(std::uint64_t at, std::uint64_t bytes) {
  constexpr std::uint64_t element = 8;
  return bytes >= page_bytes ? rounded_to_pages(at) : (at + element - 1) / element * element;
}

struct Copy {
  std::byte* to;
  std::span<const std::byte> from;
};

void carry_out(const std::vector<Copy>& copies) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < copies.size(); i = next++)
      std::memcpy(copies[i].to, copies[i].from.data(), copies[i].from.size());
  };
  std::vector<std::jthread> helpers;
  const std::size_t threads = std::min({most_threads, copies.size(), std::size_t{std::thread::hardware_concurrency()}});
  try {
    while (helpers.size() + 1 < threads) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // fewer do the same
  }
  work();
}

}  // namespace

void Snapshot::reserve(std::uint64_t bytes) {
  if (bytes <= capacity_) return;
  memory_.reset();
  capacity_ = 0;
  const std::uint64_t whole = rounded_to_pages(bytes);
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(page_bytes, whole)));
  if (!memory_)
    throw Error(ExitCode::resources, fmt::format("cannot allocate {} for a copy of the state", human_bytes(whole)),
                "lower checkpoint.snapshot_memory to copy in several rounds, or set checkpoint.background to false, "
                "which needs no copy");
  std::memset(memory_.get(), 0, whole);
  capacity_ = whole;
}

std::uint64_t Snapshot::room_for(std::span<const Region> pieces) {
  std::uint64_t at = 0;
  for (const Region& piece : pieces) at = place_for(at, piece.bytes) + piece.bytes;
  return rounded_to_pages(at);
}

std::vector<std::span<const std::byte>> Snapshot::take(std::span<const Region> pieces) {
  std::vector<std::span<const std::byte>> taken;
  std::vector<Copy> copies;
  std::vector<RegionCopy> of_device;
  std::uint64_t at = 0;
  for (const Region& piece : pieces) {
    at = place_for(at, piece.bytes);
    if (at + piece.bytes > capacity_) break;
    std::byte* const to = memory_.get() + at;
    if (is_host_memory(piece)) {
      const std::span<const std::byte> bytes = host_bytes(piece);
      for (std::uint64_t done = 0; done < bytes.size(); done += copied_at_once)
        copies.push_back(
            {to + done, bytes.subspan(done, std::min<std::uint64_t>(copied_at_once, bytes.size() - done))});
    } else if (piece.bytes > 0) {
      of_device.push_back({piece, {Arena::host, to, piece.bytes}});
    }
    taken.emplace_back(to, piece.bytes);
    at += piece.bytes;
  }
  invariant(pieces.empty() || !taken.empty(), "the memory of a snapshot holds its largest piece");
  DeviceMoment copied;
  if (!of_device.empty()) {
    this_device().follow(DeviceQueue::from_device, this_device().record(DeviceQueue::compute));
    this_device().copy(of_device, DeviceQueue::from_device);
    copied = this_device().record(DeviceQueue::from_device);
  }
  carry_out(copies);
  if (copied) this_device().wait(copied);
  return taken;
}

}  // namespace lockstep
