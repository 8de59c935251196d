#include "base/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();

/// A mapped file as the handler of SIGBUS sees it. It is never freed, because a handler may read it at any time; an
/// unused one is used again.
struct Mapping {
  std::atomic<std::uintptr_t> begin{0};  // 0: not in use
  std::atomic<std::uintptr_t> end{0};
  std::atomic<std::uint64_t> lost{none};  // the first byte of the file that could not be read
  Mapping* next = nullptr;
  Path path = {};  // from here on: for the holder of the file alone
  dev_t device = 0;
  ino_t inode = 0;
  std::uint64_t bytes = 0;
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<Mapping*>::is_always_lock_free);

std::atomic<Mapping*> first_mapping{nullptr};

struct Mappings {
  std::mutex mutex;  // guards the other members
  std::unordered_map<std::uintptr_t, Mapping*> by_begin;
  std::vector<Mapping*> unused;
};

Mappings& mappings() {
  static auto* const all = new Mappings;  // for ever: files may be unmapped as the process ends
  return *all;
}

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

void add_mapping(std::span<const std::byte> memory, const Path& path, const struct stat& status) {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  Mapping* mapping = nullptr;
  if (all.unused.empty()) {
    all.unused.reserve(all.by_begin.size() + 1);  // so that none fails to be given back
    mapping = new Mapping;
    mapping->next = first_mapping;
    first_mapping = mapping;
  } else {
    mapping = all.unused.back();
    all.unused.pop_back();
  }
  all.by_begin[address_of(memory.data())] = mapping;
  mapping->lost = none;
  mapping->path = path;
  mapping->device = status.st_dev;
  mapping->inode = status.st_ino;
  mapping->bytes = memory.size();
  mapping->end = address_of(memory.data()) + memory.size();
  mapping->begin = address_of(memory.data());
}

void remove_mapping(std::span<const std::byte> memory) {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_begin.find(address_of(memory.data()));
  found->second->begin = 0;
  all.unused.push_back(found->second);
  all.by_begin.erase(found);
}

const Mapping& mapping_of(const MappedFile& file) {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  return *all.by_begin.at(address_of(file.bytes().data()));
}

std::uintptr_t page_bytes() {
  static const auto bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// The functions up to handle_bus_error are async-signal-safe.

/// Returns whether the fault was in a mapped file. The file then reads as zeros from this page on: its readers fail in
/// any case, and a disk may take half a minute to fail for each page.
bool replace_pages(std::uintptr_t address) {
  for (Mapping* mapping = first_mapping; mapping != nullptr; mapping = mapping->next) {
    const std::uintptr_t begin = mapping->begin, end = mapping->end;
    if (begin == 0 || address < begin || address >= end) continue;
    const std::uintptr_t page = address - address % page_bytes();
    std::uint64_t before = mapping->lost;
    while (page - begin < before && !mapping->lost.compare_exchange_weak(before, page - begin)) {
    }
    return ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                  0) != MAP_FAILED;
  }
  return false;
}

void tell_bus_error(std::uintptr_t address) {
  constexpr std::string_view begin = "bus error (SIGBUS) at address 0x", digits = "0123456789abcdef",
                             end =
                                 ": a mapped file or device cannot be read or written (is /dev/shm full?); "
                                 "the process ends\n";
  std::array<char, 256> line{};
  char* out = std::ranges::copy(begin, line.data()).out;
  for (int shift = 8 * sizeof address - 4; shift >= 0; shift -= 4) *out++ = digits[address >> shift & 15];
  out = std::ranges::copy(end, out).out;
  (void)!::write(STDERR_FILENO, line.data(), static_cast<std::size_t>(out - line.data()));
}

struct sigaction before_ours{};  // the handler that ours replaced
std::atomic<bool> is_ending{false};

extern "C" void handle_bus_error(int signal, siginfo_t* info, void*) {
  const int before = errno;
  const std::uintptr_t address = address_of(info->si_addr);
  const bool sent = info->si_code <= 0;  // by a process, about no memory
  if (sent || !replace_pages(address)) {
    if (!sent) tell_bus_error(address);
    // The access is repeated under the handler before ours, or, if that one called ours again, under the default.
    if (is_ending.exchange(true)) before_ours.sa_handler = SIG_DFL;
    ::sigaction(signal, &before_ours, nullptr);
    if (sent) ::raise(signal);
  }
  errno = before;
}

/// Returns the system's reason why a file cannot be read at a byte.
std::string reason_at(const Path& path, std::uint64_t byte) {
  std::byte one{};
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 || ::pread(file.get(), &one, 1, static_cast<off_t>(byte)) < 0) return std::strerror(errno);
  return "the system could not read it";
}

[[noreturn]] void fail_lost(const Path& path, std::uint64_t byte, const std::string& why) {
  throw Error(ExitCode::storage, fmt::format("cannot read {} from byte {} on: {}", path.string(), byte, why),
              "a file must not change while a program reads it: restore it and start again");
}

}  // namespace

void handle_bus_errors() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  (void)page_bytes();
  struct sigaction now{};
  ::sigaction(SIGBUS, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == handle_bus_error) return;
  before_ours = now;
  struct sigaction action{};
  action.sa_sigaction = handle_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

void require_intact(const MappedFile& file) {
  if (file.bytes().empty()) return;
  const Mapping& mapping = mapping_of(file);
  // The last page of a file that was cut short reads as zeros behind the new end, without a signal.
  struct stat status{};
  const bool same = ::stat(mapping.path.c_str(), &status) == 0 && status.st_dev == mapping.device &&
                    status.st_ino == mapping.inode;  // else the mapped file has no name any more
  if (const auto bytes = static_cast<std::uint64_t>(status.st_size); same && bytes < mapping.bytes)
    fail_lost(mapping.path, bytes, fmt::format("it had {} bytes and was truncated while in use", mapping.bytes));
  if (const std::uint64_t lost = mapping.lost; lost != none)
    fail_lost(mapping.path, lost, reason_at(mapping.path, lost));
}

MappedFile::MappedFile(const Path& path) {
  const FileDescriptor file = open_regular(path);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail_errno("map", path);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  handle_bus_errors();
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) fail_errno("map", path);
  bytes_ = {static_cast<const std::byte*>(address), size};
  try {
    add_mapping(bytes_, path, status);
  } catch (...) {
    ::munmap(address, size);
    throw;
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  remove_mapping(bytes_);  // first: another thread may map what lies there next
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace lockstep
