#include "comm/session.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/run_clock.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(session)

namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// The exit code of `work` in a process of its own, which ends quietly with 0 if `work` returns.
int code_of_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    (void)!std::freopen("/dev/null", "w", stderr);
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

Session::Settings injected(const std::string& text) { return {.watchdog_s = 0, .injection = parse_injection(text)}; }

}  // namespace

BOOST_AUTO_TEST_CASE(it_says_what_the_process_does) {
  Session session(solo_communicator());
  BOOST_TEST(session.where() == "start-up");
  session.enter(Phase::forward, 7);
  BOOST_TEST(session.where() == "forward of step 7");
  BOOST_TEST(session.step() == 7);
}

BOOST_AUTO_TEST_CASE(an_injected_error_is_thrown_once_at_its_phase_and_step) {
  Session session(solo_communicator());
  session.configure(injected("kind=throw,phase=backward,step=2,code=4"));
  session.enter(Phase::backward, 1);
  session.enter(Phase::forward, 2);
  BOOST_CHECK_EXCEPTION(session.enter(Phase::backward, 2), Error, [](const Error& error) {
    return error.code() == ExitCode::storage && std::string(error.what()) == "injected failure in backward of step 2";
  });
  BOOST_CHECK_NO_THROW(session.enter(Phase::backward, 2));
}

BOOST_AUTO_TEST_CASE(a_failure_injected_into_another_rank_does_not_happen_here) {
  Session session(solo_communicator());
  session.configure(injected("kind=throw,rank=1,phase=data"));
  BOOST_CHECK_NO_THROW(session.enter(Phase::data, 0));
}

BOOST_AUTO_TEST_CASE(an_injected_nan_is_handed_out_once) {
  Session session(solo_communicator());
  session.configure(injected("kind=nan,phase=forward"));
  BOOST_TEST(!session.take_injected_nan());
  session.enter(Phase::forward, 0);
  BOOST_TEST(session.take_injected_nan());
  BOOST_TEST(!session.take_injected_nan());
}

BOOST_AUTO_TEST_CASE(an_injected_failure_may_happen_in_several_steps_once_in_each) {
  Session session(solo_communicator());
  session.configure(injected("kind=nan,phase=forward,step=1,steps=2"));
  std::vector<int> poisoned;
  for (int step = 0; step < 5; ++step) {
    for (int block = 0; block < 3; ++block) {
      session.enter(Phase::forward, step);
      if (session.take_injected_nan()) poisoned.push_back(step);
    }
  }
  BOOST_TEST(poisoned == (std::vector<int>{1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(injected_exits_and_kills_end_the_process_without_a_word) {
  BOOST_TEST(code_of_child([] {
               Session session(solo_communicator());
               session.configure(injected("kind=exit,phase=data,code=9"));
               session.enter(Phase::data);
             }) == 9);
  BOOST_TEST(code_of_child([] {
               Session session(solo_communicator());
               session.configure(injected("kind=kill,phase=data"));
               session.enter(Phase::data);
             }) == 1000 + SIGKILL);
}

BOOST_AUTO_TEST_CASE(a_phase_that_takes_too_long_ends_the_process_with_code_7_after_telling) {
  BOOST_TEST(code_of_child([] {
               Session session(solo_communicator());
               session.on_end([](const Session::End& end) {
                 const bool told =
                     end.explanation.starts_with("watchdog: rank 0 (" + host_name() + ") in forward of step 3 for ") &&
                     end.explanation.ends_with(" s: longer than the limit of 0.2 s, the job ends");
                 if (!told || end.code != 7 || end.phase != Phase::forward || end.step != 3) ::_exit(99);
               });
               session.configure({.watchdog_s = 0.2,
                                  .phase_limits_s = {{Phase::start_up, 600}},
                                  .injection = parse_injection("kind=stall,phase=forward,step=3")});
               session.enter(Phase::forward, 3);
             }) == 7);
}

BOOST_AUTO_TEST_CASE(a_phase_may_have_a_deadline_of_its_own) {
  const auto code_after = [](int ms, double general_s, double own_s, Phase phase) {
    return code_of_child([=] {
      Session session(solo_communicator());
      session.enter(phase);
      session.configure({.watchdog_s = general_s, .phase_limits_s = {{Phase::save_write, own_s}}});
      sleep_ms(ms);
    });
  };
  constexpr int for_ever = 100'000;
  BOOST_TEST(code_after(600, 0.2, 600, Phase::save_write) == 0);
  BOOST_TEST(code_after(for_ever, 0.2, 600, Phase::save_seal) == 7);
  BOOST_TEST(code_after(for_ever, 600, 0.2, Phase::save_write) == 7);
  BOOST_TEST(code_after(for_ever, 0, 0.2, Phase::save_write) == 7);
  BOOST_TEST(code_after(600, 0.2, 0, Phase::save_write) == 0);
}

BOOST_AUTO_TEST_CASE(phases_that_change_in_time_go_on) {
  constexpr int was_held_up = 50;  // for so long that the watchdog was right
  int code = was_held_up;
  while (code == was_held_up) {
    code = code_of_child([] {
      Session session(solo_communicator());
      std::atomic<double> entered_s = monotonic_seconds();
      session.on_end([&](const Session::End&) {
        if (monotonic_seconds() - entered_s >= 2) ::_exit(was_held_up);
      });
      session.configure({.watchdog_s = 2, .phase_limits_s = {{Phase::start_up, 600}}});
      for (int step = 0; step < 8; ++step) {
        session.enter(Phase::forward, step);
        entered_s = monotonic_seconds();
        sleep_ms(300);
      }
    });
  }
  BOOST_TEST(code == 0);
}

BOOST_AUTO_TEST_CASE(a_driven_clock_stands_still_but_for_the_steps) {
  ::setenv("LOCKSTEP_TEST_CLOCK", "2.5", 1);
  {
    Session session(solo_communicator());
    session.configure({.watchdog_s = 600});
    BOOST_TEST(session.seconds() == 0);
    session.enter(Phase::data, 0);
    BOOST_TEST(session.seconds() == 0);
    for (int step = 0; step < 3; ++step) {
      session.enter(Phase::forward, step);
      session.enter(Phase::save_write, step + 1);
      BOOST_TEST(session.seconds() == 2.5 * (step + 1));
      BOOST_TEST(run_seconds() == session.seconds());
    }
  }
  ::unsetenv("LOCKSTEP_TEST_CLOCK");
  const double before_s = monotonic_seconds();
  BOOST_TEST(run_seconds() >= before_s);
}

BOOST_AUTO_TEST_CASE(the_first_signal_stops_after_the_step_the_second_now_and_the_third_at_once) {
  BOOST_TEST(code_of_child([] {
               std::optional<Session> session;
               double took_s = 1;
               while (took_s > 0.15) {  // again if the process was held up for so long that these are two requests
                 session.emplace(solo_communicator());
                 session->accept_stop_signals();
                 if (session->stop_level() != StopLevel::none) ::_exit(1);
                 const double start_s = monotonic_seconds();
                 ::raise(SIGUSR1);
                 ::raise(SIGUSR1);  // the same request, sent twice
                 took_s = monotonic_seconds() - start_s;
               }
               if (session->stop_level() != StopLevel::after_step) ::_exit(2);
               sleep_ms(250);
               ::raise(SIGTERM);
               if (session->stop_level() != StopLevel::now) ::_exit(3);
               sleep_ms(250);
               ::raise(SIGINT);
               ::_exit(4);
             }) == 128 + SIGINT);
}

BOOST_AUTO_TEST_CASE(signals_are_given_back_at_the_end_and_left_alone_unless_asked_for) {
  BOOST_TEST(code_of_child([] {
               {
                 Session session(solo_communicator());
                 session.accept_stop_signals();
               }
               ::raise(SIGTERM);
             }) == 1000 + SIGTERM);
  BOOST_TEST(code_of_child([] {
               ::signal(SIGINT, SIG_DFL);  // a shell has what it starts in the background ignore it
               Session session(solo_communicator());
               ::raise(SIGINT);
             }) == 1000 + SIGINT);
}

BOOST_AUTO_TEST_CASE(the_firmest_request_counts) {
  Session session(solo_communicator());
  session.request_stop(StopLevel::now);
  session.request_stop(StopLevel::after_step);
  BOOST_TEST((session.stop_level() == StopLevel::now));
}

BOOST_AUTO_TEST_CASE(a_rank_that_aborts_ends_the_process_with_its_code_and_says_where_it_was) {
  BOOST_TEST(code_of_child([] { Session(solo_communicator()).abort_with("over", 6); }) == 6);
  BOOST_TEST(code_of_child([] {
               Session session(solo_communicator());
               session.on_end([](const Session::End& end) {
                 if (end.explanation != "backward of step 4: lost" || end.code != 7 || end.phase != Phase::backward)
                   ::_exit(99);
               });
               session.enter(Phase::backward, 4);
               session.abort_with(Failure{.code = ExitCode::communication, .message = "lost", .hint = {}, .host = {}});
             }) == 7);
}

BOOST_AUTO_TEST_CASE(a_failure_injected_into_the_lane_happens_in_the_present_step_and_in_no_phase) {
  Session session(solo_communicator());
  session.configure(injected("kind=throw,phase=lane,step=2,code=7"));
  session.enter(Phase::reduction, 1);
  BOOST_CHECK_NO_THROW(session.inject(Phase::lane));
  session.enter(Phase::reduction, 2);
  BOOST_CHECK_EXCEPTION(session.inject(Phase::lane), Error, [](const Error& error) {
    return std::string(error.what()) == "injected failure in lane of step 2";
  });
}

BOOST_AUTO_TEST_SUITE_END()
