// With LOCKSTEP_TEST_DEVICE all cases of a program run on that device.
#include "comm/communicator.hpp"
#include "config/train_config.hpp"
#include "harness/mpi_test.hpp"
#include "tensor/runtime.hpp"
#include "train/run_device.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <string>
#include <vector>

namespace lockstep::test {

struct DeviceOfTests {
  DeviceOfTests() {
    if (std::getenv("LOCKSTEP_TEST_DEVICE") == nullptr) return;
    set_up_runtime(1);
    TrainConfig config;
    config.train.device = DeviceChoice::cuda;
    open_device(config, world(), std::vector<std::string>(static_cast<std::size_t>(world().size()), "one"));
  }
};

BOOST_GLOBAL_FIXTURE(DeviceOfTests);

}  // namespace lockstep::test
