// A profile of some steps: when each action of each rank ran, and what the loop did around them. It ends as records, a
// table for people and a trace for viewers of Chrome's format. Kinds of work: program/work_times.hpp.
#pragma once

#include "app/output.hpp"
#include "base/files.hpp"
#include "comm/communicator.hpp"
#include "program/catalogue.hpp"
#include "program/simulate.hpp"
#include "report/recorder.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class Profile {
 public:
  /// Of the steps `first` to `last`, counted from 1. `programs` outlive the profile.
  Profile(const Catalogue& programs, Rank rank, std::int64_t first, std::int64_t last);

  bool covers(std::int64_t step) const { return step >= first_ && step <= last_; }
  bool ends_with(std::int64_t step) const { return step == last_; }
  /// Where the engine notes the times of this step.
  std::shared_ptr<std::vector<Interval>> start_step(std::int64_t step);
  /// Work of the loop itself: "data", "records", "evaluation", "save".
  void add_span(std::string_view kind, double begin_s, double end_s) {
    spans_.push_back({std::string(kind), begin_s, end_s});
  }

  /// What all ranks measured, gathered. Collective over `ranks`, once.
  void gather(Communicator& ranks);
  /// After gather, on one rank: a record for each kind of work, RUN/profile.json, a table in the log. Throws
  /// Error(storage).
  void report(Recorder& records, Log& log, const Path& run) const;

 private:
  struct Step {
    std::int64_t step = 0;
    std::shared_ptr<std::vector<Interval>> times;
  };
  struct Span {
    std::string kind;
    double begin_s = 0;
    double end_s = 0;
  };
  struct RankProfile {
    std::vector<Step> steps;
    std::vector<Span> spans;
  };
  struct Row {
    std::string kind;
    double least_ms = 0;
    double mean_ms = 0;
    double most_ms = 0;
  };
  std::string packed() const;
  static RankProfile unpacked(const std::string& text);
  std::vector<Row> rows() const;
  Json chrome_trace() const;

  const StepProgram& program_of(std::int64_t step) const;

  const Catalogue& programs_;
  Rank rank_;
  std::int64_t first_;
  std::int64_t last_;
  std::vector<Step> steps_;
  std::vector<Span> spans_;
  std::vector<RankProfile> ranks_;
};

/// Adds the time of a scope to a profile, if there is one.
class ProfiledScope {
 public:
  ProfiledScope(Profile* profile, std::string_view kind);
  ~ProfiledScope();
  ProfiledScope(const ProfiledScope&) = delete;
  ProfiledScope& operator=(const ProfiledScope&) = delete;

 private:
  Profile* profile_;
  std::string_view kind_;
  double begin_s_ = 0;
};

}  // namespace lockstep
