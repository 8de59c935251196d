#include "program/plot.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace lockstep {

namespace {

/// A kind of work as a drawing shows it.
struct DrawnWork {
  std::string_view name;
  char letter;
  std::string_view color;
};

constexpr std::array<DrawnWork, 11> drawn_works{{{"forward", 'F', "#4c8bc9"},
                                                 {"backward", 'B', "#e08a3c"},
                                                 {"backward, input half", 'I', "#e3a94f"},
                                                 {"backward, weight half", 'W', "#57a05a"},
                                                 {"recomputation", 'R', "#9cc3e6"},
                                                 {"gathering", 'g', "#a98bc4"},
                                                 {"reduction", 'r', "#c4574e"},
                                                 {"transfer", '>', "#8a97a3"},
                                                 {"norm, update", 'U', "#3f4a54"},
                                                 {"heartbeat", 'h', "#d9b400"},
                                                 {"copy from or to host", 'c', "#7fb8a4"}}};

const DrawnWork& drawn_work_of(Op op) {
  switch (op) {
    case Op::forward: return drawn_works[0];
    case Op::backward: return drawn_works[1];
    case Op::backward_input: return drawn_works[2];
    case Op::backward_weight: return drawn_works[3];
    case Op::recompute: return drawn_works[4];
    case Op::unshard:
    case Op::reshard: return drawn_works[5];
    case Op::reduce_scatter:
    case Op::all_reduce:
    case Op::average_weights: return drawn_works[6];
    case Op::receive_forward:
    case Op::send_forward:
    case Op::receive_backward:
    case Op::send_backward:
    case Op::receive_gradient:
    case Op::send_gradient: return drawn_works[7];
    case Op::finish_gradient:
    case Op::add_gradient:
    case Op::gradient_norm:
    case Op::clip:
    case Op::optimizer:
    case Op::finish_average: return drawn_works[8];
    case Op::reduce_norm:
    case Op::heartbeat:
    case Op::reduce_loss:
    case Op::draw_tokens: return drawn_works[9];
    case Op::fetch_weights:
    case Op::offload_gradient:
    case Op::fetch_state:
    case Op::offload_state:
    case Op::offload_stash:
    case Op::fetch_stash: return drawn_works[10];
  }
  fail(ExitCode::bug, "unknown Op {}", static_cast<int>(op));
}

/// What one lane of one rank does, in order.
struct Lanes {
  std::string name;
  Lane lane{};
  std::vector<Interval> intervals;
};

const Action& action_of(const StepProgram& program, const RankTimeline& times, const Interval& interval) {
  return program.of(times.rank)[static_cast<std::size_t>(interval.action)];
}

std::vector<Lanes> lanes_of(const StepProgram& program, const RankTimeline& times) {
  std::vector<Lanes> lanes;
  for (int index = 0; index < lane_count; ++index) {
    Lanes row{std::string(name_of(static_cast<Lane>(index))), static_cast<Lane>(index), {}};
    for (const Interval& interval : times.intervals)
      if (action_of(program, times, interval).lane == row.lane) row.intervals.push_back(interval);
    if (!row.intervals.empty()) lanes.push_back(std::move(row));
  }
  return lanes;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return result;
}

/// "2 h 03 min", "38 ms", "2.5 us".
std::string duration(double seconds) {
  if (seconds >= 60) return human_seconds(seconds);
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} us", seconds * 1e6);
}

/// "program train: a step of 12 min 30 s on 64 ranks".
std::string title_of(const StepProgram& program, const Timeline& timeline) {
  return fmt::format("program {}: a step of {} on {}", program.name, duration(timeline.end_s),
                     counted(world_size(program.mesh), "rank"));
}

/// 1, 2 or 5 times a power of ten, so that about `count` steps make up `length`.
double round_step(double length, int count) {
  const double rough = length / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

/// The unit of a time scale: at least one of it lies within the time line.
struct TimeUnit {
  double seconds = 1;
  std::string_view name;
};
constexpr std::array<TimeUnit, 5> time_units{{{3600, "h"}, {60, "min"}, {1, "s"}, {1e-3, "ms"}, {1e-6, "us"}}};

const TimeUnit& time_unit_of(double end_s) {
  const auto fits = std::ranges::find_if(time_units, [&](const TimeUnit& unit) { return end_s >= 2 * unit.seconds; });
  return fits == time_units.end() ? time_units.back() : *fits;
}

class Drawing {
 public:
  Drawing(const StepProgram& program, const Timeline& timeline, const std::string& assumptions)
      : program_(program), timeline_(timeline) {
    text(8, 22, "start", title_of(program, timeline), "title");
    text(8, 40, "start", assumptions);
  }

  std::string svg() {
    double y = top;
    for (const RankTimeline& times : timeline_.ranks) {
      text(8, y + 11, "start", ranks_text(program_, times.rank), "who");
      y += 16;
      for (const Lanes& row : lanes_of(program_, times)) {
        lane(times, row, y);
        y += row_height + 2;
      }
      y += 8;
    }
    axis(y);
    const double height = legend(y + 58) + 20;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
               "font-family=\"sans-serif\" font-size=\"11\">\n"
               "<style>.title {{ font-size: 16px }} .who {{ font-weight: bold }} .n {{ fill: #fff; font-size: 9px }} "
               ".track {{ fill: #f0f2f4 }} "
               ".tick {{ stroke: #b8c0c8 }}</style>\n"
               "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
               width, height) +
           body_ + "</svg>\n";
  }

 private:
  static constexpr double width = 1400, left = 220, right = 1380, top = 54, row_height = 14;

  double at(double seconds) const {
    return left + (timeline_.end_s > 0 ? seconds / timeline_.end_s : 0) * (right - left);
  }

  void text(double x, double y, std::string_view anchor, const std::string& words, std::string_view kind = "") {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor,
                         kind.empty() ? "" : fmt::format(" class=\"{}\"", kind), escaped(words));
  }

  void lane(const RankTimeline& times, const Lanes& row, double y) {
    text(left - 8, y + 11, "end", row.name);
    body_ += fmt::format("<rect class=\"track\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\"/>\n", left, y,
                         right - left, row_height);
    for (const Interval& interval : row.intervals) {
      const Action& action = action_of(program_, times, interval);
      const double x = at(interval.begin_s), wide = at(interval.end_s) - x;
      if (wide <= 0) continue;
      shown_.insert(&drawn_work_of(action.op));
      body_ += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\"><title>{}, {} to "
          "{}</title></rect>\n",
          x, y, wide, row_height, drawn_work_of(action.op).color, escaped(to_text(program_, action)),
          duration(interval.begin_s), duration(interval.end_s));
      if (action.micro_batch != no_micro_batch && wide >= 12)
        text(x + wide / 2, y + 10.5, "middle", fmt::to_string(action.micro_batch), "n");
    }
  }

  void axis(double y) {
    if (timeline_.end_s <= 0) return;
    const TimeUnit& unit = time_unit_of(timeline_.end_s);
    const double step = round_step(timeline_.end_s / unit.seconds, 10);
    for (int i = 0; i * step * unit.seconds <= timeline_.end_s; ++i) {
      const double x = at(i * step * unit.seconds);
      body_ +=
          fmt::format("<line class=\"tick\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n", x, top, y);
      text(x, y + 14, "middle", fmt::format("{:.6g}", i * step));
    }
    text((left + right) / 2, y + 32, "middle", fmt::format("time from the begin of the step ({})", unit.name));
  }

  /// The kinds of work that the time line has, in lines from `y` on. Returns the place of the last line.
  double legend(double y) {
    double x = left;
    for (const DrawnWork& work : drawn_works) {
      if (!shown_.contains(&work)) continue;
      const double wide = 34 + 6.0 * static_cast<double>(work.name.size());
      if (x + wide > right) {
        x = left;
        y += 18;
      }
      body_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n", x, y - 9,
                           work.color);
      text(x + 14, y, "start", std::string(work.name));
      x += wide;
    }
    return y;
  }

  const StepProgram& program_;
  const Timeline& timeline_;
  std::string body_;
  std::set<const DrawnWork*> shown_;
};

/// The intervals of a lane in characters: of each column the action that takes up most of it.
std::string characters(const StepProgram& program, const RankTimeline& times, const Lanes& row, double end_s,
                       int columns) {
  std::vector<int> shown(static_cast<std::size_t>(columns), -1);  // positions of actions
  std::vector<double> most(static_cast<std::size_t>(columns), 0);
  const double column_s = end_s / columns;
  for (const Interval& interval : row.intervals) {
    const int first = std::clamp(static_cast<int>(interval.begin_s / column_s), 0, columns - 1);
    for (int column = first; column < columns && column * column_s < interval.end_s; ++column) {
      const double covered =
          std::min(interval.end_s, (column + 1) * column_s) - std::max(interval.begin_s, column * column_s);
      const auto index = static_cast<std::size_t>(column);
      if (covered <= std::max(most[index], column_s * 1e-9)) continue;
      most[index] = covered;
      shown[index] = interval.action;
    }
  }
  const auto alike = [&](int a, int b) {
    if (a < 0 || b < 0) return a == b;
    const Action& one = program.of(times.rank)[static_cast<std::size_t>(a)];
    const Action& other = program.of(times.rank)[static_cast<std::size_t>(b)];
    return drawn_work_of(one.op).letter == drawn_work_of(other.op).letter && one.micro_batch == other.micro_batch;
  };
  std::string text;
  for (std::size_t begin = 0; begin < shown.size();) {
    std::size_t end = begin;
    while (end < shown.size() && alike(shown[begin], shown[end])) ++end;
    const std::size_t length = end - begin;
    if (shown[begin] < 0) {
      text += std::string(length, '.');
    } else {
      const Action& action = program.of(times.rank)[static_cast<std::size_t>(shown[begin])];
      const char letter = drawn_work_of(action.op).letter;
      const std::string number = action.micro_batch == no_micro_batch ? "" : fmt::to_string(action.micro_batch);
      std::string run(length, letter);
      if (number.size() < length) run.replace(1, number.size(), number);
      text += run;
    }
    begin = end;
  }
  return text;
}

}  // namespace

std::string ranks_text(const StepProgram& program, Rank rank) {
  const std::vector<Rank>& ranks = program.class_of(rank).ranks;
  return ranks.size() == 1 ? fmt::format("rank {}", rank) : "each of ranks " + to_text(ranks);
}

std::string plot_svg(const StepProgram& program, const Timeline& timeline, const std::string& assumptions) {
  return Drawing(program, timeline, assumptions).svg();
}

std::string plot_text(const StepProgram& program, const Timeline& timeline, int columns,
                      const std::string& assumptions) {
  invariant(columns > 0, "a plot has at least one column");
  std::string text = fmt::format("program {}: {} in {} columns\n", program.name, duration(timeline.end_s), columns);
  if (!assumptions.empty()) text += assumptions + "\n";
  for (const RankTimeline& times : timeline.ranks) {
    text += ranks_text(program, times.rank) + "\n";
    for (const Lanes& row : lanes_of(program, times))
      text += fmt::format("  {:<17}{}\n", row.name, characters(program, times, row, timeline.end_s, columns));
  }
  std::vector<std::string> words;
  for (const DrawnWork& work : drawn_works)
    words.push_back(fmt::format("{} {}{}", work.letter, work.name, &work == &drawn_works[4] ? ",\n" : ", "));
  return text + join(words, "") + ". idle\n";
}

Json plot_json(const StepProgram& program, const Timeline& timeline) {
  Json json = to_chrome_trace(program, timeline);
  for (const RankTimeline& times : timeline.ranks)
    json["traceEvents"].push_back({{"ph", "M"},
                                   {"name", "process_name"},
                                   {"pid", times.rank},
                                   {"tid", 0},
                                   {"args", {{"name", ranks_text(program, times.rank)}}}});
  return json;
}

}  // namespace lockstep
