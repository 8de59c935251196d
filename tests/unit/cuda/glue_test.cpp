// The glue of the CUDA plug-in on stand-ins for CUDA and cublasLt: refusals, order and waits, failures, leaks,
// products.
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "comm/device_ranks.hpp"
#include "cuda/libtorch_cuda.hpp"
#include "cuda/nccl_functions.hpp"
#include "cuda/orthogonalise.hpp"
#include "cuda/product_call.hpp"
#include "cuda/product_entries.hpp"
#include "cuda/stream.hpp"
#include "cuda_stubs/stubs.hpp"
#include "device/device_plugin.hpp"
#include "harness/temporary_folder.hpp"

#include <cuda_runtime_api.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

extern "C" const lockstep::DevicePluginTable* lockstep_device();

BOOST_AUTO_TEST_SUITE(cuda_glue)

using namespace lockstep;
using stubs::FaultKind;
using stubs::Machine;

namespace {

std::int64_t counted_bytes = 0;

DevicePlugin& plugin() { return *lockstep_device()->plugin; }

std::unique_ptr<Device> open_on(const Machine& machine = {}) {
  stubs::begin(machine);
  stubs::libtorch() = {};
  return plugin().open(0, {}, [](std::int64_t bytes) { counted_bytes += bytes; });
}

/// The error of devices() on a machine.
Error refusal(const Machine& machine, bool is_library_missing = false) {
  stubs::begin(machine);
  stubs::libtorch() = {.is_missing = is_library_missing};
  try {
    plugin().devices();
  } catch (const Error& error) {
    BOOST_TEST((error.code() == ExitCode::resources));
    return error;
  }
  BOOST_FAIL("the machine is not refused");
  return Error(ExitCode::bug, "");
}

bool says(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

/// Memory of the device: in these tests that of the host.
struct DeviceBytes {
  std::shared_ptr<void> memory;
  Region region;
  explicit DeviceBytes(std::size_t bytes)
      : memory(cuda::device_memory(bytes)), region(Arena::device, static_cast<std::byte*>(memory.get()), bytes) {}
};

std::vector<std::byte> counted(std::size_t bytes, int first = 0) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(static_cast<std::size_t>(first) + i % 251);
  return values;
}

void copy(Device& device, const Region& from, const Region& to, DeviceQueue queue) {
  const RegionCopy one{from, to};
  device.copy({&one, 1}, queue);
}

int host_waits() { return stubs::count_of("cudaEventSynchronize"); }

/// Uses everything that the glue has.
void use_all() {
  const std::unique_ptr<Device> device = plugin().open(0, {}, [](std::int64_t bytes) { counted_bytes += bytes; });
  const auto pinned = device->pinned_memory(64), back = device->pinned_memory(64);
  const DeviceBytes there(64);
  copy(*device, {Arena::host, pinned.get(), 64}, there.region, DeviceQueue::to_device);
  device->follow(DeviceQueue::compute, device->record(DeviceQueue::to_device));
  device->note("forward of block 0");
  float a = 2, b = 3, c = 4;
  cuda::gemm<float>(1, 1, 1, 1, MatrixView<float>{&a, 1}, MatrixView<float>{&b, 1}, 1, &c, 1);
  device->note("backward of block 0");
  device->follow(DeviceQueue::from_device, device->record(DeviceQueue::compute));
  copy(*device, there.region, {Arena::host, back.get(), 64}, DeviceQueue::from_device);
  const DeviceMoment copied = device->record(DeviceQueue::from_device);
  static_cast<void>(device->is_over(copied));
  device->wait(copied);
  static_cast<void>(device->seconds_of(copied));
  device->wait(device->record(DeviceQueue::compute));
  std::vector<std::byte> pageable(64);
  copy(*device, there.region, Region(pageable), DeviceQueue::compute);
  BOOST_TEST(c == 10);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_refusal_names_what_is_missing) {
  BOOST_TEST(says(refusal({.driver = 0}), "no NVIDIA driver: libcuda.so.1 is missing"));
  BOOST_TEST(says(refusal({.driver = 12040}), "is for CUDA 12.4, and Lockstep needs 13."));
  BOOST_TEST(says(refusal({.gpus = {}}), "no GPU"));
  const Error old = refusal({.gpus = {{"Tesla T4", 7, 5}, {"Tesla V100", 7, 0}}});
  BOOST_TEST(says(old, "GPU 0 (Tesla T4) has compute capability 7.5"));
  BOOST_TEST(says(old, "GPU 1 (Tesla V100) has compute capability 7.0; at least 8.0 is needed"));
  const Error without = refusal({}, true);
  BOOST_TEST(says(without, "cannot open /nowhere/libtorch_cuda.so"));
  BOOST_TEST(without.hint().find("scripts/setup --cuda") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_library_that_another_one_needs_is_named_where_it_is_missing) {
  const TemporaryFolder folder;
  const std::string here = LOCKSTEP_NEEDING_LIBRARY, alone = (folder.path / "libneeding.so").string();
  std::string bytes = read_file(here);
  const std::string needed = "libneeded.so", absent = "libabsent.so";  // of one length: no other byte moves
  BOOST_REQUIRE(bytes.find(needed) != std::string::npos);
  for (std::size_t at = 0; (at = bytes.find(needed, at)) != std::string::npos;)
    bytes.replace(at, needed.size(), absent);
  std::ofstream(alone) << bytes;
  try {
    cuda::open_library(alone);
    BOOST_FAIL("the library was opened");
  } catch (const Error& error) {
    BOOST_TEST((error.code() == ExitCode::resources));
    BOOST_TEST(says(error, "libabsent.so: cannot open shared object file"));
  }
  cuda::open_library(here);  // beside the one that it needs
}

BOOST_AUTO_TEST_CASE(nothing_of_libtorch_is_opened_for_a_machine_that_is_refused) {
  for (const Machine& machine : {Machine{.driver = 0}, Machine{.gpus = {}}, Machine{.gpus = {{"Tesla T4", 7, 5}}}}) {
    refusal(machine);
    BOOST_TEST(stubs::libtorch().opened == 0);
  }
}

BOOST_AUTO_TEST_CASE(gpus_are_described_and_old_ones_are_left_out) {
  stubs::begin({.gpus = {{"Tesla T4", 7, 5}, {"NVIDIA A100", 8, 0}, {"NVIDIA H100", 9, 0}}});
  stubs::libtorch() = {};
  const std::vector<DeviceProperties> devices = plugin().devices();
  BOOST_REQUIRE(devices.size() == 2u);
  BOOST_TEST(devices[0].name == "NVIDIA A100");
  BOOST_TEST(devices[0].uuid == "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f");
  BOOST_TEST(devices[1].name == "NVIDIA H100");
  BOOST_TEST(devices[1].memory_bytes == std::int64_t{80} << 30);
  BOOST_TEST(devices[1].multiprocessors == 132);
  BOOST_TEST(!devices[1].is_host);
  BOOST_TEST(stubs::libtorch().opened == 1);
  const auto device = plugin().open(1, {}, [](std::int64_t) {});
  BOOST_TEST(device->properties().name == "NVIDIA H100");
  BOOST_TEST(device->properties().numa_node == 0);
  BOOST_TEST(devices[0].numa_node == 1);
  BOOST_TEST(device->properties().overhead.workspace_bytes == 32 << 20);
  BOOST_TEST(device->properties().overhead.communicator_bytes == 688 << 20);
  BOOST_TEST(device->free_memory() == std::int64_t{79} << 30);
  BOOST_TEST(stubs::device_in_use() == 2);  // as CUDA counts them
}

BOOST_AUTO_TEST_CASE(copies_kernels_and_moments_never_wait_and_one_wait_brings_all_values) {
  const auto device = open_on();
  const int waits_of_opening = host_waits();
  const auto pinned = device->pinned_memory(1000), back = device->pinned_memory(1000);
  const DeviceBytes first(1000), second(1000);
  const auto values = counted(1000);
  std::ranges::copy(values, pinned.get());
  copy(*device, {Arena::host, pinned.get(), 1000}, first.region, DeviceQueue::to_device);
  device->follow(DeviceQueue::compute, device->record(DeviceQueue::to_device));
  copy(*device, first.region, second.region, DeviceQueue::compute);
  device->note("copy of the first to the second");
  device->follow(DeviceQueue::from_device, device->record(DeviceQueue::compute));
  copy(*device, second.region, {Arena::host, back.get(), 1000}, DeviceQueue::from_device);
  const DeviceMoment end = device->record(DeviceQueue::from_device);
  BOOST_TEST(host_waits() == waits_of_opening);
  BOOST_TEST(device->counts().waits == 0);
  device->wait(end);
  BOOST_TEST(std::equal(values.begin(), values.end(), back.get()));
  BOOST_TEST(device->counts().waits == 1);
  BOOST_TEST(host_waits() == waits_of_opening + 1);
}

BOOST_AUTO_TEST_CASE(work_of_two_queues_has_no_order_without_a_moment) {
  const auto device = open_on();
  const auto back = device->pinned_memory(8);
  const DeviceBytes first(8), second(8);
  std::fill_n(second.region.pointer, 8, std::byte{1});
  const auto values = counted(8, 2);
  copy(*device, Region(values), first.region, DeviceQueue::compute);
  copy(*device, first.region, second.region, DeviceQueue::compute);
  copy(*device, second.region, {Arena::host, back.get(), 8}, DeviceQueue::from_device);
  device->wait(device->record(DeviceQueue::from_device));
  BOOST_TEST((back.get()[0] == std::byte{1}));  // so that the test above can fail
}

BOOST_AUTO_TEST_CASE(a_queue_of_copies_that_waits_does_not_hold_up_the_other_one) {
  const auto device = open_on();
  const auto back = device->pinned_memory(8);
  const DeviceBytes changed(8);
  std::fill_n(changed.region.pointer, 8, std::byte{1});
  const auto values = counted(8, 2);
  copy(*device, Region(values), changed.region, DeviceQueue::compute);
  device->follow(DeviceQueue::to_device, device->record(DeviceQueue::compute));
  copy(*device, changed.region, {Arena::host, back.get(), 8}, DeviceQueue::from_device);
  device->wait(device->record(DeviceQueue::from_device));
  BOOST_TEST((back.get()[0] == std::byte{1}));
}

BOOST_AUTO_TEST_CASE(memory_that_was_pinned_once_is_as_any_other) {
  const auto device = open_on();
  const DeviceBytes there(8);
  auto memory = device->pinned_memory(8);
  const Region host(Arena::host, memory.get(), 8);
  copy(*device, there.region, host, DeviceQueue::compute);
  copy(*device, part_of(there.region, 0, 1), part_of(host, 7, 1), DeviceQueue::compute);
  BOOST_TEST(device->counts().waits == 0);
  memory.reset();  // the stand-ins keep it
  copy(*device, there.region, host, DeviceQueue::compute);
  BOOST_TEST(device->counts().waits == 1);
}

BOOST_AUTO_TEST_CASE(a_moment_that_is_over_is_not_asked_for_again) {
  const auto device = open_on();
  const DeviceMoment moment = device->record(DeviceQueue::compute);
  while (!device->is_over(moment)) {
  }
  const int asked = stubs::count_of("cudaEventQuery");
  BOOST_TEST(device->is_over(moment));
  device->wait(moment);
  BOOST_TEST(stubs::count_of("cudaEventQuery") == asked);
}

BOOST_AUTO_TEST_CASE(host_memory_that_is_not_pinned_is_read_at_once_and_written_with_a_wait) {
  const auto device = open_on();
  const DeviceBytes there(300);
  auto values = counted(300);
  copy(*device, Region(values), there.region, DeviceQueue::compute);
  std::ranges::fill(values, std::byte{0});
  BOOST_TEST(device->counts().waits == 0);
  std::vector<std::byte> read(300);
  copy(*device, there.region, Region(read), DeviceQueue::compute);
  BOOST_TEST((read == counted(300)));
  BOOST_TEST(device->counts().waits == 1);
}

BOOST_AUTO_TEST_CASE(a_batch_of_copies_waits_once_and_empty_ones_are_skipped) {
  const auto device = open_on();
  const DeviceBytes there(100);
  const auto values = counted(100);
  std::vector<std::byte> read(100);
  copy(*device, Region(values), there.region, DeviceQueue::compute);
  std::vector<RegionCopy> parts;
  for (std::size_t begin = 0; begin <= 100; begin += 25) {
    const std::size_t bytes = std::min<std::size_t>(25, 100 - begin);
    parts.push_back({part_of(there.region, begin, bytes), part_of(Region(read), begin, bytes)});
  }
  const int before = stubs::count_of("cudaMemcpyAsync");
  device->copy(parts, DeviceQueue::compute);
  BOOST_TEST(stubs::count_of("cudaMemcpyAsync") == before + 4);
  BOOST_TEST((read == values));
  BOOST_TEST(device->counts().waits == 1);
}

BOOST_AUTO_TEST_CASE(events_are_used_again_and_moments_tell_their_times) {
  const auto device = open_on();
  const double begin = monotonic_seconds();
  const int made = stubs::count_of("cudaEventCreateWithFlags");
  double last = 0;
  for (int i = 0; i < 1000; ++i) {
    const DeviceMoment moment = device->record(DeviceQueue::compute);
    device->wait(moment);
    BOOST_TEST(device->is_over(moment));
    last = device->seconds_of(moment);
  }
  BOOST_TEST(stubs::count_of("cudaEventCreateWithFlags") <= made + 1);
  BOOST_TEST((last >= begin - 1e-3 && last <= monotonic_seconds() + 1e-3));
  BOOST_TEST(device->is_over(nullptr));
  device->wait(nullptr);
  device->follow(DeviceQueue::compute, nullptr);
  BOOST_TEST(device->counts().waits == 1000);
}

BOOST_AUTO_TEST_CASE(a_closed_device_leaves_nothing_behind) {
  stubs::begin({});
  stubs::libtorch() = {};
  use_all();
  BOOST_TEST(stubs::live_objects().empty());
  BOOST_TEST(stubs::libtorch().blocks == 0);
  BOOST_TEST((stubs::libtorch().count != nullptr));
}

BOOST_AUTO_TEST_CASE(a_failed_device_names_the_last_action_that_ended_and_gets_no_more_calls) {
  stubs::begin({.runs_when_asked = false});
  stubs::libtorch() = {};
  use_all();
  std::vector<std::string> waits;
  const std::vector<std::string> sound = stubs::calls();
  for (std::size_t i = 0; i < sound.size(); ++i) {
    if (sound[i] != "cudaEventSynchronize") continue;
    stubs::begin({.failing_call = static_cast<int>(i) + 1, .fault = FaultKind::sticky, .runs_when_asked = false});
    try {
      use_all();
    } catch (const Error& error) {
      waits.emplace_back(error.what());
      BOOST_TEST((error.code() == ExitCode::resources));
    }
  }
  BOOST_REQUIRE(waits.size() >= 3u);
  const std::string begin = "the device has failed: an illegal memory access was encountered (";
  for (const std::string& told : waits) BOOST_TEST(told.starts_with(begin), told);
  BOOST_TEST(waits[0].ends_with("; no action is known to be complete"), waits[0]);  // while it is opened
  BOOST_TEST(waits.back().ends_with("; the last action known to be complete: backward of block 0"), waits.back());
}

BOOST_AUTO_TEST_CASE(actions_are_awaited_one_by_one_so_that_the_failing_one_is_known) {
  for (int ended = 0; ended < 4; ++ended) {
    const auto open = [&](int failing) {
      auto device = open_on({.failing_call = failing, .fault = FaultKind::sticky, .runs_when_asked = false});
      for (int block = 0; block < 4; ++block) device->note("forward of block " + std::to_string(block));
      return device;
    };
    int before = 0;
    {
      const auto device = open(0);
      const DeviceMoment end = device->record(DeviceQueue::compute);
      before = static_cast<int>(stubs::calls().size());
    }
    // A wait asks first, and then waits: two calls for each action.
    const auto device = open(before + 2 * (ended + 1));
    const DeviceMoment end = device->record(DeviceQueue::compute);
    std::string told;
    try {
      device->wait(end);
    } catch (const Error& error) {
      told = error.what();
    }
    const std::string last =
        ended == 0 ? "no action is known to be complete" : "complete: forward of block " + std::to_string(ended - 1);
    BOOST_TEST(told.ends_with(last), told);
    BOOST_TEST(stubs::calls_after_failure() == 0);
    const auto answer = [&](const std::function<void()>& asked) {
      try {
        asked();
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    // Nothing is queued any more, and whoever waits for something gets the failure.
    const DeviceBytes there(1);
    std::vector<std::byte> here(1);
    copy(*device, Region(here), there.region, DeviceQueue::compute);
    device->follow(DeviceQueue::to_device, end);
    device->note("backward of block 3");
    BOOST_TEST(answer([&] { copy(*device, there.region, Region(here), DeviceQueue::compute); }) == told);
    BOOST_TEST(answer([&] { static_cast<void>(device->is_over(nullptr)); }) == told);
    BOOST_TEST(answer([&] { device->wait(nullptr); }) == told);
    BOOST_TEST(answer([&] { static_cast<void>(device->pinned_memory(1)); }) == told);
    BOOST_TEST(answer([&] { cuda::compute_stream(); }) == told);
    BOOST_TEST((device->record(DeviceQueue::compute) == nullptr));
    BOOST_TEST(stubs::calls_after_failure() == 0);
  }
}

BOOST_AUTO_TEST_CASE(each_call_that_fails_ends_in_one_error_without_leaks_or_further_calls) {
  stubs::begin({});
  stubs::libtorch() = {};
  use_all();
  const std::vector<std::string> sound = stubs::calls();
  BOOST_TEST(sound.size() > 60u);
  for (const FaultKind fault : {FaultKind::own, FaultKind::sticky})
    for (std::size_t i = 0; i < sound.size(); ++i) {
      const std::string& name = sound[i];
      BOOST_TEST_CONTEXT(name << ", call " << i + 1 << (fault == FaultKind::sticky ? ", sticky" : "")) {
        const bool releases = name.find("Destroy") != std::string::npos || name == "cudaFreeHost";
        stubs::begin({.failing_call = static_cast<int>(i) + 1, .fault = fault});
        stubs::libtorch() = {};
        bool thrown = false;
        try {
          use_all();
        } catch (const Error& error) {
          thrown = true;
          BOOST_TEST((error.code() == ExitCode::resources));
          BOOST_TEST(!std::string(error.what()).empty());
        }
        BOOST_TEST(stubs::failed_call() == name);
        BOOST_TEST(thrown == !releases);
        if (fault == FaultKind::sticky && !releases) BOOST_TEST(stubs::calls_after_failure() == 0);
        if (fault == FaultKind::own && !releases) {
          BOOST_TEST(cudaGetLastError() == cudaSuccess);  // that LibTorch would find behind its own next call
          BOOST_TEST(stubs::live_objects().empty());
          BOOST_TEST(stubs::libtorch().blocks == 0);
        }
      }
    }
}

namespace {

/// Each operation of NCCL once, with one rank, on the device in use. Returns what they left in memory.
std::vector<std::vector<std::byte>> use_nccl_once() {
  const std::unique_ptr<Communicator> alone = solo_communicator();
  std::vector<std::vector<std::byte>> results;
  const DeviceBytes from(64), to(64);
  copy(this_device(), Region(counted(64)), from.region, DeviceQueue::exchange);
  DeviceRanks ranks(cuda::nccl_functions(), *alone);
  const auto kept = [&](const DeviceBytes& bytes) {
    std::vector<std::byte>& read = results.emplace_back(64);
    copy(this_device(), bytes.region, Region(read), DeviceQueue::exchange);
  };
  ranks.all_gather(from.region.pointer, 64, to.region.pointer);
  kept(to);
  ranks.reduce_scatter(from.region.pointer, to.region.pointer, 8, NcclType::f32);
  kept(to);
  ranks.all_reduce(to.region.pointer, 8, NcclType::f64, NcclSum::sum);
  ranks.broadcast(to.region.pointer, 64, 0);
  ranks.begin_group();
  ranks.send(from.region.pointer + 32, 16, 0);
  ranks.receive(to.region.pointer, 16, 0);
  ranks.end_group();
  ranks.check();
  kept(to);
  return results;
}

struct InUse {
  explicit InUse(const Machine& machine) : before(use_device(open_on(machine))) {}
  ~InUse() { use_device(std::move(before)); }
  std::unique_ptr<Device> before;
};

}  // namespace

BOOST_AUTO_TEST_CASE(operations_of_nccl_run_in_the_queue_of_exchanges) {
  {
    const InUse device({});
    const auto found = use_nccl_once();
    auto wanted = counted(64);
    BOOST_TEST((found[0] == wanted));
    BOOST_TEST((found[1] == wanted));
    std::copy_n(wanted.begin() + 32, 16, wanted.begin());
    BOOST_TEST((found[2] == wanted));
  }
  BOOST_TEST(stubs::live_objects().empty());
}

BOOST_AUTO_TEST_CASE(each_call_of_nccl_that_fails_ends_in_one_error_without_leaks) {
  {
    const InUse device({});
    use_nccl_once();
  }
  const std::vector<std::string> sound = stubs::calls();
  const auto end = std::ranges::find(sound, "ncclCommFinalize") - sound.begin();
  int failed = 0;
  for (std::size_t i = 0; i < sound.size(); ++i) {
    if (!sound[i].starts_with("nccl")) continue;
    ++failed;
    const auto until = sound.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    const auto number = static_cast<int>(std::count(sound.begin(), until, sound[i]));
    BOOST_TEST_CONTEXT(sound[i] << ", number " << number) {
      bool thrown = false;
      {
        const InUse device({.failing_call = number, .failing_name = sound[i]});
        try {
          use_nccl_once();
        } catch (const Error& error) {
          thrown = true;
          BOOST_TEST((error.code() == ExitCode::communication));
          BOOST_TEST(
              std::string(error.what()).find("unhandled system error (the network is down)") != std::string::npos,
              error.what());
        }
      }
      BOOST_TEST(stubs::failed_call() == sound[i]);
      BOOST_TEST(thrown == std::cmp_less(i, end));
      BOOST_TEST(stubs::live_objects().empty());
    }
  }
  BOOST_TEST(failed > 15);
}

namespace {

template <class T>
std::vector<T> drawn(std::int64_t count, int seed) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    store(values[i], static_cast<Math<T>>(static_cast<double>((i * 7 + static_cast<std::size_t>(seed)) % 11) - 5));
  return values;
}

template <class T>
double term(const MatrixView<T>& view, std::int64_t row, std::int64_t column) {
  return load(view.trans == Trans::no ? view.data[row * view.stride + column] : view.data[column * view.stride + row]);
}

/// Small whole numbers, so that every type has the exact values.
template <class T>
void compare_products(Device& device) {
  constexpr std::int64_t m = 3, n = 5, k = 4;
  for (const Trans trans_a : {Trans::no, Trans::yes})
    for (const Trans trans_b : {Trans::no, Trans::yes}) {
      const auto a = drawn<T>(m * k, 1), b = drawn<T>(k * n, 2), bias = drawn<T>(n, 3);
      const MatrixView<T> left{a.data(), trans_a == Trans::no ? k : m, trans_a};
      const MatrixView<T> right{b.data(), trans_b == Trans::no ? n : k, trans_b};
      const auto base = drawn<Math<T>>(m * n, 4);
      std::vector<Math<T>> replaced(m * n), added = base, scaled = base, with_base(m * n);
      std::vector<T> rounded(m * n);
      const double alpha = 3;
      cuda::gemm<T>(m, n, k, 2, left, right, 0, replaced.data(), n);
      cuda::gemm<T>(m, n, k, 1, left, right, 1, added.data(), n);
      cuda::gemm_scaled<T>(m, n, k, &alpha, left, right, 1, scaled.data(), n);
      cuda::gemm_rounded<T>(m, n, k, left, right, bias.data(), rounded.data(), n);
      cuda::gemm_add<T>(m, n, k, left, right, base.data(), bias.data(), with_base.data());
      device.wait(device.record(DeviceQueue::compute));
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < k; ++l) sum += term(left, i, l) * term(right, l, j);
          const auto at = static_cast<std::size_t>(i * n + j);
          BOOST_TEST(replaced[at] == 2 * sum);
          BOOST_TEST(added[at] == base[at] + sum);
          BOOST_TEST(scaled[at] == base[at] + alpha * sum);
          BOOST_TEST(load(rounded[at]) == sum + load(bias[static_cast<std::size_t>(j)]));
          BOOST_TEST(with_base[at] == base[at] + sum + load(bias[static_cast<std::size_t>(j)]));
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_of_the_table_are_those_of_cublaslt) {
  const auto device = open_on();
  compare_products<float>(*device);
  compare_products<double>(*device);
  compare_products<Bf16>(*device);
  compare_products<Fp16>(*device);
}

BOOST_AUTO_TEST_CASE(a_product_over_no_terms_clears_or_leaves_its_result) {
  const auto device = open_on();
  std::vector<float> c{1, 2, 3, 4};
  const MatrixView<float> none{c.data(), 1};
  cuda::gemm<float>(2, 1, 0, 1, none, none, 1, c.data(), 2);
  device->wait(device->record(DeviceQueue::compute));
  BOOST_TEST(c == std::vector<float>({1, 2, 3, 4}), boost::test_tools::per_element());
  cuda::gemm<float>(2, 1, 0, 1, none, none, 0, c.data(), 2);
  cuda::gemm<float>(0, 1, 1, 1, none, none, 0, c.data(), 2);
  device->wait(device->record(DeviceQueue::compute));
  BOOST_TEST(c == std::vector<float>({0, 2, 0, 4}), boost::test_tools::per_element());
  BOOST_TEST(stubs::count_of("cublasLtMatmul") == 0);
}

BOOST_AUTO_TEST_CASE(the_algorithm_of_a_shape_is_chosen_once) {
  const auto device = open_on();
  alignas(256) static float a[64], b[64], c[64];
  for (int i = 0; i < 10; ++i) {
    cuda::gemm<float>(4, 4, 4, i, MatrixView<float>{a, 4}, MatrixView<float>{b, 4}, 1, c, 4);
    cuda::gemm<float>(4, 4, 4, 1, MatrixView<float>{a, 4, Trans::yes}, MatrixView<float>{b, 4}, 1, c, 4);
  }
  BOOST_TEST(stubs::count_of("cublasLtMatmul") == 20);
  BOOST_TEST(stubs::count_of("cublasLtMatmulAlgoGetHeuristic") == 2);
}

BOOST_AUTO_TEST_CASE(products_of_one_shape_have_addresses_of_their_own) {
  const auto device = open_on();
  alignas(256) static float one = 1, first = 10, second = 20, to_first, to_second;
  const MatrixView<float> view{&one, 1};
  cuda::gemm_rounded<float>(1, 1, 1, view, view, &first, &to_first, 1);
  cuda::gemm_rounded<float>(1, 1, 1, view, view, &second, &to_second, 1);
  device->wait(device->record(DeviceQueue::compute));
  BOOST_TEST(to_first == 11);
  BOOST_TEST(to_second == 21);
}

BOOST_AUTO_TEST_CASE(a_product_without_an_algorithm_is_described) {
  const auto device = open_on({.proposes_algorithms = false});
  float one = 1;
  const MatrixView<float> view{&one, 1};
  try {
    cuda::gemm<float>(1, 1, 1, 1, view, view, 0, &one, 1);
    BOOST_FAIL("the product was started");
  } catch (const Error& error) {
    BOOST_TEST(says(error, "cublasLt has no algorithm for a product of fp32 values to fp32 (1 x 1 x 1)"));
  }
}

namespace {

/// Computes c (4, 4) += a · b, and returns the text of the product.
std::string multiply_once(Device& device, float* c) {
  alignas(256) static float a[16], b[16];
  std::ranges::fill(a, 1.0f);
  std::ranges::fill(b, 2.0f);
  cuda::gemm<float>(4, 4, 4, 1, MatrixView<float>{a, 4}, MatrixView<float>{b, 4}, 1, c, 4);
  device.wait(device.record(DeviceQueue::compute));
  const std::vector<std::string> products = plugin().products().computed();
  BOOST_REQUIRE(products.size() == 1u);
  return products.front();
}

/// Numbers that decide a search, and its result.
struct SearchCase {
  std::vector<double> algorithm_s;
  int fastest;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_fastest_of_the_first_eight_algorithms_is_chosen_and_used_and_values_stay) {
  for (const SearchCase& one :
       {SearchCase{{0.04, 0.03, 0.05}, 1}, SearchCase{{0.25, 0.25, 0.25}, 0}, SearchCase{{0.01}, 0},
        SearchCase{{1, 0.5, 0.25, 0.25}, 2}, SearchCase{{9, 8, 7, 6, 5, 4, 3, 2, 1}, 7}, SearchCase{{1e-5, 8e-6}, 1}}) {
    const auto device = open_on({.algorithm_s = one.algorithm_s});
    alignas(256) static float c[16];
    std::ranges::fill(c, 1.0f);
    const std::string product = multiply_once(*device, c);
    BOOST_TEST(stubs::algorithms_used() == std::vector<int>({0}), boost::test_tools::per_element());
    const std::int64_t blocks = stubs::libtorch().blocks;
    const std::map<std::string, int> objects = stubs::live_objects();
    BOOST_TEST(plugin().products().fastest(product) == one.fastest);
    BOOST_TEST(stubs::libtorch().blocks == blocks);
    BOOST_TEST((stubs::live_objects() == objects));
    BOOST_TEST(c[0] == 9);  // 1 + 4 · 2, once
    plugin().products().use(product, one.fastest);
    multiply_once(*device, c);
    BOOST_TEST(stubs::algorithms_used().back() == one.fastest);
    BOOST_TEST(c[0] == 17);
  }
}

BOOST_AUTO_TEST_CASE(a_proposal_that_cannot_be_started_is_not_chosen) {
  const auto device = open_on({.algorithm_s = {0.03, -1, 0.02, -1}});
  alignas(256) static float c[16];
  const std::string product = multiply_once(*device, c);
  BOOST_TEST(plugin().products().fastest(product) == 2);
}

BOOST_AUTO_TEST_CASE(products_of_every_form_can_be_timed) {
  const auto device = open_on({.algorithm_s = {0.02, 0.01}});
  compare_products<float>(*device);
  compare_products<double>(*device);
  compare_products<Bf16>(*device);
  const std::vector<std::string> products = plugin().products().computed();
  BOOST_TEST(products.size() > 30u);
  for (const std::string& product : products) {
    BOOST_TEST(plugin().products().fastest(product) == 1);
    plugin().products().use(product, 1);
  }
  compare_products<float>(*device);
  compare_products<double>(*device);
  compare_products<Bf16>(*device);
}

BOOST_AUTO_TEST_CASE(choices_are_refused_that_are_no_products_or_that_cublaslt_does_not_propose) {
  const auto device = open_on({.algorithm_s = {0.02, 0.01}});
  DeviceProducts& products = plugin().products();
  BOOST_TEST(products.computed().empty());
  BOOST_TEST(products.versions().library == "cublasLt 13.2.3");
  BOOST_TEST(products.versions().driver == "CUDA 13.0");
  for (const char* const text : {"", "a", "nonsense of some words"}) {
    BOOST_CHECK_THROW(products.use(text, 0), Error);
    BOOST_CHECK_THROW(products.fastest(text), Error);
  }
  alignas(256) static float c[16];
  products.use(multiply_once(*device, c), 2);
  try {
    multiply_once(*device, c);
    BOOST_FAIL("the product was computed");
  } catch (const Error& error) {
    BOOST_TEST((error.code() == ExitCode::input));
    BOOST_TEST(says(error, "proposal 2 was chosen for the product 'a fp32 4 4 4 256 n b"));
    BOOST_TEST(says(error, "cublasLt makes only 2"));
  }
}

BOOST_AUTO_TEST_CASE(tf32_is_part_of_a_product) {
  std::vector<std::string> texts;
  for (const bool tf32 : {false, true}) {
    stubs::begin({});
    stubs::libtorch() = {};
    const auto device = plugin().open(0, {.tf32 = tf32}, [](std::int64_t) {});
    alignas(256) static float c[16];
    texts.push_back(multiply_once(*device, c));
  }
  BOOST_TEST(texts[1] == texts[0] + " tf32");
}

BOOST_AUTO_TEST_CASE(each_call_of_a_search_that_fails_ends_in_one_error_without_leaks) {
  const auto search = [] {
    const auto device = plugin().open(0, {}, [](std::int64_t) {});
    alignas(256) static float c[16];
    const std::string product = multiply_once(*device, c);
    plugin().products().use(product, plugin().products().fastest(product));
    multiply_once(*device, c);
  };
  const std::vector<double> times{0.02, 0.01};
  stubs::begin({.algorithm_s = times});
  stubs::libtorch() = {};
  search();
  const std::vector<std::string> sound = stubs::calls();
  BOOST_TEST(std::ranges::count(sound, "cublasLtMatmul") >= 14);
  for (const FaultKind fault : {FaultKind::own, FaultKind::sticky})
    for (std::size_t i = 0; i < sound.size(); ++i) {
      const std::string& name = sound[i];
      BOOST_TEST_CONTEXT(name << ", call " << i + 1 << (fault == FaultKind::sticky ? ", sticky" : "")) {
        const bool releases = name.find("Destroy") != std::string::npos;
        stubs::begin({.failing_call = static_cast<int>(i) + 1, .fault = fault, .algorithm_s = times});
        stubs::libtorch() = {};
        bool thrown = false;
        try {
          search();
        } catch (const Error& error) {
          thrown = true;
          BOOST_TEST((error.code() == ExitCode::resources));
        }
        BOOST_TEST(stubs::failed_call() == name);
        if (name != "cublasLtMatmul" || fault == FaultKind::sticky) BOOST_TEST(thrown == !releases);
        if (fault == FaultKind::sticky && !releases) BOOST_TEST(stubs::calls_after_failure() == 0);
        if (fault == FaultKind::own && !releases) {
          BOOST_TEST(stubs::live_objects().empty());
          BOOST_TEST(stubs::libtorch().blocks == 0);
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(scratch_memory_grows_and_belongs_to_the_device) {
  {
    const auto device = open_on();
    void* const small = cuda::kernel_scratch(100);
    BOOST_TEST(cuda::kernel_scratch(50) == small);
    static_cast<void>(cuda::kernel_scratch(1000));
    BOOST_TEST(stubs::libtorch().blocks == 1);
  }
  BOOST_TEST(stubs::libtorch().blocks == 0);
}

BOOST_AUTO_TEST_CASE(a_launch_that_failed_is_an_error_and_one_of_its_own_leaves_the_device_usable) {
  const auto device = open_on();
  cuda::check_launch(cudaSuccess);
  BOOST_CHECK_THROW(cuda::check_launch(cudaErrorInvalidConfiguration), Error);
  device->wait(device->record(DeviceQueue::compute));
  std::vector<std::string> told;
  for (const cudaError_t failure : {cudaErrorIllegalAddress, cudaErrorLaunchFailure}) try {
      cuda::check_launch(failure);
    } catch (const Error& error) {
      told.emplace_back(error.what());
    }
  BOOST_REQUIRE(told.size() == 2u);
  BOOST_TEST(told[0] == told[1]);  // the first one counts
  BOOST_CHECK_THROW(cuda::compute_stream(), Error);
}

namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix times(const Matrix& a, const Matrix& b) {
  Matrix product(a.size(), std::vector<double>(b.front().size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < b.front().size(); ++j)
      for (std::size_t k = 0; k < b.size(); ++k) product[i][j] += a[i][k] * b[k][j];
  return product;
}

Matrix turned(const Matrix& a) {
  Matrix result(a.front().size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a.front().size(); ++j) result[j][i] = a[i][j];
  return result;
}

/// The contract of orthogonalise, in plain loops.
Matrix orthogonalised(Matrix x, int steps) {
  const bool tall = x.size() > x.front().size();
  if (tall) x = turned(x);
  double squares = 0;
  for (const auto& row : x)
    for (const double value : row) squares += value * value;
  for (auto& row : x)
    for (double& value : row) value /= std::max(std::sqrt(squares), 1e-7);
  for (int step = 0; step < steps; ++step) {
    const Matrix square = times(x, turned(x)), fourth = times(square, square);
    Matrix sum = square;
    for (std::size_t i = 0; i < sum.size(); ++i)
      for (std::size_t j = 0; j < sum.size(); ++j) sum[i][j] = -4.7750 * square[i][j] + 2.0315 * fourth[i][j];
    const Matrix turn = times(sum, x);
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t j = 0; j < x.front().size(); ++j) x[i][j] = 3.4445 * x[i][j] + turn[i][j];
  }
  return tall ? turned(x) : x;
}

template <class M>
void check_orthogonalised(Device& device, std::size_t rows, std::size_t cols, int steps, IterationType type,
                          double bound) {
  Matrix wanted(rows, std::vector<double>(cols));
  std::vector<M> matrix(rows * cols);
  std::uint64_t state = rows * 31 + cols;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    matrix[i] = static_cast<M>(static_cast<double>(state >> 40) / (1 << 23) - 1);
    wanted[i / cols][i % cols] = static_cast<double>(matrix[i]);
  }
  wanted = orthogonalised(wanted, steps);
  cuda::orthogonalise<M>(matrix.data(), static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), steps, type);
  device.wait(device.record(DeviceQueue::compute));
  double most = 0;
  for (std::size_t i = 0; i < matrix.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(matrix[i]) - wanted[i / cols][i % cols]));
  BOOST_TEST(most <= bound, rows << " × " << cols << ", " << steps << " steps: " << most);
}

}  // namespace

BOOST_AUTO_TEST_CASE(matrices_are_orthogonalised_as_in_plain_loops) {
  {
    const auto device = open_on();
    for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{4, 7}, {7, 4}, {5, 5}, {1, 3}, {3, 1}})
      for (const int steps : {0, 1, 2, 5}) {
        check_orthogonalised<double>(*device, rows, cols, steps, IterationType::of_matrix, 1e-12);
        check_orthogonalised<float>(*device, rows, cols, steps, IterationType::of_matrix, 1e-4);
        check_orthogonalised<float>(*device, rows, cols, steps, IterationType::bf16, 0.15);
      }
  }
  BOOST_TEST(stubs::live_objects().empty());
  BOOST_TEST(stubs::libtorch().blocks == 0);
}

BOOST_AUTO_TEST_SUITE_END()
