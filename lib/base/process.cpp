#include "base/process.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace lockstep {

namespace {

std::int64_t entries_of(const char* folder) {
  std::int64_t count = 0;
  std::error_code status;
  std::filesystem::directory_iterator entry(folder, status);
  for (; !status && entry != std::filesystem::directory_iterator(); entry.increment(status)) ++count;
  return count;
}

}  // namespace

std::int64_t resident_bytes() {
  std::int64_t all = 0, resident = 0;  // pages
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

ProcessHoldings holdings_of_process() {
  ProcessHoldings holdings;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> holdings.resident_kib;
    if (word == "VmHWM:") status >> holdings.peak_kib;
    if (word == "Threads:") status >> holdings.threads;
  }
  status.close();
  holdings.descriptors = entries_of("/proc/self/fd") - 1;  // without the one that lists them
  return holdings;
}

}  // namespace lockstep
