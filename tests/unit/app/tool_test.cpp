#include "app/run_tool.hpp"

#include "base/files.hpp"
#include "comm/failure.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

using namespace lockstep;

namespace {

/// What a call wrote to standard error, and its result.
struct Called {
  int code = 0;
  std::string said;
};
Called call(const std::function<int()>& work) {
  const Path path = std::filesystem::temp_directory_path() / fmt::format("lockstep-tool-test-{}", ::getpid());
  Called called;
  const int before = ::dup(2);
  {
    const FileDescriptor file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
    ::dup2(file.get(), 2);
  }
  called.code = work();
  ::dup2(before, 2);
  ::close(before);
  called.said = read_file(path);
  std::filesystem::remove(path);
  return called;
}

Tool test_tool() {
  Tool tool;
  tool.name = "test-tool";
  return tool;
}

Called run(const std::function<int()>& work) {
  return call([&] { return run_job(test_tool(), {}, {}, serial_job, [&](Session&, Log&) { return work(); }); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tool)

BOOST_AUTO_TEST_CASE(the_result_of_the_work_is_the_exit_code) {
  BOOST_TEST(run([] { return 0; }).code == 0);
  const Called verdict = run([] { return 1; });
  BOOST_TEST(verdict.code == 1);
  BOOST_TEST(verdict.said.empty());  // a negative answer is no failure
}

BOOST_AUTO_TEST_CASE(an_error_is_explained_once_with_its_hint_and_gives_its_code) {
  const Called called =
      run([]() -> int { throw Error(ExitCode::storage, "cannot write a.h5: no space left", "free 4 MiB"); });
  BOOST_TEST(called.code == 4);
  BOOST_TEST(called.said.find("cannot write a.h5: no space left") != std::string::npos);
  BOOST_TEST(called.said.find("hint: free 4 MiB") != std::string::npos);
  BOOST_TEST(called.said.find("cannot write") == called.said.rfind("cannot write"));
}

BOOST_AUTO_TEST_CASE(exceptions_that_are_not_ours_are_bugs_and_lack_of_memory_is_a_lack_of_resources) {
  BOOST_TEST(run([]() -> int { throw std::logic_error("odd"); }).code == 70);
  BOOST_TEST(run([]() -> int { throw std::bad_alloc(); }).code == 5);
}

BOOST_AUTO_TEST_CASE(a_serial_tool_refuses_to_run_in_several_processes) {
  ::setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  const Called first = run([] { return 0; });
  ::setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  const Called second = run([] { return 0; });
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  BOOST_TEST(first.code == 2);
  BOOST_TEST(first.said.find("test-tool runs in one process, but 3 were launched") != std::string::npos);
  BOOST_TEST(second.code == 2);
  BOOST_TEST(second.said.empty());  // one explanation
}

BOOST_AUTO_TEST_CASE(causes_are_worse_than_consequences_and_bugs_are_worst) {
  BOOST_TEST(severity(ExitCode::storage) > severity(ExitCode::communication));
  BOOST_TEST(severity(ExitCode::communication) > severity(ExitCode::stopped));
  BOOST_TEST(severity(ExitCode::bug) > severity(ExitCode::numerics));
  BOOST_TEST(severity(ExitCode::stopped) > severity(ExitCode::done));
}

BOOST_AUTO_TEST_SUITE_END()
