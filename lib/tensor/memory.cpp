#include "tensor/memory.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"
#include "base/text.hpp"
#include "device/device.hpp"
#include "tensor/arena.hpp"
#include "tensor/live_memory.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>

namespace lockstep {

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t region_bytes = std::size_t{64}
                                     << 20;  // taken from the system at once for blocks that are smaller
constexpr std::size_t smallest_block = std::size_t{64} << 10;
constexpr std::size_t block_alignment = 4096;  // direct I/O reads and writes tensors in place

/// Eight sizes an octave, so that blocks are found again; large blocks, which parameters own for the whole run, waste
/// no more than a page.
std::size_t size_class(std::size_t bytes) {
  if (bytes >= region_bytes / 2) return rounded_up(bytes, huge_page);
  return rounded_up(bytes, std::max(block_alignment, std::bit_floor(bytes) / 8));
}

/// Address space in huge pages where the system has them; aligned to them.
std::byte* map_region(std::size_t bytes) {
  void* const start = mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  const auto address = rounded_up(reinterpret_cast<std::uintptr_t>(start), huge_page);
  auto* const region = reinterpret_cast<std::byte*>(address);
  madvise(region, bytes, MADV_HUGEPAGE);  // a wish: without huge pages the region still works
  return region;
}

/// Free blocks wait in a list by size; a block that is a little larger than asked for will do.
class KeptMemory {
 public:
  void* take(std::size_t bytes) {
    const std::size_t size = size_class(bytes);
    const std::lock_guard lock(mutex_);
    const auto free = free_.lower_bound(size);
    if (free != free_.end() && free->first <= size + size / 8) {
      void* const block = free->second;
      used_.emplace(block, Block{free->first, bytes});
      free_.erase(free);
      return block;
    }
    void* const block = size >= region_bytes / 2 ? map_region(size) : carve(size);
    used_.emplace(block, Block{size, bytes});
    return block;
  }

  /// The bytes that were asked for; nothing if the block is not one of these.
  std::optional<std::size_t> give(void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(block);
    if (found == used_.end()) return std::nullopt;
    const Block given = found->second;
    free_.emplace(given.size, block);
    used_.erase(found);
    return given.requested;
  }

 private:
  struct Block {
    std::size_t size, requested;
  };

  std::byte* carve(std::size_t size) {
    if (left_ < size) {
      region_ = map_region(region_bytes);
      left_ = region_bytes;
    }
    std::byte* const block = region_;
    region_ += size;
    left_ -= size;
    return block;
  }

  std::mutex mutex_;
  std::multimap<std::size_t, void*> free_;
  std::unordered_map<void*, Block> used_;
  std::byte* region_ = nullptr;
  std::size_t left_ = 0;
};

// Tensors with static storage may die after everything else: never destroyed.
KeptMemory& kept_memory(Arena arena = Arena::device) {
  static auto* const memory = new std::array<KeptMemory, 2>;
  return (*memory)[static_cast<std::size_t>(arena)];
}

std::atomic<std::int64_t> host_limit{0};

void release_host(void* block) {
  if (block == nullptr) return;
  count_live_bytes(-static_cast<std::int64_t>(kept_memory(Arena::host).give(block).value()), Arena::host);
}

/// Host memory that a device reads and writes.
struct Pinned {
  std::shared_ptr<std::byte> memory;
  std::int64_t bytes;
};

void release_pinned(void* kept) {
  const std::unique_ptr<Pinned> pinned(static_cast<Pinned*>(kept));
  count_live_bytes(-pinned->bytes, Arena::host);
}

void release(void* block) {
  if (block == nullptr) return;
  const auto requested = kept_memory().give(block);
  count_tensor_bytes(-static_cast<std::int64_t>(requested ? *requested : malloc_usable_size(block)));
  if (!requested) std::free(block);
}

class KeepingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const block = bytes >= smallest_block ? kept_memory().take(bytes) : small(bytes);
    // malloc keeps the size of a small block, and not what was asked for: some bytes less.
    const std::size_t counted = bytes >= smallest_block ? bytes : malloc_usable_size(block);
    count_tensor_bytes(static_cast<std::int64_t>(counted));
    return {block, block, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    std::memcpy(target, source, bytes);
  }

 private:
  static void* small(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    void* const block = std::aligned_alloc(c10::gAlignment, rounded_up(bytes, c10::gAlignment));
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }
};

}  // namespace

void limit_host_memory(std::int64_t bytes) { host_limit = bytes; }

c10::DataPtr host_memory(std::size_t bytes) {
  const std::int64_t held = live_bytes(Arena::host), more = static_cast<std::int64_t>(bytes), limit = host_limit;
  const auto human = [](std::int64_t count) { return human_bytes(static_cast<std::uint64_t>(count)); };
  if (limit > 0 && held + more > limit)
    throw Error(ExitCode::resources,
                fmt::format("cannot take {} of host memory: {} are in use, and the limit is {}", human(more),
                            human(held), human(limit)),
                "raise train.host_memory, or offload less");
  count_live_bytes(more, Arena::host);
  if (!this_device().properties().is_host) {
    auto kept = std::make_unique<Pinned>(pinned_memory(bytes), more);
    void* const block = kept->memory.get();
    return {block, kept.release(), &release_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  void* const block = kept_memory(Arena::host).take(bytes);
  return {block, block, &release_host, c10::Device(c10::DeviceType::CPU)};
}

void keep_memory() {
  // What malloc gets stays with the process, and large blocks come from its heap as well, which mallopt can only
  // express as "no mappings".
  mallopt(M_MMAP_MAX, 0);
  constexpr int never = -1;
  mallopt(M_TRIM_THRESHOLD, never);
  mallopt(M_TOP_PAD, 64 << 20);
  // Small blocks that are free again are joined with their neighbours: kept apart by their sizes, those of the thread
  // that communicates, which grow as a call is put together, were never used again, and each step took new memory.
  mallopt(M_MXFAST, 0);
  static KeepingAllocator allocator;
  constexpr std::uint8_t above_default = 1;
  c10::SetCPUAllocator(&allocator, above_default);
}

}  // namespace lockstep
