// A profile of some steps: when each action of each rank ran, and the work of the loop around them. Its results are
// records, a table for people, and a trace in Chrome's format. Kinds of work: program/work_times.hpp.
#pragma once

#include "app/output.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "comm/communicator.hpp"
#include "data/batch.hpp"
#include "model/model.hpp"
#include "program/catalogue.hpp"
#include "program/simulate.hpp"
#include "report/recorder.hpp"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

class Profile {
 public:
  struct Settings {
    std::int64_t first = 0;  // steps, counted from 1
    std::int64_t last = 0;
    std::vector<std::int64_t> ranks = {};  // ranks whose actions the trace shows; empty: all
    bool shapes = false;                   // whether the trace shows the shapes of actions
    bool memory = false;
    Path folder;  // folder of profile.json
  };
  /// Buffers for the measurements of a step by the engine.
  struct Measured {
    std::shared_ptr<std::vector<Interval>> times;
    std::shared_ptr<std::vector<std::int64_t>> memory;  // null: not measured
  };
  /// `programs` and `model` must outlive the profile.
  Profile(const Catalogue& programs, const Model& model, Rank rank, Settings settings);

  bool covers(std::int64_t step) const { return step >= settings_.first && step <= settings_.last; }
  bool ends_with(std::int64_t step) const { return step == settings_.last; }
  Measured start_step(std::int64_t step, const StepBatch& batch);
  /// Adds work of the loop itself: "data", "records", "evaluation", "save".
  void add_span(std::string_view kind, double begin_s, double end_s) {
    spans_.push_back({std::string(kind), begin_s, end_s});
  }

  /// Gathers the measurements of all ranks on rank 0; ranks that the trace does not show send only sums. Collective
  /// over `ranks`, once.
  void gather(Communicator& ranks);
  /// After gather, on rank 0: writes a record for each kind of work, profile.json, and a table in the log. Throws
  /// Error(storage).
  void report(Recorder& records, Log& log) const;

 private:
  struct Step {
    std::int64_t step = 0;
    Measured measured;
    Json micro_batches;  // samples and tokens of each
  };
  struct Span {
    std::string kind;
    double begin_s = 0;
    double end_s = 0;
  };
  /// Seconds by kind of work, in the order of a step.
  using KindTimes = std::vector<std::pair<std::string, double>>;
  struct RankProfile {
    KindTimes work;
    Json events;          // of the trace, in the rank's monotonic time; null: the trace does not show the rank
    double clock_us = 0;  // offset from that time to wall-clock time
  };
  struct Row {
    std::string kind;
    double least_ms = 0;
    double mean_ms = 0;
    double most_ms = 0;
  };
  KindTimes work() const;
  Json events() const;
  void add_events(const Step& step, std::set<int>& named, Json& events) const;
  Json shape_of(const Step& step, const Action& action) const;
  std::vector<Row> rows() const;
  Json chrome_trace() const;

  const StepProgram& program_of(std::int64_t step) const;

  const Catalogue& programs_;
  const Model& model_;
  Rank rank_;
  Settings settings_;
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
