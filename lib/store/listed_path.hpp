// Checks that paths in a manifest stay within its folder, even if somebody else wrote the manifest.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// Returns whether `path`, relative to a folder, names something below it. Pure.
inline bool stays_below(const std::string& path) {
  const std::filesystem::path relative(path);
  if (relative.empty() || relative.is_absolute() || path.find('\0') != std::string::npos) return false;
  for (const std::filesystem::path& part : relative) {
    if (part == "..") return false;
  }
  return true;
}

}  // namespace lockstep
