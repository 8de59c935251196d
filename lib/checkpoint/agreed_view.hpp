// Before a load, all ranks agree on the checkpoints that they see in a run's folder. Shared storage may fail on one
// machine for a moment, or show it old names; a checkpoint counts only if all ranks see the same. For storage that
// belongs to single nodes: checkpoint/node_view.hpp.
#pragma once

#include "comm/communicator.hpp"
#include "store/run_directory.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// Limits how long the ranks retry something that they cannot read. The time of each thing counts from its first
/// failure.
class Patience {
 public:
  /// `tell` is called when the wait for a thing begins; it may be empty.
  Patience(double limit_s, std::function<void(const std::string&)> tell) : limit_s_(limit_s), tell_(std::move(tell)) {}
  /// Sleeps at most 1 s and returns true, or returns false if the time for `thing` is over. Returns the same value on
  /// all ranks. Collective over `ranks`.
  bool wait(Communicator& ranks, const std::string& thing, const std::string& reason);
  double limit_s() const { return limit_s_; }

 private:
  double limit_s_;
  std::function<void(const std::string&)> tell_;
  std::map<std::string, double> since_;  // by thing: time of its first failure, s
};

/// Calls list_checkpoints until all ranks see the same names. Collective over `ranks`. Throws Error(storage) on all
/// ranks if they still differ when the patience is over.
std::vector<CheckpointEntry> agreed_list(Communicator& ranks, const Path& run, Patience& patience);

/// Returns the verdict of all ranks on the names, lengths and manifest of a checkpoint. A file that all ranks miss when
/// the patience is over is damage. If the ranks see different things then, or one cannot read, the checkpoint is
/// unreadable. Returns the same value on all ranks. Collective over `ranks`.
Judgement agreed_judgement(Communicator& ranks, const Path& checkpoint, Patience& patience);

}  // namespace lockstep
