#include "comm/stop.hpp"

#include "base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <chrono>
#include <thread>

using namespace lockstep;

namespace {
struct Folder {
  Path path = std::filesystem::temp_directory_path() / fmt::format("lockstep-stop-test-{}", ::getpid());
  Path control = path / "control";
  Folder() { make_folder(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};
void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
}  // namespace

BOOST_AUTO_TEST_SUITE(stop_channels)

BOOST_FIXTURE_TEST_CASE(the_control_file_stops_and_is_removed, Folder) {
  Session session(solo_communicator());
  publish_file(control, "stop\n");
  StopChannels channels(session, {.control_file = control, .max_time_s = {}});
  const StopChannels::Asked asked = channels.poll();
  BOOST_TEST((asked.stop == StopLevel::after_step));
  BOOST_TEST(asked.reason == "control file");
  BOOST_TEST(!std::filesystem::exists(control));
  BOOST_TEST((channels.poll().stop == StopLevel::after_step));  // a request is not forgotten
}

BOOST_FIXTURE_TEST_CASE(save_is_asked_once_and_abort_leaves_now, Folder) {
  Session session(solo_communicator());
  StopChannels channels(session, {.control_file = control, .max_time_s = {}});
  publish_file(control, "save");
  BOOST_TEST(asks(channels.poll().requests, Request::save));
  BOOST_TEST(!asks(channels.poll().requests, Request::save));
  publish_file(control, "abort");
  sleep_ms(1100);  // it looks once a second
  BOOST_TEST((channels.poll().stop == StopLevel::now));
}

BOOST_FIXTURE_TEST_CASE(another_word_is_refused_with_the_accepted_ones, Folder) {
  Session session(solo_communicator());
  publish_file(control, "pause");
  StopChannels channels(session, {.control_file = control, .max_time_s = {}});
  BOOST_CHECK_EXCEPTION(channels.poll(), Error, [&](const Error& error) {
    return error.code() == ExitCode::usage && std::string(error.what()) == control.string() + " says 'pause'" &&
           error.hint() == "write one of the words stop, save, abort";
  });
}

BOOST_AUTO_TEST_CASE(the_clock_leaves_time_for_one_more_step_and_a_save) {
  Session session(solo_communicator());
  StopChannels without_save(session, {.control_file = {}, .max_time_s = 1.0});
  StopChannels with_save(session, {.control_file = {}, .max_time_s = 1.0});
  with_save.save_took(5);
  BOOST_TEST((without_save.poll().stop == StopLevel::none));
  const StopChannels::Asked asked = with_save.poll();
  BOOST_TEST((asked.stop == StopLevel::after_step));
  BOOST_TEST(asked.reason == "max_time");
  sleep_ms(600);  // a step of 0.6 s: another one would end after 1 s
  BOOST_TEST((without_save.poll().stop == StopLevel::after_step));
}

BOOST_AUTO_TEST_CASE(a_request_of_the_session_is_a_signal) {
  Session session(solo_communicator());
  StopChannels channels(session, {.control_file = {}, .max_time_s = {}});
  BOOST_TEST((channels.poll().stop == StopLevel::none));
  session.request_stop(StopLevel::after_step);
  BOOST_TEST(channels.poll().reason == "signal");
}

BOOST_AUTO_TEST_SUITE_END()
