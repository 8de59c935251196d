// StopChannels merges, on one rank, every way to ask a running job to stop or save: signals, the control file, the
// clock. The heartbeat merges the ranks: one that asks suffices, and all leave at the same step.
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
    Path control_file;  // RUN/control: a word of stop, save-stop (the same), save, abort, evaluate, log and status,
                        // or an option and a value; read and removed by the one rank that is told. Empty: none
    std::optional<double> max_time_s;       // of the session
    std::vector<std::string> options = {};  // that the control file may change
  };
  /// `session` outlives it. Local.
  StopChannels(Session& session, Settings settings);

  /// What the control file says that an option should be; that the value is one is for others to see.
  struct Change {
    std::string option;
    std::string value;
  };
  struct Asked {
    StopLevel stop = StopLevel::none;
    Request requests = Request::none;
    bool status = false;  // this rank tells how far the run is
    std::optional<Change> change = {};
    std::string reason;   // of a stop: "signal", "control file", "max_time"; empty: none
    std::string problem;  // why the control file asks for nothing, once; empty: no problem
  };
  /// What this rank has been asked so far, at the end of a step. Looks at the control file at most once a second;
  /// What is no stop is handed out once. The clock asks as soon as another step and a save would not fit any more.
  /// Local; does not throw, and does not wait: only a small regular file is opened.
  Asked poll();
  /// Tells how long a save took, so that the clock leaves time for the next one. Local.
  void save_took(double seconds);

 private:
  std::string read_control_file();
  std::string obey(const std::string& content);
  std::string accepted() const;
  bool out_of_time();

  Session& session_;
  Settings settings_;
  double next_look_s_ = 0;
  std::string seen_;  // what tells the control file that was last read, or refused, from the next one
  double last_poll_s_ = -1;
  double longest_step_s_ = 0;
  double longest_save_s_ = 0;
  StopLevel from_file_ = StopLevel::none;
  Request from_file_once_ = Request::none;  // that is not handed out yet
  bool status_asked_ = false;               // nor told
  std::optional<Change> change_;            // nor handed out
};

}  // namespace lockstep
