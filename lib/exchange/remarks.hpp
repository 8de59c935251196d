// Remarks on opened files: lines for people. The caller prints them once for all ranks.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct Remarks {
  std::vector<std::string> warnings = {};
  std::vector<std::string> notes = {};
};

/// Returns names separated by commas; of a long list the first 20 and "and 7 more". Pure.
std::string listed(const std::vector<std::string>& names);

}  // namespace lockstep
