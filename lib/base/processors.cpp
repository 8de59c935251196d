#include "base/processors.hpp"

#include "base/text.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

namespace {

constexpr pid_t this_thread = 0;

int processors_of(pid_t process) {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (sched_getaffinity(process, sizeof processors, &processors) != 0) return 1;
  return std::max(1, CPU_COUNT(&processors));
}

std::optional<int> number_of(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

int usable_processors() { return processors_of(this_thread); }

bool is_bound_by_launcher() { return usable_processors() < processors_of(getppid()); }

std::vector<int> processors_of_numa_node(int node, const Path& root) {
  std::ifstream file(root / ("sys/devices/system/node/node" + std::to_string(node) + "/cpulist"));
  std::string list;
  std::getline(file, list);
  std::vector<int> processors;
  for (const std::string& part : split(list, ',')) {  // "0-3,8"
    const std::size_t dash = part.find('-');
    const auto first = number_of(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos ? first : number_of(std::string_view(part).substr(dash + 1));
    for (int one = first.value_or(0); first && last && one <= *last; ++one) processors.push_back(one);
  }
  return processors;
}

void use_processors(const std::vector<int>& processors) {
  for (const Path& thread : list_folder("/proc/self/task")) {
    const auto id = number_of(thread.filename().string());
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (!id || sched_getaffinity(*id, sizeof allowed, &allowed) != 0) continue;
    cpu_set_t wanted;
    CPU_ZERO(&wanted);
    for (const int one : processors)
      if (one < CPU_SETSIZE && CPU_ISSET(static_cast<std::size_t>(one), &allowed))
        CPU_SET(static_cast<std::size_t>(one), &wanted);
    if (CPU_COUNT(&wanted) > 0) static_cast<void>(sched_setaffinity(*id, sizeof wanted, &wanted));
  }
}

}  // namespace lockstep
