#include "base/machine_memory.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace lockstep {

namespace {

/// Empty if there is no such file.
std::string text_of(const Path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<std::int64_t> number_of(std::string_view text) {
  text = trim(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;  // "max", or more than 2^63: no limit
  return value;
}

/// The number behind `key` at the beginning of a line.
std::optional<std::int64_t> value_of(const std::string& text, std::string_view key) {
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(key)) return number_of(std::string_view(line).substr(key.size()));
  }
  return std::nullopt;
}

/// The names of one version's files.
struct Controller {
  const char* folder;  // where its groups are mounted
  const char* limit;
  const char* usage;
  const char* inactive_files;  // keys of memory.stat
  const char* active_files;
};
constexpr Controller version_1{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file ", "total_active_file "};
constexpr Controller version_2{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ", "active_file "};

class Limits {
 public:
  explicit Limits(const Path& root) : root_(root) {
    const std::string meminfo = text_of(root / "proc/meminfo");
    constexpr std::int64_t kibi = 1024;
    machine_ = std::string(trim(text_of(root / "proc/sys/kernel/random/boot_id")));
    const auto total = value_of(meminfo, "MemTotal:");
    const auto available = value_of(meminfo, "MemAvailable:");
    if (total && available) found_.push_back({machine_, "", *total * kibi, *available * kibi});
  }

  /// The group at `path` and those around it. A container may not see the outer ones, and finds its own at the top.
  void add_groups(const Controller& controller, std::string path) {
    while (true) {
      add_group(controller, path);
      if (path.empty() || path == "/") return;
      path.erase(path.rfind('/'));
    }
  }

  std::vector<MemoryLimit> take() && { return std::move(found_); }

 private:
  void add_group(const Controller& controller, const std::string& path) {
    const Path folder = root_ / controller.folder / path.substr(std::min<std::size_t>(path.size(), 1));
    const auto limit = number_of(text_of(folder / controller.limit));
    const auto usage = number_of(text_of(folder / controller.usage));
    struct stat status{};
    if (!limit || !usage || ::stat(folder.c_str(), &status) != 0) return;
    if (!found_.empty() && found_.front().group.empty() && *limit >= found_.front().total_bytes) return;
    const std::string statistics = text_of(folder / "memory.stat");
    const std::int64_t cache = value_of(statistics, controller.inactive_files).value_or(0) +
                               value_of(statistics, controller.active_files).value_or(0);
    const std::int64_t available = std::clamp<std::int64_t>(*limit - *usage + cache, 0, *limit);
    found_.push_back({fmt::format("{} {}", machine_, status.st_ino), path.empty() ? "/" : path, *limit, available});
  }

  Path root_;
  std::string machine_;
  std::vector<MemoryLimit> found_;
};

}  // namespace

std::vector<MemoryLimit> memory_limits(const Path& root) {
  Limits limits(root);
  for (const std::string& line : split(text_of(root / "proc/self/cgroup"), '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::vector<std::string> controllers = split(line.substr(first + 1, second - first - 1), ',');
    const bool of_memory = std::ranges::find(controllers, "memory") != controllers.end();
    if (of_memory) limits.add_groups(version_1, line.substr(second + 1));
    if (line.starts_with("0::")) limits.add_groups(version_2, line.substr(second + 1));
  }
  return std::move(limits).take();
}

}  // namespace lockstep
