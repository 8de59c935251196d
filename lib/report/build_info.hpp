// Describes this build: version, compiler, libraries. For --version, --build-info and the run record.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

std::string_view version();                                     // "0.1.0"
std::vector<std::pair<std::string, std::string>> build_info();  // "compiler" -> "gcc 12.2.0", …; keys are record keys

}  // namespace lockstep
