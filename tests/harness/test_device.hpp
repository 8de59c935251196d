// The device on which tests run where LOCKSTEP_TEST_DEVICE names one: its memory is closed to the host.
#pragma once

#include "config/train_config.hpp"
#include "harness/mpi_test.hpp"
#include "tensor/runtime.hpp"
#include "train/run_device.hpp"

#include <cstdlib>
#include <string>
#include <vector>

namespace lockstep::test {

inline bool has_test_device() { return std::getenv("LOCKSTEP_TEST_DEVICE") != nullptr; }

/// From now on the process computes on the device of tests, if there is one. Collective over world(); once.
inline void open_test_device() {
  if (!has_test_device()) return;
  set_up_runtime(1);
  TrainConfig config;
  config.train.device = DeviceChoice::cuda;
  config.parallel.transport = RankTransport::host;  // ranks may share a device
  open_device(config, world(), std::vector<std::string>(static_cast<std::size_t>(world().size()), "one"));
}

}  // namespace lockstep::test
