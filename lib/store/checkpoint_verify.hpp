// Verifies a checkpoint against its manifest, as deeply as asked, and lists the damage. The meaning of verdicts for a
// run: store/verdict.hpp. The lost elements: store/lost_elements.hpp.
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

/// Something wrong in a checkpoint, with the level that finds it.
struct Defect {
  VerifyLevel level = VerifyLevel::manifest;
  std::string file;    // within the checkpoint
  std::string tensor;  // full name; empty if the defect is not in a tensor
  std::string message;
  Verdict verdict = Verdict::damaged;
  std::string hint = {};
};

struct Verification {
  VerifyLevel reached = VerifyLevel::manifest;  // the deepest level that was checked
  std::uint64_t bytes = 0;                      // bytes read
  std::vector<Defect> defects;
  /// Returns the verdict that follows from the defects, with its first defect: unreadable before foreign before
  /// damaged. Pure.
  Judgement judgement() const;
};

/// Checks all levels up to `level`: manifest (it and the index match their hashes, and it has the step of the folder's
/// name), sizes (all files exist with their lengths), coverage (each element of each tensor is in exactly one piece),
/// hashes (every block and every other byte, and there are no other files), fingerprints (elements make up pieces,
/// pieces tensors, tensors the state digest). Continues after a defect as far as possible, and never throws for a
/// defect. A missing file is damage, because one process looks once; but a missing file on a node's own storage is
/// unreadable. Local.
Verification verify_checkpoint(const Path& checkpoint, VerifyLevel level);

/// Does the same and returns the verdict. Local.
Judgement judge_checkpoint(const Path& checkpoint, VerifyLevel level);

/// Returns the defect in the length of a file that a manifest lists; nothing if the length is right. Pure.
std::optional<std::string> length_defect(const StoredFile& file, const std::optional<std::uint64_t>& length);

/// A sighting is the state of a checkpoint as one process sees it, without its tensors. Ranks compare sightings:
/// checkpoint/agreed_view.hpp.
struct Sighting {
  Judgement judgement;  // of the manifest and the storage; does not cover missing files
  /// The first file that is missing or has another length than in the manifest, as one line.
  std::string lacking;
  bool elsewhere = false;                           // a missing file was written to a node's own storage
  std::string content;                              // equal for equal names, lengths and manifests
  std::string manifest;                             // its hash; empty: it cannot be read
  std::vector<std::optional<std::string>> defects;  // by file of the manifest: defect in its length
};
/// Looks at a checkpoint. Never throws for a defect. Local.
Sighting see_checkpoint(const Path& checkpoint);

}  // namespace lockstep
