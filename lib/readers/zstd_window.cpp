#include "readers/zstd_window.hpp"

#include "base/error.hpp"
#include "base/machine_memory.hpp"
#include "base/text.hpp"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace lockstep {

namespace {

constexpr std::uint64_t small_window = std::uint64_t{1} << 27;  // that every decoder has to take: not looked for
constexpr std::uint64_t most_window = std::uint64_t{1} << most_zstd_window_log;

std::uint64_t little_endian(std::span<const char> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

std::uint64_t zstd_window(std::span<const char> frame) {
  constexpr std::uint64_t magic = 0xFD2FB528;
  constexpr std::size_t magic_bytes = 4;
  if (frame.size() <= magic_bytes + 1 || little_endian(frame.first(magic_bytes)) != magic) return 0;
  const auto descriptor = static_cast<unsigned char>(frame[magic_bytes]);
  const std::span<const char> fields = frame.subspan(magic_bytes + 1);
  const bool is_single_segment = (descriptor & 0x20) != 0;
  if (!is_single_segment) {
    const auto window = static_cast<unsigned char>(fields[0]);
    const std::uint64_t base = std::uint64_t{1} << (10 + (window >> 3));
    return base + base / 8 * (window & 7);
  }
  constexpr std::array<std::size_t, 4> id_bytes{0, 1, 2, 4}, size_bytes{1, 2, 4, 8};
  const std::size_t ids = id_bytes[descriptor & 3], sizes = size_bytes[descriptor >> 6];
  if (fields.size() < ids + sizes) return 0;
  return little_endian(fields.subspan(ids, sizes)) + (sizes == 2 ? 256 : 0);  // the content is the window
}

void require_zstd_window(const std::string& file, std::uint64_t window) {
  if (window <= small_window) return;
  if (window > most_window)
    throw Error(ExitCode::input,
                fmt::format("{}: cannot decompress: its window is {}, but zstd supports at most {}", file,
                            human_bytes(window), human_bytes(most_window)),
                "compress it again with --long=31 or less");
  for (const MemoryLimit& limit : memory_limits())
    if (limit.available_bytes < static_cast<std::int64_t>(window))
      refuse_zstd_window(file, window,
                         fmt::format("{} available {}", human_bytes(static_cast<std::uint64_t>(limit.available_bytes)),
                                     limit.group.empty() ? "on the machine" : "in the control group " + limit.group));
  void* const trial = ::mmap(nullptr, window, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (trial == MAP_FAILED) refuse_zstd_window(file, window, std::strerror(errno));  // as a limit of the process
  ::munmap(trial, window);
}

void refuse_zstd_window(const std::string& file, std::uint64_t window, const std::string& reason) {
  throw Error(
      ExitCode::resources,
      fmt::format("{}: cannot decompress: its window needs {} of memory: {}", file, human_bytes(window), reason),
      "start fewer ranks on a machine, or compress it again without --long");
}

}  // namespace lockstep
