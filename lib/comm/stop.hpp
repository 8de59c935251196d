// StopChannels merges, on one rank, all ways to ask a running job to stop or save: signals, the control file, the
// clock. The heartbeat (comm/heartbeat.hpp) merges the ranks: a request of one rank suffices, and all ranks leave at
// the same step.
#pragma once

#include "base/files.hpp"
#include "comm/heartbeat.hpp"
#include "comm/session.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class StopChannels {
 public:
  struct Settings {
    // RUN/control: one of the words stop, save-stop (equal to stop), save, abort, evaluate, log and status, or an
    // option and a value. The rank that reads it also removes it. Empty: none.
    Path control_file;
    std::optional<double> max_time_s;       // since the session began
    std::vector<std::string> options = {};  // options that the control file may change
  };
  /// `session` must outlive it. Local.
  StopChannels(Session& session, Settings settings);

  /// A change of an option, as written in the control file; the caller checks the value.
  struct Change {
    std::string option;
    std::string value;
  };
  struct Asked {
    StopLevel stop = StopLevel::none;
    Request requests = Request::none;
    bool status = false;  // this rank reports the progress of the run
    std::optional<Change> change = {};
    std::string reason;   // of a stop: "SIGUSR1", "the control file", "train.max_time"; empty: none
    std::string problem;  // why the control file was not obeyed, reported once; empty: no problem
  };
  /// The requests that this rank has received so far; call at the end of a step. Looks at the control file at most once
  /// a second. Requests other than a stop are returned once. The clock asks to stop as soon as another step and a save
  /// would no longer fit. Local; does not throw, and does not wait: only a small regular file is opened.
  Asked poll();
  /// Reports the duration of a save, so that the clock leaves time for the next one. Local.
  void save_took(double seconds);

 private:
  std::string read_control_file();
  std::string obey(const std::string& content);
  std::string accepted() const;
  bool out_of_time();

  Session& session_;
  Settings settings_;
  double next_look_s_ = 0;
  std::string seen_;  // identifies the control file that was last read or refused
  double last_poll_s_ = -1;
  double longest_step_s_ = 0;
  double longest_save_s_ = 0;
  StopLevel from_file_ = StopLevel::none;
  Request from_file_once_ = Request::none;  // not returned yet
  bool status_asked_ = false;               // likewise
  std::optional<Change> change_;            // likewise
};

}  // namespace lockstep
