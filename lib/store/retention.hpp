// Retention decides which checkpoints of a run stay after a new one. The others are renamed, each in one step;
// store/trash.hpp deletes them.
#pragma once

#include "store/run_directory.hpp"
#include "store/verdict.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// The metric that makes a checkpoint better than another.
struct BestBy {
  std::string metric = "validation_loss";
  std::optional<bool> higher = {};  // whether higher values are better; default: as each manifest says
  bool operator==(const BestBy&) const = default;
};

/// Returns the checkpoints with a value of the metric that was measured on the same samples as the newest value: best
/// first, and the older one first if they are equal. Reads manifests; damaged ones have no value. Local. Throws
/// Error(storage), Error(usage) as reading them does.
std::vector<CheckpointEntry> best_first(const std::vector<CheckpointEntry>& entries, const BestBy& by);

/// A checkpoint stays if any of these rules keeps it.
struct Retention {
  std::int64_t keep_last = 2;  // at least 1
  std::int64_t keep_best = 1;  // the first of best_first, whether they are among the last or not
  BestBy best_by = {};
  std::optional<std::int64_t> keep_every = {};  // keeps steps that are multiples of it
  std::vector<std::int64_t> pinned = {};        // steps
};

/// A checkpoint as retention sees it.
struct Candidate {
  CheckpointEntry entry;
  Verdict verdict = Verdict::sound;   // of all files and their lengths
  std::optional<double> metric = {};  // lower is better
};
/// Returns the checkpoints that may be removed; candidates are in the order of their steps. Only sound ones count as
/// last or best. A damaged one is removed if it is older than all of the last. Unreadable and foreign ones stay,
/// because their content is unknown. Pure.
std::vector<CheckpointEntry> prunable(std::span<const Candidate> candidates, const Retention& retention);

/// A checkpoint's value of the metric that retention uses.
struct Measured {
  double cost = 0;          // the value, so that lower is better
  std::string measured_on;  // the document "evaluation"
};
struct Rated {
  CheckpointEntry entry;
  Verdict verdict = Verdict::sound;
  std::optional<Measured> measured = {};
};
/// Reads the value of a sound checkpoint from its manifest. If that cannot be read, the verdict says why. Local.
Rated rate(const CheckpointEntry& entry, Verdict verdict, const BestBy& by);
/// Returns candidates with the values that are comparable with the newest one: measured on the same samples. `rated` is
/// in the order of steps. Pure.
std::vector<Candidate> comparable(std::span<const Rated> rated);

/// Returns the checkpoints of a run that may be removed; `verdict` judges each of them. Throws Error(storage).
std::vector<CheckpointEntry> prunable_of(const Path& run, const Retention& retention,
                                         const std::function<Verdict(const CheckpointEntry&)>& verdict);

struct Pruned {
  std::vector<std::int64_t> steps;
  std::string problem;  // why a checkpoint could not be removed; empty if all were
};
/// Moves the checkpoints that may be removed to trash. Throws Error(storage) if the run cannot be read.
Pruned prune(const Path& run, const Retention& retention);

}  // namespace lockstep
