// All ranks agree here on what they see of a run's checkpoints before they load one. Storage that many machines share
// may fail on one of them for a moment, or show it yesterday's names: only what every rank sees alike is believed.
#pragma once

#include "comm/communicator.hpp"
#include "store/run_directory.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// Patience says how long a thing that cannot be read is looked at anew, counted from the first time that it fails.
class Patience {
 public:
  /// `tell`, which may be empty, is called when waiting for a thing begins.
  Patience(double limit_s, std::function<void(const std::string&)> tell) : limit_s_(limit_s), tell_(std::move(tell)) {}
  /// Waits a moment and returns true, or returns false when the time for `thing` is over. Collective over `ranks`; the
  /// same on all of them.
  bool wait(Communicator& ranks, const std::string& thing, const std::string& reason);
  double limit_s() const { return limit_s_; }

 private:
  double limit_s_;
  std::function<void(const std::string&)> tell_;
  std::map<std::string, double> since_;  // by thing
};

/// list_checkpoints, as soon as all ranks see the same. Collective over `ranks`. Throws Error(storage) if they do not
/// within the patience.
std::vector<CheckpointEntry> agreed_list(Communicator& ranks, const Path& run, Patience& patience);

/// The verdict on names, lengths and manifest of a checkpoint that all ranks agree on. A file that all of them lack
/// when the patience is over is damage; what they do not see alike then, or cannot read, is unreadable. Collective over
/// `ranks`; the same on all.
Judgement agreed_judgement(Communicator& ranks, const Path& checkpoint, Patience& patience);

}  // namespace lockstep
