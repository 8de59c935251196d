// Remarks on files that were opened: lines for people, which the caller prints once for all ranks.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct Remarks {
  std::vector<std::string> warnings = {};
  std::vector<std::string> notes = {};
};

/// Names in a line, separated by commas: all of a few, of many the first 20 and "and 7 more". Pure.
std::string listed(const std::vector<std::string>& names);

}  // namespace lockstep
