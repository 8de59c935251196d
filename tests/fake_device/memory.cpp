#include "memory.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"
#include "queues.hpp"

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

namespace lockstep::fake {

namespace {

constexpr std::size_t granule = 512;  // as of CUDA's caching allocator

std::byte* closed_start = nullptr;
std::byte* open_start = nullptr;
std::size_t size_of_all = 0;

std::mutex blocks_mutex;
auto& free_blocks = *new std::map<std::size_t, std::size_t>;  // by offset: bytes; neighbours are joined
struct UsedBlock {
  std::size_t bytes, asked;
};
auto& used_blocks = *new std::map<std::size_t, UsedBlock>;
std::int64_t in_use = 0, peak = 0;
std::int64_t allocations = 0;
MemoryFaults faults;
void (*count_of_program)(std::int64_t bytes) = nullptr;

std::mutex pinned_mutex;
auto& pinned = *new std::map<const std::byte*, std::size_t>;  // static tensors may be freed after all else

void say(const char* text) { static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text))); }

/// The host touched memory of the device: says which thread did, and ends the process.
void on_fault(int, siginfo_t* info, void*) {
  std::array<char, 32> name{};
  ::prctl(PR_GET_NAME, name.data());
  if (is_closed(info->si_addr)) {
    say("fake device: the host touched device memory, in thread ");
    say(name.data());
    say("\n");
  }
  std::signal(SIGSEGV, SIG_DFL);
  ::raise(SIGSEGV);
}

std::size_t offset_of(const void* address) {
  return static_cast<std::size_t>(static_cast<const std::byte*>(address) - closed_start);
}

void give(void* address) {
  if (address == nullptr) return;
  const std::size_t offset = offset_of(address);
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(blocks_mutex);
    const auto used = used_blocks.find(offset);
    bytes = used->second.bytes;
    count_of_program(-static_cast<std::int64_t>(used->second.asked));
    used_blocks.erase(used);
    in_use -= static_cast<std::int64_t>(bytes);
    auto place = free_blocks.emplace(offset, bytes).first;
    if (const auto next = std::next(place); next != free_blocks.end() && place->first + place->second == next->first) {
      place->second += next->second;
      free_blocks.erase(next);
    }
    if (place != free_blocks.begin()) {
      const auto before = std::prev(place);
      if (before->first + before->second == place->first) {
        before->second += place->second;
        free_blocks.erase(place);
      }
    }
  }
  submit(DeviceQueue::compute, [to = open_start + offset, bytes] { std::memset(to, 0xff, bytes); });
}

class TensorMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device = tensor_device();
    if (bytes == 0) return {nullptr, device};
    const std::size_t size = rounded_up(bytes, granule);
    std::unique_lock lock(blocks_mutex);
    const auto fits = std::ranges::find_if(free_blocks, [&](const auto& block) { return block.second >= size; });
    TORCH_CHECK_WITH(OutOfMemoryError, ++allocations != faults.no_memory_at && fits != free_blocks.end(),
                     "fake device: out of memory: asked for ", bytes, " bytes, of ", size_of_all, " are ", in_use,
                     " in use");
    const auto [offset, whole] = *fits;
    free_blocks.erase(fits);
    if (whole > size) free_blocks.emplace(offset + size, whole - size);
    used_blocks.emplace(offset, UsedBlock{size, bytes});
    count_of_program(static_cast<std::int64_t>(bytes));
    in_use += static_cast<std::int64_t>(size);
    peak = std::max(peak, in_use);
    std::byte* const address = closed_start + offset;
    if (allocations == faults.freed_early) {
      lock.unlock();
      give(address);
      return {address, address, [](void*) {}, device};
    }
    return {address, address, &give, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    submit(DeviceQueue::compute, [to = opened(to), from = opened(from), bytes] { std::memcpy(to, from, bytes); });
  }
};

}  // namespace

namespace {
int index_in_use = 0;
}

c10::Device tensor_device() { return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index_in_use)}; }
void set_tensor_device(int index) { index_in_use = index; }

void reserve_memory(std::size_t bytes, const MemoryFaults& to_have, void (*count)(std::int64_t bytes)) {
  faults = to_have;
  count_of_program = count;
  const int file = ::memfd_create("fake device", 0);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0)
    fail(ExitCode::resources, "cannot reserve {} bytes for the fake device", bytes);
  void* const open = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  void* const closed = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  ::close(file);
  if (open == MAP_FAILED || closed == MAP_FAILED) fail(ExitCode::resources, "cannot map memory of the fake device");
  open_start = static_cast<std::byte*>(open);
  closed_start = static_cast<std::byte*>(closed);
  size_of_all = bytes;
  free_blocks.emplace(0, bytes);
  struct sigaction action{};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSEGV, &action, nullptr);
}

std::size_t reserved_bytes() { return size_of_all; }

c10::Allocator* tensor_memory() {
  static auto* const memory = new TensorMemory;
  return memory;
}

std::int64_t bytes_in_use() {
  const std::lock_guard lock(blocks_mutex);
  return in_use;
}

std::int64_t peak_bytes_in_use() {
  const std::lock_guard lock(blocks_mutex);
  return peak;
}

bool is_closed(const void* address) {
  const auto* const place = static_cast<const std::byte*>(address);
  return place >= closed_start && place < closed_start + size_of_all;
}

void* opened(const void* closed) {
  if (closed == nullptr) return nullptr;
  if (is_pinned(closed)) return const_cast<void*>(closed);  // a device reads pinned memory in place
  invariant(is_closed(closed), "a job of the device gets memory of the device");
  return open_start + offset_of(closed);
}

std::shared_ptr<std::byte> pinned_memory(std::size_t bytes) {
  auto* const memory =
      static_cast<std::byte*>(std::aligned_alloc(granule, rounded_up(std::max(bytes, granule), granule)));
  if (memory == nullptr) throw std::bad_alloc();
  {
    const std::lock_guard lock(pinned_mutex);
    pinned.emplace(memory, rounded_up(std::max(bytes, granule), granule));
  }
  return {memory, [](std::byte* block) {
            {
              const std::lock_guard lock(pinned_mutex);
              pinned.erase(block);
            }
            std::free(block);
          }};
}

bool is_pinned(const void* address) {
  const auto* const place = static_cast<const std::byte*>(address);
  const std::lock_guard lock(pinned_mutex);
  auto after = pinned.upper_bound(place);
  if (after == pinned.begin()) return false;
  --after;
  return place < after->first + after->second;
}

}  // namespace lockstep::fake
