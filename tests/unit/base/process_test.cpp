#include "base/process.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <latch>
#include <thread>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(process)

BOOST_AUTO_TEST_CASE(what_a_process_takes_and_gives_back_is_counted) {
  const ProcessHoldings before = holdings_of_process();
  BOOST_TEST(before.resident_kib > 0);
  BOOST_TEST(before.descriptors >= 3);
  BOOST_TEST(before.threads >= 1);
  {
    constexpr std::size_t length = 64 << 20;  // from the system, which has it back at once
    void* const memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BOOST_REQUIRE(memory != MAP_FAILED);
    std::memset(memory, 'x', length);
    const int descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    std::latch counted(1);
    std::thread other([&] { counted.wait(); });
    const ProcessHoldings now = holdings_of_process();
    counted.count_down();
    other.join();
    ::close(descriptor);
    ::munmap(memory, length);
    BOOST_TEST(now.resident_kib - before.resident_kib >= 60 << 10);
    BOOST_TEST(now.descriptors == before.descriptors + 1);
    BOOST_TEST(now.threads == before.threads + 1);
  }
  const ProcessHoldings after = holdings_of_process();
  BOOST_TEST(after.resident_kib - before.resident_kib < 4 << 10);
  BOOST_TEST(after.descriptors == before.descriptors);
}

BOOST_AUTO_TEST_SUITE_END()
