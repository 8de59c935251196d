// A verification tells whether a checkpoint is what its manifest says, as deeply as asked, and what exactly is damaged
// where it is not. store/verdict.hpp says what the verdicts mean for a run.
#pragma once

#include "base/files.hpp"
#include "base/verify_level.hpp"
#include "store/verdict.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct StoredFile;

/// A defect is what is wrong, found at the level that looks for it.
struct Defect {
  VerifyLevel level = VerifyLevel::manifest;
  std::string file;    // within the checkpoint
  std::string tensor;  // full name; empty if the defect is not in one
  std::string message;
  Verdict verdict = Verdict::damaged;
  std::string hint = {};
};

struct Verification {
  VerifyLevel reached = VerifyLevel::manifest;  // the deepest level that was looked at
  std::uint64_t bytes = 0;                      // that were read
  std::vector<Defect> defects;
  /// The verdict that follows from the defects, with the first one of it: what the storage did not tell comes before
  /// what contradicts itself. Pure.
  Judgement judgement() const;
};

/// Looks at all levels up to `level`: manifest (it and the index match their hashes, and it is of the step that the
/// folder is named by), sizes (all files are there with their lengths), coverage (each element of each tensor is in
/// exactly one piece), hashes (every block and every other byte, and no file besides), fingerprints (elements make up
/// pieces, pieces tensors, tensors the state digest). Goes on after a defect as far as it can; never throws for what it
/// finds. A file that is missing is damage: this is one look by one process. Local.
Verification verify_checkpoint(const Path& checkpoint, VerifyLevel level);

/// The same as a verdict. Local.
Judgement judge_checkpoint(const Path& checkpoint, VerifyLevel level);

/// What is wrong with the length of a file that a manifest lists; nothing if it is as it should be. Pure.
std::optional<std::string> length_defect(const StoredFile& file, const std::optional<std::uint64_t>& length);

/// A sighting is what one process sees of a checkpoint without its tensors. Ranks compare it:
/// checkpoint/agreed_view.hpp.
struct Sighting {
  Judgement judgement;     // of the manifest, and of the storage; a lacking file is not in it
  std::string lacking;     // the first file that is missing or has not the length that the manifest says, as one line
  bool elsewhere = false;  // a file that lacks lies on storage of a node's own
  std::string content;     // equal for equal names, lengths and manifests
  std::string manifest;    // its hash; empty: none that can be read
  std::vector<std::optional<std::string>> defects;  // by file of the manifest: what is wrong with its length
};
/// Local. Never throws for what it finds.
Sighting see_checkpoint(const Path& checkpoint);

}  // namespace lockstep
