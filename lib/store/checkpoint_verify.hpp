// Whether a checkpoint is what its manifest says, as deeply as asked; and what exactly is damaged where it is not.
#pragma once

#include "base/files.hpp"
#include "config/inspect_config.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

std::string_view name_of(VerifyLevel level);

/// What is wrong, found at the level that looks for it.
struct Defect {
  VerifyLevel level = VerifyLevel::manifest;
  std::string file;    // within the checkpoint
  std::string tensor;  // full name; empty if the defect is not in one
  std::string message;
};

struct Verification {
  VerifyLevel reached = VerifyLevel::manifest;  // the deepest level that was looked at
  std::uint64_t bytes = 0;                      // that were read
  std::vector<Defect> defects;
};

/// Looks at all levels up to `level`: manifest (it and the index match their hashes, and it is of the step that the
/// folder is named by), sizes (all files are there with their lengths), coverage (each element of each tensor is in
/// exactly one piece), hashes (every block and every other byte, and no file besides), fingerprints (elements make up
/// pieces, pieces tensors, tensors the state digest). Goes on after a defect as far as it can; never throws for damage.
/// Local.
Verification verify_checkpoint(const Path& checkpoint, VerifyLevel level);

/// The first defect as one line, if there is one: what decides whether a job resumes from it.
std::optional<std::string> first_defect(const Path& checkpoint, VerifyLevel level);

}  // namespace lockstep
