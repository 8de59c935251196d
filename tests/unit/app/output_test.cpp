#include "app/output.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>

using namespace lockstep;

namespace {
bool is_storage(const Error& error) { return error.code() == ExitCode::storage; }
}  // namespace

BOOST_AUTO_TEST_SUITE(output)

BOOST_AUTO_TEST_CASE(what_is_printed_arrives_at_once) {
  std::array<int, 2> ends{};
  BOOST_REQUIRE(::pipe(ends.data()) == 0);
  Log log({.program = "test"});
  Output output({}, {}, log, ends[1]);
  output.print("a result\n");
  output.print_json({{"key", 1}});
  output.close();
  std::array<char, 100> got{};
  const ssize_t count = ::read(ends[0], got.data(), got.size());
  BOOST_TEST(std::string(got.data(), static_cast<std::size_t>(count)) == "a result\n{\n  \"key\": 1\n}\n");
  ::close(ends[0]);
  ::close(ends[1]);
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_an_error_and_never_silence) {
  const FileDescriptor full = open_file("/dev/full", O_WRONLY);
  Log log({.program = "test"});
  Output output({}, {}, log, full.get());
  BOOST_CHECK_EXCEPTION(output.print("lost"), Error, [](const Error& error) {
    return is_storage(error) && std::string(error.what()) == "cannot write standard output: No space left on device";
  });
}

BOOST_AUTO_TEST_CASE(a_closed_standard_output_is_an_error) {
  Log log({.program = "test"});
  Output output({}, {}, log, 987);
  BOOST_CHECK_EXCEPTION(output.print("lost"), Error, is_storage);
}

BOOST_AUTO_TEST_CASE(a_reader_that_has_seen_enough_is_no_error) {
  std::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  BOOST_REQUIRE(::pipe(ends.data()) == 0);
  ::close(ends[0]);
  Log log({.program = "test"});
  Output output({}, {}, log, ends[1]);
  BOOST_CHECK_NO_THROW(output.print("more"));
  BOOST_CHECK_NO_THROW(output.print("than it wants"));
  ::close(ends[1]);
}

BOOST_AUTO_TEST_SUITE_END()
