#include "trial/speed.hpp"

#include "base/clock.hpp"
#include "device/device.hpp"
#include "tensor/arena.hpp"
#include "trial/errors.hpp"

#include <algorithm>
#include <array>
#include <functional>

namespace lockstep::trial {

namespace {

constexpr int measurements = 5;

/// Work in a queue of the device.
struct QueuedCall {
  std::function<void()> call;
  DeviceQueue queue = DeviceQueue::compute;
};

/// Seconds on the device of `calls` calls, one after the other.
double seconds_of(const QueuedCall& queued, int calls) {
  Device& device = this_device();
  device.follow(queued.queue, device.record(DeviceQueue::compute));
  const double begin_s = monotonic_seconds();
  const DeviceMoment begin = device.record(queued.queue);
  for (int i = 0; i < calls; ++i) queued.call();
  const DeviceMoment end = device.record(queued.queue);
  device.wait(end);
  return device.properties().is_host ? monotonic_seconds() - begin_s
                                     : device.seconds_of(end) - device.seconds_of(begin);
}

/// The median time of a call. Short calls are timed together, so that the clock can tell them.
double median_seconds(const QueuedCall& queued, double first_s) {
  constexpr double least_s = 1e-3;
  constexpr int most_calls = 100;
  const int calls = std::clamp(static_cast<int>(least_s / std::max(first_s, 1e-9)), 1, most_calls);
  std::array<double, measurements> times{};
  for (double& time : times) time = seconds_of(queued, calls) / calls;
  std::ranges::sort(times);
  return std::max(times[measurements / 2], 1e-9);
}

template <class T>
std::int64_t argument_bytes(const Trial& trial, const TrialSizes& sizes, std::uint64_t seed) {
  KernelCall<T> call(Purpose::size, number_of<T>, seed, {});
  trial.describe<T>()(call, sizes);
  std::int64_t bytes = 0;
  for (const Argument& argument : call.arguments()) bytes += argument.bytes();
  return bytes;
}

template <class T>
TrialSpeed time_call(const Trial& trial, const TriedKernels<T>& kernels, const TrialSizes& sizes, std::uint64_t seed) {
  KernelCall<T> call(Purpose::speed, number_of<T>, seed, references_of(number_of<T>, sizes, seed));
  trial.describe<T>()(call, sizes);
  for (const Argument& argument : call.arguments()) {
    if (argument.use == Use::output) continue;
    write_region(argument.start, part_of(region_of(argument.memory, Arena::device), TrialArguments::guard_bytes,
                                         argument.start.size()));
  }
  const QueuedCall run{[&] { call.run(kernels); }, call.facts.queue};
  seconds_of(run, 1);  // warms up
  const double first_s = seconds_of(run, 1);
  return {.shape = call.facts.shape,
          .seconds = median_seconds(run, first_s),
          .flops = call.facts.flops,
          .bytes = static_cast<double>(call.bytes_moved())};
}

/// Calls `measure(share)` for growing shares of a size, while the next one keeps the limits; returns the last result.
template <class Measure, class Fits>
TrialSpeed grown(const SpeedLimits& limits, const Measure& measure, const Fits& fits) {
  constexpr double first_share = 1.0 / 256, growth = 4;
  TrialSpeed speed;
  for (double share = first_share; share <= 1; share *= growth) {
    if (share > first_share && !fits(share)) break;
    speed = measure(share);
    if (speed.seconds * growth * (measurements + 2) > limits.most_seconds) break;
  }
  return speed;
}

}  // namespace

template <class T>
TrialSpeed time_trial(const Trial& trial, const TriedKernels<T>& kernels, const TrialSizes& sizes, std::uint64_t seed,
                      const SpeedLimits& limits) {
  return grown(
      limits, [&](double share) { return time_call(trial, kernels, share_of(sizes, share), seed); },
      [&](double share) { return argument_bytes<T>(trial, share_of(sizes, share), seed) <= limits.most_bytes; });
}

double copy_ceiling(const SpeedLimits& limits) {
  constexpr std::int64_t most_copied = std::int64_t{1} << 28;
  const std::int64_t whole = std::min(most_copied, limits.most_bytes / 2);
  return grown(
             limits,
             [&](double share) {
               const auto bytes = static_cast<std::int64_t>(static_cast<double>(whole) * share);
               const at::Tensor from = empty_in(Arena::device, bytes, at::kByte),
                                to = empty_in(Arena::device, bytes, at::kByte);
               const RegionCopy one{region_of(from, Arena::device), region_of(to, Arena::device)};
               const QueuedCall run{[&] { this_device().copy({&one, 1}, DeviceQueue::compute); }};
               seconds_of(run, 1);
               return TrialSpeed{.shape = {},
                                 .seconds = median_seconds(run, seconds_of(run, 1)),
                                 .flops = 0,
                                 .bytes = 2 * static_cast<double>(bytes)};
             },
             [](double) { return true; })
      .rate();
}

template <class T>
double product_ceiling(const TriedKernels<T>& kernels, const SpeedLimits& limits) {
  constexpr std::int64_t side = 4096;
  const Trial& trial = trial_of("gemm_rounded");
  TrialSizes sizes;
  sizes.product = {.m = side, .n = side, .k = side, .a = Trans::no, .b = Trans::yes};
  return time_trial(trial, kernels, sizes, 0, limits).rate();
}

#define LOCKSTEP_INSTANTIATE(T)                                                                          \
  template TrialSpeed time_trial(const Trial&, const TriedKernels<T>&, const TrialSizes&, std::uint64_t, \
                                 const SpeedLimits&);                                                    \
  template double product_ceiling(const TriedKernels<T>&, const SpeedLimits&);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::trial
