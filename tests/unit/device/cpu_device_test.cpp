#include "device/device.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

BOOST_AUTO_TEST_SUITE(cpu_device)

using namespace lockstep;

namespace {

std::vector<std::byte> counted(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i % 251);
  return values;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_process_begins_on_the_cpu_whose_queues_run_at_once) {
  Device& device = this_device();
  BOOST_TEST(device.properties().is_host);
  std::vector<std::byte> from = counted(300), to(300);
  const RegionCopy copy{from, to};
  device.copy({&copy, 1}, DeviceQueue::to_device);
  BOOST_TEST((from == to));
  const DeviceMoment moment = device.record(DeviceQueue::to_device);
  BOOST_TEST(device.is_over(moment));
  device.follow(DeviceQueue::compute, moment);
  device.wait(moment);
  BOOST_TEST(device.counts().waits == 0);
}

BOOST_AUTO_TEST_CASE(regions_are_read_and_written_whole) {
  std::vector<std::byte> memory = counted(1000);
  for (const Arena arena : {Arena::host, Arena::device}) {
    const Region whole{arena, memory.data(), memory.size()}, part = part_of(whole, 100, 50);
    BOOST_TEST(is_host_memory(part));
    std::vector<std::byte> read(50);
    read_region(part, read);
    BOOST_TEST(std::equal(read.begin(), read.end(), memory.begin() + 100));
    std::ranges::reverse(read);
    write_region(read, part);
    BOOST_TEST(std::equal(read.begin(), read.end(), memory.begin() + 100));
    std::vector<std::byte> seen;
    for_each_host_part(whole, [&](std::size_t begin, std::span<const std::byte> bytes) {
      BOOST_TEST(begin == seen.size());
      seen.insert(seen.end(), bytes.begin(), bytes.end());
    });
    BOOST_TEST((seen == memory));
  }
}

BOOST_AUTO_TEST_CASE(pinned_memory_is_taken_again_after_its_release) {
  const std::byte* first = nullptr;
  {
    const auto memory = pinned_memory(5000);
    first = memory.get();
    memory.get()[4999] = std::byte{1};
  }
  BOOST_TEST(pinned_memory(4000).get() == first);
}

BOOST_AUTO_TEST_SUITE_END()
