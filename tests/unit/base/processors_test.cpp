#include "base/processors.hpp"

#include "harness/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <sched.h>

#include <fstream>
#include <future>
#include <thread>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(processors)

BOOST_FIXTURE_TEST_CASE(the_processors_of_a_numa_node_are_those_of_its_list, TemporaryFolder) {
  const Path folder = path / "sys/devices/system/node/node1";
  make_folder(folder);
  const auto listed = [&](const std::string& text) {
    std::ofstream(folder / "cpulist") << text;
    return processors_of_numa_node(1, path);
  };
  BOOST_TEST(listed("0-3,8,10-11\n") == (std::vector{0, 1, 2, 3, 8, 10, 11}), boost::test_tools::per_element());
  BOOST_TEST(listed("5\n") == std::vector{5}, boost::test_tools::per_element());
  for (const char* const none : {"", "\n", "x-3\n", "3-\n"}) BOOST_TEST(listed(none).empty());
  BOOST_TEST(processors_of_numa_node(0, path).empty());
  BOOST_TEST(processors_of_numa_node(-1, path).empty());
}

// In a thread that is asked from outside: binding has to reach threads that run already.
BOOST_AUTO_TEST_CASE(all_threads_use_the_processors_that_were_chosen) {
  cpu_set_t before;
  CPU_ZERO(&before);
  BOOST_TEST_REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  int last = 0;
  for (int one = 0; one < CPU_SETSIZE; ++one)
    if (CPU_ISSET(static_cast<std::size_t>(one), &before)) last = one;
  std::promise<void> bound;
  int usable_there = 0;
  std::thread thread([&] {
    bound.get_future().wait();
    usable_there = usable_processors();
  });
  use_processors({last});
  bound.set_value();
  thread.join();
  BOOST_TEST(usable_there == 1);
  BOOST_TEST(usable_processors() == 1);
  use_processors({CPU_SETSIZE - 1 == last ? 0 : CPU_SETSIZE - 1});  // none that it may use
  BOOST_TEST(usable_processors() == 1);
  sched_setaffinity(0, sizeof before, &before);
}

BOOST_AUTO_TEST_SUITE_END()
