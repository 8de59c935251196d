// The levels of verification of a checkpoint. A user chooses one for checkpoint-inspect (config/inspect_config.hpp);
// store/checkpoint_verify.hpp does the checks.
#pragma once

#include <array>
#include <string_view>

namespace lockstep {

/// VerifyLevel lists the levels; each includes the ones before it.
enum class VerifyLevel { manifest, sizes, coverage, hashes, fingerprints };

inline constexpr std::array all_verify_levels{VerifyLevel::manifest, VerifyLevel::sizes, VerifyLevel::coverage,
                                              VerifyLevel::hashes, VerifyLevel::fingerprints};

constexpr std::string_view name_of(VerifyLevel level) {
  switch (level) {
    case VerifyLevel::manifest: return "manifest";
    case VerifyLevel::sizes: return "sizes";
    case VerifyLevel::coverage: return "coverage";
    case VerifyLevel::hashes: return "hashes";
    case VerifyLevel::fingerprints: return "fingerprints";
  }
  return "unknown";
}

}  // namespace lockstep
