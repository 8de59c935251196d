#include "base/machine_memory.hpp"

#include "harness/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <fstream>

using namespace lockstep;

namespace {

/// A tree of files as /proc and /sys have them; sizes in MiB.
struct Machine : TemporaryFolder {
  Machine() {
    put("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          100 kB\nMemAvailable:    4194304 kB\n");
    put("proc/sys/kernel/random/boot_id", "b00t\n");
  }
  void put(const Path& name, const std::string& text) const {
    make_folder((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
  static std::string mib(std::int64_t value) { return std::to_string(value << 20) + "\n"; }
};

constexpr std::int64_t mebi = 1 << 20;

}  // namespace

BOOST_AUTO_TEST_SUITE(machine_memory)

BOOST_FIXTURE_TEST_CASE(without_control_groups_the_machine_is_the_limit, Machine) {
  const auto limits = memory_limits(path);
  BOOST_TEST_REQUIRE(limits.size() == 1u);
  BOOST_TEST(limits[0].group.empty());
  BOOST_TEST(limits[0].total_bytes == 8192 * mebi);
  BOOST_TEST(limits[0].available_bytes == 4096 * mebi);
}

BOOST_FIXTURE_TEST_CASE(every_group_of_version_2_on_the_way_up_may_have_a_limit, Machine) {
  put("proc/self/cgroup", "0::/job/step\n");
  put("sys/fs/cgroup/job/step/memory.max", "max\n");
  put("sys/fs/cgroup/job/step/memory.current", mib(10));
  put("sys/fs/cgroup/job/memory.max", mib(1000));
  put("sys/fs/cgroup/job/memory.current", mib(600));
  put("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file " + mib(100) + "active_file " + mib(50));
  const auto limits = memory_limits(path);
  BOOST_TEST_REQUIRE(limits.size() == 2u);
  BOOST_TEST(limits[1].group == "/job");
  BOOST_TEST(limits[1].total_bytes == 1000 * mebi);
  BOOST_TEST(limits[1].available_bytes == 550 * mebi);  // what only caches files can be had
  BOOST_TEST(limits[1].identity != limits[0].identity);
  BOOST_TEST(memory_limits(path)[1].identity == limits[1].identity);
}

BOOST_FIXTURE_TEST_CASE(a_container_of_version_1_finds_its_group_at_the_top_and_no_limit_above_the_machine, Machine) {
  put("proc/self/cgroup", "5:cpu:/docker/abc\n4:memory:/docker/abc\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", mib(2048));
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", mib(48));
  auto limits = memory_limits(path);
  BOOST_TEST_REQUIRE(limits.size() == 2u);
  BOOST_TEST(limits[1].group == "/");
  BOOST_TEST(limits[1].available_bytes == 2000 * mebi);
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  BOOST_TEST(memory_limits(path).size() == 1u);
}

BOOST_AUTO_TEST_CASE(this_machine_says_how_much_memory_it_has) {
  const auto limits = memory_limits();
  BOOST_TEST_REQUIRE(!limits.empty());
  BOOST_TEST(limits[0].available_bytes > 0);
  BOOST_TEST(limits[0].total_bytes >= limits[0].available_bytes);
}

BOOST_AUTO_TEST_SUITE_END()
