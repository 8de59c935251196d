// Shows the progress of a long job: a line rewritten in place on a terminal, or lines in a log, for each update or at
// growing intervals.
#pragma once

#include "report/log.hpp"

#include <functional>
#include <optional>
#include <string>

namespace lockstep {

class Progress {
 public:
  enum class Style { in_place, lines, each_update, none };  // each_update: a line for each, in a log
  struct Settings {
    std::string what;             // "train", "tokenize"
    std::string unit;             // "steps", "documents"
    std::optional<double> total;  // in units; not set: unknown
    Style style = Style::lines;
  };
  /// `log` must outlive it. `clock` returns seconds and never goes backwards.
  Progress(Log& log, Settings settings, std::function<double()> clock);
  Progress(Log& log, Settings settings);
  ~Progress();  // removes the line drawn in place
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Reports that `done` units are finished. Cheap: most calls draw nothing, unless the style is each_update. Local.
  void update(double done, const std::string& detail = {});
  /// Reports the end with the total duration, always, unless the style is none. Local.
  void finish(double done, const std::string& detail = {});

 private:
  std::string text(double done, const std::string& detail) const;
  Log& log_;
  Settings settings_;
  std::function<double()> clock_;
  double start_s_ = 0;
  double first_done_ = -1;  // of the first update: a resumed job's rate counts from there
  double first_s_ = 0;
  double next_s_ = 0;  // no drawing before
  double interval_s_ = 0;
};

/// In place on a terminal, lines elsewhere, none if `progress` is never. Local.
Progress::Style progress_style(When progress, int fd);

}  // namespace lockstep
