// With LOCKSTEP_TEST_DEVICE all cases of a program run on that device.
#include "harness/test_device.hpp"

#include <boost/test/unit_test.hpp>

namespace lockstep::test {

struct DeviceOfTests {
  DeviceOfTests() { open_test_device(); }
};

BOOST_GLOBAL_FIXTURE(DeviceOfTests);

}  // namespace lockstep::test
