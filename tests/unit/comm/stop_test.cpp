#include "comm/stop.hpp"

#include "base/error.hpp"
#include "harness/driven_clock.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <tuple>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(stop_channels)

namespace {
struct Folder {
  Path path = std::filesystem::temp_directory_path() / fmt::format("lockstep-stop-test-{}", ::getpid());
  Path control = path / "control";
  Folder() { make_folder(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};
}  // namespace

BOOST_FIXTURE_TEST_CASE(the_control_file_stops_and_is_removed, Folder) {
  Session session(solo_communicator());
  publish_file(control, "stop\n");
  StopChannels channels(session, {.control_file = control, .max_time_s = {}});
  const StopChannels::Asked asked = channels.poll();
  BOOST_TEST((asked.stop == StopLevel::after_step));
  BOOST_TEST(asked.reason == "the control file");
  BOOST_TEST(!std::filesystem::exists(control));
  BOOST_TEST((channels.poll().stop == StopLevel::after_step));  // a request is not forgotten
}

BOOST_FIXTURE_TEST_CASE(an_option_that_may_change_is_handed_out_once_with_its_value, Folder) {
  Session session(solo_communicator());
  for (const auto& [text, option, value] : {std::tuple("log.every 5\n", "log.every", "5"),
                                            {"eval.every   0.5 epochs + 10m ", "eval.every", "0.5 epochs + 10m"}}) {
    publish_file(control, text);
    StopChannels channels(session, {.control_file = control, .max_time_s = {}, .options = {"log.every", "eval.every"}});
    const StopChannels::Asked asked = channels.poll();
    BOOST_REQUIRE(asked.change.has_value());
    BOOST_TEST((asked.change->option == option && asked.change->value == value));
    BOOST_TEST((asked.problem.empty() && asked.requests == Request::none && asked.stop == StopLevel::none));
    BOOST_TEST((!channels.poll().change && !std::filesystem::exists(control)));
  }
  for (const std::string text : {"log.every", "log.every\n5", "log.every 5\neval.every 6", "log.every 5\x01",
                                 "log.every=5", "optimizer.lr 5", "log.everything 5", "LOG.EVERY 5"}) {
    publish_file(control, text);
    StopChannels channels(session, {.control_file = control, .max_time_s = {}, .options = {"log.every", "eval.every"}});
    const StopChannels::Asked asked = channels.poll();
    BOOST_TEST(!asked.change.has_value(), text);
    BOOST_TEST(
        asked.problem.ends_with(", which is not a request; write one of the words stop, save, abort, evaluate, log, "
                                "status, save-stop, or one of log.every, eval.every and an interval"),
        asked.problem);
    BOOST_TEST(asked.problem.find('\n') == std::string::npos);
  }
}

BOOST_FIXTURE_TEST_CASE(save_is_asked_once_and_abort_leaves_now, Folder) {
  test::DrivenClock clock;
  Session session(solo_communicator());
  StopChannels channels(session, {.control_file = control, .max_time_s = {}});
  publish_file(control, "save");
  BOOST_TEST(asks(channels.poll().requests, Request::save));
  BOOST_TEST(!asks(channels.poll().requests, Request::save));
  for (const auto& [word, request] : {std::pair("evaluate", Request::evaluate), std::pair("log", Request::log)}) {
    publish_file(control, word);
    clock.advance(0.875);
    BOOST_TEST((channels.poll().requests == Request::none));  // it looks once a second
    clock.advance(0.125);
    const StopChannels::Asked asked = channels.poll();
    BOOST_TEST((asked.requests == request && asked.stop == StopLevel::none && asked.problem.empty()));
    BOOST_TEST((channels.poll().requests == Request::none && !std::filesystem::exists(control)));
  }
  publish_file(control, "status");
  clock.advance(1);
  const StopChannels::Asked asked = channels.poll();
  BOOST_TEST((asked.status && asked.requests == Request::none && asked.stop == StopLevel::none));
  BOOST_TEST(!channels.poll().status);
  publish_file(control, "save-stop");
  clock.advance(1);
  BOOST_TEST((channels.poll().stop == StopLevel::after_step));
  publish_file(control, "abort");
  clock.advance(1);
  BOOST_TEST((channels.poll().stop == StopLevel::now));
}

BOOST_FIXTURE_TEST_CASE(what_is_not_understood_asks_for_nothing_and_is_told_once_with_the_accepted_words, Folder) {
  Session session(solo_communicator());
  for (const std::string word : {"Stop", "save now", "stop\nnow", "\x1b[2J"}) {
    publish_file(control, word + "\n");
    StopChannels channels(session, {.control_file = control, .max_time_s = {}});
    const StopChannels::Asked asked = channels.poll();
    BOOST_TEST((asked.stop == StopLevel::none && asked.requests == Request::none));
    std::string shown = word;
    for (char& byte : shown) byte = byte < ' ' ? '?' : byte;
    BOOST_TEST(
        asked.problem ==
        control.string() + " contains '" + shown +
            "', which is not a request; write one of the words stop, save, abort, evaluate, log, status, save-stop");
    BOOST_TEST(!std::filesystem::exists(control));
  }
}

BOOST_FIXTURE_TEST_CASE(what_is_no_small_file_is_left_alone_and_told_of_once, Folder) {
  test::DrivenClock clock;
  Session session(solo_communicator());
  const auto made = [&](const char* kind) {
    const std::string name = kind;
    if (name == "folder") make_folder(control);
    if (name == "pipe") BOOST_REQUIRE(::mkfifo(control.c_str(), 0600) == 0);  // to open one for reading would block
    if (name == "link") std::filesystem::create_symlink("/dev/zero", control);
    if (name == "large") publish_file(control, "stop" + std::string(1 << 20, ' '));
  };
  for (const char* const kind : {"folder", "pipe", "link", "large"}) {
    made(kind);
    StopChannels channels(session, {.control_file = control, .max_time_s = {}});
    const StopChannels::Asked asked = channels.poll();
    BOOST_TEST((asked.stop == StopLevel::none && asked.requests == Request::none));
    BOOST_TEST(asked.problem ==
               control.string() +
                   " is ignored, because it is not a small regular file; write one of the words stop, save, abort, "
                   "evaluate, log, status, save-stop");
    clock.advance(1);  // it looks once a second
    BOOST_TEST(channels.poll().problem.empty());
    BOOST_TEST(std::filesystem::remove(control));
  }
}

BOOST_FIXTURE_TEST_CASE(a_hangup_asks_to_stop_unless_nohup_has_it_ignored, Folder) {
  for (const bool ignored : {false, true}) {
    const auto before = std::signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL);
    Session session(solo_communicator());
    session.accept_stop_signals();
    std::raise(SIGHUP);
    BOOST_TEST((session.stop_level() == (ignored ? StopLevel::none : StopLevel::after_step)));
    std::signal(SIGHUP, before);
  }
}

BOOST_AUTO_TEST_CASE(the_clock_leaves_time_for_a_save) {
  Session session(solo_communicator());
  StopChannels without_save(session, {.control_file = {}, .max_time_s = 3600.0});
  StopChannels with_save(session, {.control_file = {}, .max_time_s = 3600.0});
  with_save.save_took(5000);
  BOOST_TEST((without_save.poll().stop == StopLevel::none));
  const StopChannels::Asked asked = with_save.poll();
  BOOST_TEST((asked.stop == StopLevel::after_step));
  BOOST_TEST(asked.reason == "train.max_time");
}

BOOST_AUTO_TEST_CASE(the_clock_asks_as_soon_as_another_step_as_long_as_the_longest_would_not_fit) {
  test::DrivenClock clock;
  Session session(solo_communicator());
  StopChannels channels(session, {.control_file = {}, .max_time_s = 10.0});
  const auto asks_after = [&](double step_s) {
    clock.advance(step_s);
    return channels.poll().stop == StopLevel::after_step;
  };
  BOOST_TEST(!asks_after(1));  // what came before the first step is no step
  BOOST_TEST(!asks_after(3));
  BOOST_TEST(!asks_after(1));
  BOOST_TEST(!asks_after(2));    // at 7: another of 3 ends in time
  BOOST_TEST(asks_after(0.25));  // at 7.25
}

BOOST_AUTO_TEST_CASE(a_stop_is_by_the_first_signal_that_asked_for_it) {
  std::signal(SIGHUP, SIG_DFL);  // under nohup it is ignored
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT, SIGHUP}) {
    Session session(solo_communicator());
    session.accept_stop_signals();
    StopChannels channels(session, {.control_file = {}, .max_time_s = {}});
    BOOST_TEST(session.stop_reason() == "");
    std::raise(signal);
    const std::string name = signal == SIGUSR1   ? "SIGUSR1"
                             : signal == SIGTERM ? "SIGTERM"
                             : signal == SIGINT  ? "SIGINT"
                                                 : "SIGHUP";
    BOOST_TEST(channels.poll().reason == name);
    std::raise(signal == SIGINT ? SIGTERM : SIGINT);
    BOOST_TEST(session.stop_reason() == name);
  }
}

BOOST_AUTO_TEST_CASE(a_request_of_the_session_is_like_a_signal) {
  Session session(solo_communicator());
  StopChannels channels(session, {.control_file = {}, .max_time_s = {}});
  BOOST_TEST((channels.poll().stop == StopLevel::none));
  session.request_stop(StopLevel::after_step);
  BOOST_TEST(channels.poll().reason == "a request");
}

BOOST_AUTO_TEST_SUITE_END()
