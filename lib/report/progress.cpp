#include "report/progress.hpp"

#include "base/clock.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

constexpr double redraw_s = 0.1;    // in place
constexpr double first_line_s = 5;  // in a log: after 5 s, then each gap half as long again, up to 10 min
constexpr double line_growth = 1.5;
constexpr double longest_gap_s = 600;

}  // namespace

Progress::Progress(Log& log, Settings settings, std::function<double()> clock)
    : log_(log), settings_(std::move(settings)), clock_(std::move(clock)), start_s_(clock_()) {
  interval_s_ = settings_.style == Style::in_place ? redraw_s : first_line_s;
  next_s_ = settings_.style == Style::in_place ? start_s_ : start_s_ + interval_s_;
}

Progress::Progress(Log& log, Settings settings) : Progress(log, std::move(settings), monotonic_seconds) {}

Progress::~Progress() {
  if (settings_.style == Style::in_place) log_.status("");
}

void Progress::update(double done, const std::string& detail) {
  const double now = clock_();
  if (first_done_ < 0) {
    first_done_ = done;
    first_s_ = now;
  }
  if (settings_.style == Style::none || (settings_.style != Style::each_update && now < next_s_)) return;
  if (settings_.style == Style::in_place) {
    log_.status(text(done, detail));
  } else {
    log_.info("{}", text(done, detail));
    interval_s_ = std::min(interval_s_ * line_growth, longest_gap_s);
  }
  next_s_ = now + interval_s_;
}

void Progress::finish(double done, const std::string& detail) {
  if (settings_.style == Style::none) return;
  if (settings_.style == Style::in_place) log_.status("");
  const std::string how_long = human_seconds(clock_() - start_s_);
  log_.info("{}: {} {} in {}{}", settings_.what, human_count(done), settings_.unit, how_long,
            detail.empty() ? "" : ", " + detail);
}

std::string Progress::text(double done, const std::string& detail) const {
  const double elapsed = clock_() - first_s_;
  const double rate = elapsed > 0 ? (done - first_done_) / elapsed : 0;
  const bool exact = settings_.style == Style::each_update;  // "1.2 k" is the same in many lines
  const auto count = [exact](double units) { return exact ? fmt::format("{:.0f}", units) : human_count(units); };
  std::string line = fmt::format("{}: {}", settings_.what, count(done));
  if (settings_.total) line += fmt::format("/{}", count(*settings_.total));
  line += " " + settings_.unit;
  if (settings_.total && *settings_.total > 0)
    line += fmt::format(" ({:.0f} %)", 100 * std::min(1.0, done / *settings_.total));
  if (!detail.empty()) line += ", " + detail;
  if (settings_.total && rate > 0 && done < *settings_.total)
    line += fmt::format(", {} left", human_seconds((*settings_.total - done) / rate));
  return line;
}

Progress::Style progress_style(When progress, int fd) {
  if (progress == When::never) return Progress::Style::none;
  return draw_in_place(progress, fd) ? Progress::Style::in_place : Progress::Style::lines;
}

}  // namespace lockstep
