// The device on which tests run where LOCKSTEP_TEST_DEVICE names one: its memory is closed to the host.
#pragma once

#include "base/error.hpp"
#include "config/train_config.hpp"
#include "harness/mpi_test.hpp"
#include "tensor/runtime.hpp"
#include "train/run_device.hpp"

#include <cstdlib>
#include <string>
#include <vector>

namespace lockstep::test {

inline bool has_test_device() { return std::getenv("LOCKSTEP_TEST_DEVICE") != nullptr; }

/// From now on the process computes on the device of tests, if there is one. Ranks that share it exchange through host
/// memory; those of the fake device by its NCCL, if that is wanted. Collective over world(); once.
inline void open_test_device() {
  if (!has_test_device()) return;
  set_up_runtime(1);
  TrainConfig config;
  config.train.device = DeviceChoice::cuda;
  open_device(config, world(), std::vector<std::string>(static_cast<std::size_t>(world().size()), "one"));
  const char* const fake = std::getenv("LOCKSTEP_FAKE_DEVICE");
  const bool wants_nccl = fake != nullptr && std::string(fake).find("nccl=1") != std::string::npos;
  invariant(world().size() == 1 || (nccl_in_use() != nullptr) == wants_nccl || fake == nullptr,
            "ranks exchange as the test wants");
}

}  // namespace lockstep::test
