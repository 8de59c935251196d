#include "report/log.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "report/progress.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

using namespace lockstep;

namespace {

constexpr std::size_t clock_width = sizeof "2026-01-31T12:00:00+01:00";  // with the blank that follows

/// A pipe whose content is read back.
class Capture {
 public:
  Capture() {
    BOOST_REQUIRE(::pipe(ends_.data()) == 0);
    BOOST_REQUIRE(::fcntl(ends_[0], F_SETFL, O_NONBLOCK) == 0);
  }
  ~Capture() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  int fd() const { return ends_[1]; }
  std::string text() {
    std::string result(65536, '\0');
    const ssize_t got = ::read(ends_[0], result.data(), result.size());
    result.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return result;
  }
  /// The lines without the clock that opens each.
  std::vector<std::string> lines() {
    std::vector<std::string> result;
    std::string rest = text();
    for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
      result.push_back(rest[0] == ' ' ? rest.substr(0, end) : rest.substr(clock_width, end - clock_width));
      rest.erase(0, end + 1);
    }
    return result;
  }

 private:
  std::array<int, 2> ends_{};
};

Log log_to(const Capture& capture, LogLevel level = LogLevel::info) {
  return Log({.program = "train", .level = level, .color = When::never, .fd = capture.fd()});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(log_lines)

BOOST_AUTO_TEST_CASE(lines_name_program_rank_and_level_and_those_below_the_level_are_dropped) {
  Capture capture;
  Log log = log_to(capture);
  log.info("{} steps", 3);
  log.debug("not shown");
  log.set_rank(2);
  log.warning("a braced {{word}} stays");
  const std::vector<std::string> expected{"train: 3 steps", "train[2]: warning: a braced {word} stays"};
  BOOST_TEST(capture.lines() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(lines_open_with_date_time_and_zone) {
  const char* const before = std::getenv("TZ");
  const std::string zone = before ? before : "";
  for (const auto& [name, offset] : {std::pair("EAST-05:30", "+05:30"), {"WEST3:30", "-03:30"}, {"UTC", "+00:00"}}) {
    ::setenv("TZ", name, 1);
    ::tzset();
    Capture capture;
    log_to(capture).info("now");
    const std::string text = capture.text();
    std::tm parts{};
    BOOST_TEST((::strptime(text.substr(0, 19).c_str(), "%Y-%m-%dT%H:%M:%S", &parts) != nullptr));
    parts.tm_isdst = -1;
    BOOST_TEST(std::abs(std::difftime(std::time(nullptr), std::mktime(&parts))) < 60);
    BOOST_TEST(text.substr(19) == std::string(offset) + " train: now\n");
  }
  if (before)
    ::setenv("TZ", zone.c_str(), 1);
  else
    ::unsetenv("TZ");
  ::tzset();
}

BOOST_AUTO_TEST_CASE(a_failure_is_its_message_indented_and_its_hint) {
  Capture capture;
  Log log = log_to(capture, LogLevel::error);
  log.failure(Error(ExitCode::usage, "2 problems\nfirst", "try --help"));
  const std::vector<std::string> expected{"train: error: 2 problems", "  first", "  hint: try --help"};
  BOOST_TEST(capture.lines() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_log_line_is_written_above_the_status_line) {
  Capture capture;
  Log log = log_to(capture);
  log.status("12 %");
  log.info("saved");
  log.status("");
  const std::string text = capture.text();
  BOOST_TEST(text.starts_with("12 %\r\x1b[K"));
  BOOST_TEST(text.find("train: saved\n12 %\r\x1b[K") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_reader_that_pauses_loses_lines_and_holds_nobody_up) {
  Capture capture;
  Log log = log_to(capture);
  constexpr int count = 20000;  // 1 MB: a pipe takes 64 KiB
  for (int i = 0; i < count; ++i) log.info("line {}", i);
  std::vector<std::string> shown;
  for (auto lines = capture.lines(); !lines.empty(); lines = capture.lines())
    shown.insert(shown.end(), lines.begin(), lines.end());
  BOOST_TEST_REQUIRE((shown.size() > 100U && shown.size() < std::size_t{count}));
  for (std::size_t i = 0; i < shown.size(); ++i) BOOST_TEST_REQUIRE(shown[i] == fmt::format("train: line {}", i));
  log.info("again");
  BOOST_TEST(capture.lines() == std::vector<std::string>{"train: again"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(colour_is_off_where_no_color_says_so_and_on_when_asked_for) {
  ::setenv("NO_COLOR", "1", 1);
  BOOST_TEST(!use_color(When::automatic, 2));
  BOOST_TEST(use_color(When::always, 2));
  ::unsetenv("NO_COLOR");
  Capture pipe;
  BOOST_TEST(!use_color(When::automatic, pipe.fd()));
}

BOOST_AUTO_TEST_CASE(progress_in_a_log_comes_at_growing_intervals) {
  Capture capture;
  Log log = log_to(capture);
  double now = 0;
  std::vector<double> shown;
  Progress progress(log, {.what = "train", .unit = "steps", .total = 4000.0, .style = Progress::Style::lines},
                    [&] { return now; });
  for (; now < 4000; now += 1) {
    progress.update(now);
    if (!capture.text().empty()) shown.push_back(now);
  }
  BOOST_TEST_REQUIRE(shown.size() > 8U);
  BOOST_TEST(shown.size() < 25U);
  for (std::size_t i = 2; i < shown.size(); ++i) BOOST_TEST(shown[i] - shown[i - 1] >= shown[i - 1] - shown[i - 2]);
  BOOST_TEST(shown.front() == 5);
  BOOST_TEST(shown.back() - shown[shown.size() - 2] == 600);
}

BOOST_AUTO_TEST_CASE(progress_can_have_a_line_for_each_update_with_exact_counts) {
  Capture capture;
  Log log = log_to(capture);
  double now = 0;
  Progress progress(log, {.what = "train", .unit = "steps", .total = 4000.0, .style = Progress::Style::each_update},
                    [&] { return now; });
  for (const int step : {1233, 1234}) {
    progress.update(step, "loss 2.5");
    now += 1;
  }
  const std::vector<std::string> expected{"train: train: 1233/4000 steps (31 %), loss 2.5",
                                          "train: train: 1234/4000 steps (31 %), loss 2.5, 46 min 06 s left"};
  BOOST_TEST(capture.lines() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_time_left_of_a_resumed_job_counts_its_own_steps_only) {
  Capture capture;
  Log log = log_to(capture);
  double now = 0;
  Progress progress(log, {.what = "train", .unit = "steps", .total = 1000.0, .style = Progress::Style::lines},
                    [&] { return now; });
  progress.update(900);
  now = 10;
  progress.update(910, "loss 2.5");
  const std::vector<std::string> expected{"train: train: 910/1.0 k steps (91 %), loss 2.5, 1 min 30 s left"};
  BOOST_TEST(capture.lines() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(as_json_each_line_is_an_object_and_nothing_is_drawn_in_place) {
  Capture capture;
  Log log = log_to(capture);
  log.set_format(Log::Format::json);
  log.info("two\nlines");
  log.status("not drawn");
  log.set_rank(3);
  log.failure(Error(ExitCode::storage, "no \"space\"", "remove something"));
  log.info_with("step 5", {{"step", 5}, {"loss", 2.5}});
  log.debug("below the level");
  std::vector<Json> lines;
  std::string rest = capture.text();
  for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
    lines.push_back(parse_json(rest.substr(0, end), "a line"));
    rest.erase(0, end + 1);
  }
  BOOST_TEST_REQUIRE(lines.size() == 3U);
  BOOST_TEST(rest.empty());
  const auto without_time = [](Json line) {
    BOOST_TEST(line.erase("time") == 1U);
    return to_text(line);
  };
  BOOST_TEST(without_time(lines[0]) == R"({"level":"info","program":"train","rank":null,"message":"two\nlines"})");
  BOOST_TEST(without_time(lines[1]) ==
             R"({"level":"error","program":"train","rank":3,"message":"no \"space\"\nhint: remove something"})");
  BOOST_TEST(without_time(lines[2]) ==
             R"({"level":"info","program":"train","rank":3,"message":"step 5","step":5,"loss":2.5})");
}

BOOST_AUTO_TEST_CASE(as_text_the_fields_of_a_line_are_left_out) {
  Capture capture;
  Log log = log_to(capture);
  log.info_with("step 5", {{"step", 5}});
  const std::vector<std::string> expected{"train: step 5"};
  BOOST_TEST(capture.lines() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
