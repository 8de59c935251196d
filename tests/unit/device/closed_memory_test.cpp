// The device of the tests: who touches its memory is named, and so is a kernel that gets memory of the host.
#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "config/train_config.hpp"
#include "device/device.hpp"
#include "tensor/arena.hpp"
#include "tensor/functions/dispatch.hpp"
#include "tensor/runtime.hpp"
#include "tensor/unit.hpp"
#include "train/run_device.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <boost/test/unit_test.hpp>

#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(closed_memory)

using namespace lockstep;

namespace {

/// From the first call on, this process computes on the device of the tests.
void use_closed_memory() {
  static const RunDevices opened = [] {
    set_up_runtime(2);
    TrainConfig config;
    config.train.device = DeviceChoice::cuda;
    return open_device(config, *solo_communicator(), {"here"});
  }();
  BOOST_REQUIRE(!this_device().properties().is_host);
}

struct Death {
  int signal = 0;
  std::string told;
};

/// How a process of its own ends that does this.
Death death_of(const std::function<void()>& work) {
  std::array<int, 2> pipe{};
  BOOST_REQUIRE(::pipe(pipe.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);
    work();
    ::_exit(0);
  }
  ::close(pipe[1]);
  Death death;
  std::array<char, 512> text{};
  for (ssize_t count = 0; (count = ::read(pipe[0], text.data(), text.size())) > 0;)
    death.told.append(text.data(), static_cast<std::size_t>(count));
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) death.signal = WTERMSIG(status);
  return death;
}

char first_byte(const at::Tensor& tensor) { return *static_cast<const volatile char*>(tensor.const_data_ptr()); }

}  // namespace

BOOST_AUTO_TEST_CASE(who_touches_device_memory_is_named_whichever_thread_it_is) {
  use_closed_memory();
  const at::Tensor tensor = at::full({16}, 3.0, device_options(at::kFloat));
  const std::vector<std::function<void()>> ways{[&] { first_byte(tensor); },
                                                [&] { std::thread([&] { first_byte(tensor); }).join(); },
                                                [&] {
#pragma omp parallel num_threads(2)
                                                  first_byte(tensor);
                                                },
                                                [&] { *static_cast<char*>(tensor.mutable_data_ptr()) = 1; }};
  for (const auto& way : ways) {
    const Death death = death_of(way);
    BOOST_TEST(death.signal == SIGSEGV);
    BOOST_TEST(death.told.find("fake device: the host touched device memory, in thread ") != std::string::npos,
               death.told);
  }
}

BOOST_AUTO_TEST_CASE(another_process_cannot_read_device_memory) {
  use_closed_memory();
  const at::Tensor tensor = at::full({16}, 3.0, device_options(at::kFloat));
  this_device().wait(this_device().record(DeviceQueue::compute));
  const pid_t here = ::getpid();
  const Death death = death_of([&] {
    float value = 0;
    const iovec own{&value, sizeof value}, remote{tensor.mutable_data_ptr(), sizeof value};
    const ssize_t read = ::process_vm_readv(here, &own, 1, &remote, 1, 0);
    static_cast<void>(!::write(STDERR_FILENO, read < 0 && errno != EPERM ? "refused" : "read", 7));
  });
  BOOST_TEST((death.signal == 0 && death.told.starts_with("refused")), death.told);
}

BOOST_AUTO_TEST_CASE(the_host_and_kernels_get_memory_of_their_own_alone) {
  use_closed_memory();
  const at::Tensor there = at::full({16}, 3.0, device_options(at::kFloat)), here = at::full({16}, 3.0);
  BOOST_CHECK_THROW(values_of<float>(there), Error);
  BOOST_CHECK_THROW(bytes_of(there), Error);
  BOOST_CHECK_THROW(pointer<float>(there), Error);  // no kernel of the device is called
  BOOST_CHECK_THROW(host_bytes(region_of(there)), Error);
  with_kernels(there, [&]<class T>(const Kernels<T>& on) {
    BOOST_CHECK_THROW(pointer<float>(here), Error);
    if constexpr (std::is_same_v<T, float>)
      BOOST_CHECK_THROW(on.round_to(static_cast<const float*>(here.const_data_ptr()), 16, pointer<float>(there)),
                        Error);
  });
}

BOOST_AUTO_TEST_CASE(a_view_of_freed_memory_shows_no_old_values) {
  use_closed_memory();
  at::Tensor tensor = at::full({16}, 3.0, device_options(at::kDouble));
  const at::Tensor view = at::from_blob(tensor.mutable_data_ptr(), {16}, tensor.options());
  BOOST_TEST(values_on_host(view)[5] == 3);
  tensor.reset();
  BOOST_TEST(std::isnan(values_on_host(view)[5]));
}

BOOST_AUTO_TEST_CASE(operations_of_one_queue_run_in_order_and_copies_bring_values_back) {
  use_closed_memory();
  at::Tensor sum = at::full({}, 0.0, device_options(at::kDouble));
  for (int i = 1; i <= 50; ++i) sum.add_(at::full({}, static_cast<double>(i), at::kDouble).to(sum.device()));
  const std::int64_t before = this_device().counts().waits;
  BOOST_TEST(values_on_host(sum)[0] == 1275);
  BOOST_TEST(this_device().counts().waits == before + 1);
  const at::Tensor large = at::full({3 << 20}, 2.0, device_options(at::kDouble));
  std::size_t seen = 0;
  for_each_host_part(region_of(large), [&](std::size_t begin, std::span<const std::byte> bytes) {
    BOOST_TEST((begin == seen && bytes.size() <= 16 << 20));
    seen += bytes.size();
  });
  BOOST_TEST(seen == 24 << 20);
}

BOOST_AUTO_TEST_SUITE_END()
