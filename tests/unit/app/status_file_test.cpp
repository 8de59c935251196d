#include "app/status_file.hpp"

#include "base/json.hpp"

#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <unistd.h>

using namespace lockstep;

namespace {
struct Folder {
  Path path = std::filesystem::temp_directory_path() / fmt::format("lockstep-status-test-{}", ::getpid());
  Folder() { make_folder(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  Json status() const { return parse_json(read_file(path / "status.json"), "status.json"); }
};
}  // namespace

BOOST_AUTO_TEST_SUITE(status_file)

BOOST_FIXTURE_TEST_CASE(it_says_running_and_then_how_the_run_ended, Folder) {
  Session session(solo_communicator());
  keep_status(session, path);
  BOOST_TEST(status()["reason"] == "running");
  BOOST_TEST(status()["code"].is_null());
  session.enter(Phase::save_write, 12);
  session.report_end("no space left", 4);
  const Json told = status();
  BOOST_TEST(told["reason"] == "storage");
  BOOST_TEST(told["code"] == 4);
  BOOST_TEST(told["explanation"] == "no space left");
  BOOST_TEST(told["phase"] == "save.write");
  BOOST_TEST(told["step"] == 12);
  BOOST_TEST(told["rank"] == 0);
}

BOOST_FIXTURE_TEST_CASE(a_job_that_left_running_behind_is_told_with_its_host_and_process, Folder) {
  BOOST_TEST(!unexplained_end(path).has_value());
  Session session(solo_communicator());
  keep_status(session, path);
  const std::string told = unexplained_end(path).value_or("");
  BOOST_TEST(told.starts_with(fmt::format("the previous job ended without a message: process {} on {}, started 2",
                                          ::getpid(), host_name())),
             told);
  session.report_end("", 0);
  BOOST_TEST(!unexplained_end(path).has_value());
}

BOOST_FIXTURE_TEST_CASE(a_status_that_is_damaged_or_of_other_making_is_told_with_its_file, Folder) {
  for (const char* const text :
       {"{\"reason", "[]", "7", "{}", R"({"reason": 7})", R"({"reason": "running", "host": null, "time": "now"})",
        R"({"reason": "running", "host": "a", "time": []})"}) {
    publish_file(path / "status.json", text);
    const std::string told = unexplained_end(path).value_or("");
    BOOST_TEST(told.starts_with("cannot tell how the previous job ended: " + (path / "status.json").string()),
               text << ": " << told);
  }
}

BOOST_FIXTURE_TEST_CASE(progress_stays_that_of_the_job_before_until_a_job_owns_it, Folder) {
  BOOST_TEST(!progress_in(path).has_value());
  const JobIdentity one{.configuration = "one", .slurm_job = "7", .slurm_restarts = 1};
  {
    Session session(solo_communicator());
    RunStatus kept = keep_status(session, path);
    BOOST_TEST(!progress_in(path).has_value());
    kept.own_progress(one);
    BOOST_TEST((progress_in(path) == RunProgress{.by = one, .stopped = false}));
    BOOST_TEST(status()["reason"] == "running");
    session.report_end("", 75);
    BOOST_TEST((progress_in(path) == RunProgress{.by = one, .stopped = true}));
  }
  Session session(solo_communicator());
  RunStatus kept = keep_status(session, path, progress_in(path));
  BOOST_TEST((progress_in(path) == RunProgress{.by = one, .stopped = true}));
  session.report_end("no room", 4);  // before it came as far as that of its own
  BOOST_TEST((progress_in(path) == RunProgress{.by = one, .stopped = true}));
  kept.own_progress({.configuration = "two"});
  session.report_end("", 0);
  BOOST_TEST((progress_in(path) == RunProgress{.by = {.configuration = "two"}, .stopped = false}));
}

BOOST_AUTO_TEST_CASE(the_same_command_continues_what_was_stopped_and_a_requeued_job_its_own) {
  const JobIdentity first{.configuration = "a", .slurm_job = "7"};
  const auto again = [&](const char* configuration, const char* job, std::int64_t restarts) {
    return JobIdentity{.configuration = configuration, .slurm_job = job, .slurm_restarts = restarts};
  };
  for (const bool stopped : {false, true}) {
    const RunProgress progress{.by = first, .stopped = stopped};
    BOOST_TEST(continues(again("a", "7", 1), progress));
    BOOST_TEST(continues(again("a", "7", 0), progress) == stopped);  // a second command of one job
    BOOST_TEST(continues(again("a", "8", 1), progress) == stopped);
    BOOST_TEST(continues(again("a", "", 0), progress) == stopped);
    BOOST_TEST(!continues(again("b", "7", 1), progress));
  }
}

BOOST_FIXTURE_TEST_CASE(a_status_of_other_making_tells_of_no_progress, Folder) {
  for (const char* const text :
       {"{\"progress", "[]", "7", "{}", R"({"progress": 7})", R"({"progress": {"configuration": "a"}})",
        R"({"progress": {"configuration": 7, "slurm_job": "", "slurm_restarts": 0, "stopped": true}})",
        R"({"progress": {"configuration": "a", "slurm_job": "", "slurm_restarts": "0", "stopped": true}})"}) {
    publish_file(path / "status.json", text);
    BOOST_TEST(!progress_in(path).has_value(), text);
  }
}

BOOST_FIXTURE_TEST_CASE(a_run_folder_that_was_moved_has_the_status_and_its_old_name_none, Folder) {
  Session session(solo_communicator());
  keep_status(session, path);
  const Path moved = path.string() + "-moved";
  std::filesystem::rename(path, moved);
  make_folder(path);
  session.report_end("no space left", 4);
  BOOST_TEST(std::filesystem::is_empty(path));
  std::filesystem::remove_all(path);
  std::filesystem::rename(moved, path);
  BOOST_TEST(status()["reason"] == "storage");
}

BOOST_FIXTURE_TEST_CASE(a_status_that_cannot_be_written_at_the_end_does_not_change_the_end, Folder) {
  Session session(solo_communicator());
  keep_status(session, path);
  std::filesystem::remove_all(path);
  BOOST_CHECK_NO_THROW(session.report_end("", 0));
}

BOOST_AUTO_TEST_SUITE_END()
