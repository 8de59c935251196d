#include "base/process.hpp"

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

ProcessHoldings holdings_of_process() {
  ProcessHoldings holdings;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> holdings.resident_kib;
    if (word == "Threads:") status >> holdings.threads;
  }
  status.close();
  holdings.descriptors = entries_of("/proc/self/fd") - 1;  // without the one that lists them
  return holdings;
}

}  // namespace lockstep
