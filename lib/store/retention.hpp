// Retention: which checkpoints of a run stay when a new one is there. Those that go are renamed, in one step each;
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

/// BestBy says what makes a checkpoint better than another.
struct BestBy {
  std::string metric = "validation_loss";
  std::optional<bool> higher = {};  // values are better; nothing: as each manifest says of its own
  bool operator==(const BestBy&) const = default;
};

/// Those that have a value of the metric, measured on the same samples as that of the newest: the best first, of equal
/// ones the older first. Reads manifests; damaged ones have no value. Local. Throws Error(storage), Error(usage) as
/// reading them does.
std::vector<CheckpointEntry> best_first(const std::vector<CheckpointEntry>& entries, const BestBy& by);

/// What stays: all that one of these says.
struct Retention {
  std::int64_t keep_last = 2;  // at least 1
  std::int64_t keep_best = 1;  // the first of best_first, be they among the last or not
  BestBy best_by = {};
  std::optional<std::int64_t> keep_every = {};  // multiples of so many steps
  std::vector<std::int64_t> pinned = {};        // steps
};

/// What retention goes by.
struct Candidate {
  CheckpointEntry entry;
  Verdict verdict = Verdict::sound;   // of all files and their lengths
  std::optional<double> metric = {};  // so that less is better
};
/// The checkpoints that may go, of candidates in the order of their steps. Only sound ones are counted as last or best;
/// a damaged one goes when it is older than all of the last; nobody knows what one that is unreadable or foreign holds,
/// so it stays. Pure.
std::vector<CheckpointEntry> superfluous(std::span<const Candidate> candidates, const Retention& retention);

/// Measured is a checkpoint's value of the metric that retention goes by.
struct Measured {
  double cost = 0;          // the value, so that less is better
  std::string measured_on;  // the document "evaluation"
};
struct Rated {
  CheckpointEntry entry;
  Verdict verdict = Verdict::sound;
  std::optional<Measured> measured = {};
};
/// Reads the value of a sound checkpoint from its manifest. If that cannot be read, the verdict says why. Local.
Rated rate(const CheckpointEntry& entry, Verdict verdict, const BestBy& by);
/// Candidates with the values that may be compared with the newest one: measured on the same samples. `rated` is in the
/// order of steps. Pure.
std::vector<Candidate> comparable(std::span<const Rated> rated);

/// The checkpoints of a run that may go, whatever finds the verdicts on them. Throws Error(storage).
std::vector<CheckpointEntry> victims_of(const Path& run, const Retention& retention,
                                        const std::function<Verdict(const CheckpointEntry&)>& verdict);

struct Retired {
  std::vector<std::int64_t> steps;
  std::string problem;  // why one that may go is still there; empty if none is
};
/// Makes trash of what may go. Throws Error(storage) where the run cannot be looked at.
Retired retire(const Path& run, const Retention& retention);

}  // namespace lockstep
