#include "program/plot.hpp"
#include "base/text.hpp"

#include "base/json.hpp"
#include "program/catalogue.hpp"
#include "unit/program/models.hpp"

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>

#include <regex>

BOOST_AUTO_TEST_SUITE(plots)

using namespace lockstep;

namespace {

StepProgram program_of(PipelineSchedule schedule, int ranks, int chunks, int micro_batches, int replicas = 1) {
  ProgramOptions options;
  options.pipeline.schedule = schedule;
  options.pipeline.chunks = chunks;
  options.micro_batches = micro_batches;
  const Mesh mesh = make_mesh("world", {{"pp", ranks}, {"dp_replicate", replicas}});
  return make_catalogue(mesh, models::even(ranks * chunks, "b<"), options).train;
}

/// Only blocks take time: a forward 1 s, each half of a backward as much.
double cost(const StepProgram&, const Action& action) {
  switch (action.op) {
    case Op::forward:
    case Op::backward_input:
    case Op::backward_weight: return 1;
    case Op::backward: return 2;
    default: return 0;
  }
}

/// The line of a lane of a rank in a drawing of characters.
std::string line_of(const std::string& drawing, const std::string& rank, const std::string& lane) {
  const std::size_t begin = drawing.find("\n" + rank + "\n");
  BOOST_REQUIRE(begin != std::string::npos);
  const std::size_t line = drawing.find("\n  " + lane, begin) + 3;
  const std::string text = drawing.substr(line, drawing.find('\n', line) - line);
  return text.substr(text.rfind(' ') + 1);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_drawing_of_1f1b_shows_who_waits_for_whom) {
  const StepProgram program = program_of(PipelineSchedule::one_f_one_b, 2, 1, 2);
  const std::string drawing = plot_text(program, simulate(program, cost), 18);
  BOOST_TEST(drawing.starts_with("program train: 9 s in 18 columns\n"));
  BOOST_TEST(line_of(drawing, "rank 0", "compute") == "F0F1....B0BB..B1BB");
  BOOST_TEST(line_of(drawing, "rank 1", "compute") == "..F0B0BBF1B1BB....");
}

BOOST_AUTO_TEST_CASE(a_drawing_of_zbv_shows_the_parted_backward_and_no_gap_within_a_rank) {
  const StepProgram program = program_of(PipelineSchedule::zbv, 2, 2, 4);
  const Timeline timeline = simulate(program, cost);
  const std::string drawing = plot_text(program, timeline, static_cast<int>(2 * timeline.end_s));
  for (const char* const rank : {"rank 0", "rank 1"}) {
    const std::string line = line_of(drawing, rank, "compute");
    for (const char* const part : {"F3", "I3", "W3"}) BOOST_TEST(count(line, part) > 0, line);
    const std::size_t first = line.find_first_not_of('.'), last = line.find_last_not_of('.');
    BOOST_TEST(line.substr(first, last + 1 - first).find('.') == std::string::npos, line);
  }
}

BOOST_AUTO_TEST_CASE(a_picture_has_a_rectangle_for_each_action_that_takes_time_and_is_well_formed) {
  for (const PipelineSchedule schedule : pipeline_schedules) {
    const int chunks = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b ? 1 : 2;
    const StepProgram program = program_of(schedule, 2, chunks, 4, 3);
    const Timeline timeline = simulate(program, cost);
    const std::string svg = plot_svg(program, timeline);
    std::size_t visible = 0;
    for (const RankTimeline& times : timeline.ranks)
      for (const Interval& interval : times.intervals) visible += interval.end_s > interval.begin_s ? 1 : 0;
    BOOST_TEST(count(svg, "<title>") == visible);
    BOOST_TEST(svg.find("each of ranks 3-5") != std::string::npos);
    BOOST_TEST(svg.find("b&lt;0 mb 3, ") != std::string::npos);  // names are text, not tags
    BOOST_TEST(svg.find("b<0") == std::string::npos);
    for (const char* const tag : {"svg", "text", "title", "style"})
      BOOST_TEST(count(svg, fmt::format("<{}", tag)) == count(svg, fmt::format("</{}>", tag)), tag);
    // Nothing lies outside the picture.
    const std::regex rectangle("<rect x=\"([0-9.]+)\" y=\"[0-9.]+\" width=\"([0-9.]+)\"");
    for (auto match = std::sregex_iterator(svg.begin(), svg.end(), rectangle); match != std::sregex_iterator(); ++match)
      BOOST_TEST(std::stod((*match)[1]) + std::stod((*match)[2]) <= 1381);
  }
}

BOOST_AUTO_TEST_CASE(a_picture_has_a_title_its_assumptions_and_a_scale_in_a_fitting_unit) {
  const StepProgram program = program_of(PipelineSchedule::one_f_one_b, 2, 1, 2);
  const auto picture_of = [&](double factor) {
    const auto slow = [=](const StepProgram& of, const Action& action) { return factor * cost(of, action); };
    return plot_svg(program, simulate(program, slow), "assumes < 1 TFLOP/s");
  };
  const auto ticks_of = [](const std::string& svg) {
    const std::regex tick("<line class=\"tick\".*\n<text .*>(.*)</text>");
    std::vector<std::string> ticks;
    for (auto match = std::sregex_iterator(svg.begin(), svg.end(), tick); match != std::sregex_iterator(); ++match)
      ticks.push_back((*match)[1]);
    return join(ticks, " ");
  };
  const std::string hours = picture_of(1000);  // 9000 s
  BOOST_TEST(hours.find(">program train: a step of 2 h 30 min on 2 ranks</text>") != std::string::npos);
  BOOST_TEST(hours.find(">assumes &lt; 1 TFLOP/s</text>") != std::string::npos);
  BOOST_TEST(hours.find("(h)</text>") != std::string::npos);
  BOOST_TEST(ticks_of(hours) == "0 0.5 1 1.5 2 2.5");
  const std::string minutes = picture_of(100);
  BOOST_TEST(minutes.find("(min)</text>") != std::string::npos);
  BOOST_TEST(ticks_of(minutes) == "0 2 4 6 8 10 12 14");
  BOOST_TEST(ticks_of(picture_of(1)) == "0 1 2 3 4 5 6 7 8 9");
  // The legend has the kinds of work that are drawn, and no other.
  BOOST_TEST(count(hours, ">forward</text>") == 1);
  BOOST_TEST(count(hours, ">copy from or to host</text>") == 0);
  const std::string text = plot_text(program, simulate(program, cost), 18, "assumes something");
  BOOST_TEST(text.starts_with("program train: 9 s in 18 columns\nassumes something\nrank 0\n"));
}

BOOST_AUTO_TEST_CASE(a_trace_names_each_row_and_has_each_action_in_its_lane) {
  const StepProgram program = program_of(PipelineSchedule::interleaved_1f1b, 2, 2, 4, 2);
  const Timeline timeline = simulate(program, cost);
  const Json trace = plot_json(program, timeline);
  std::size_t actions = 0;
  std::vector<std::string> processes;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") ++actions;
    if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
  }
  BOOST_TEST(actions == program.classes[0].actions.size() + program.classes[1].actions.size());
  BOOST_TEST((processes == std::vector<std::string>{"each of ranks 0-1", "each of ranks 2-3"}));
}

BOOST_AUTO_TEST_CASE(a_step_that_takes_no_time_is_drawn_empty) {
  const StepProgram program = program_of(PipelineSchedule::one_f_one_b, 1, 1, 1);
  const Timeline timeline = simulate(program, [](const StepProgram&, const Action&) { return 0.0; });
  BOOST_TEST(line_of(plot_text(program, timeline, 10), "rank 0", "compute") == "..........");
  BOOST_TEST(count(plot_svg(program, timeline), "<title>") == 0);
}

BOOST_AUTO_TEST_SUITE_END()
