#include "trial/speed.hpp"

#include "base/clock.hpp"
#include "device/device.hpp"
#include "tensor/arena.hpp"
#include "trial/errors.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <functional>
#include <new>
#include <optional>

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

/// Bytes of the arguments in the memory of the device. That of the CPU also has the values that are copied to them.
template <class T>
std::int64_t argument_bytes(const Trial& trial, const TrialSizes& sizes, std::uint64_t seed) {
  KernelCall<T> call(Purpose::size, number_of<T>, seed, {});
  trial.describe<T>()(call, sizes);
  const bool has_values_too = this_device().properties().is_host;
  std::int64_t bytes = 0;
  for (const Argument& argument : call.arguments())
    bytes += argument.bytes() * (has_values_too && argument.use != Use::output ? 2 : 1);
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

/// The result of `measure`; nothing if the device, or the host, has no memory for it.
template <class Measure>
std::optional<TrialSpeed> if_there_is_memory(const Measure& measure) {
  try {
    return measure();
  } catch (const c10::OutOfMemoryError&) {
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

/// Calls `measure(share)` for growing shares of a size, while the next one keeps the limits; returns the last result.
/// `bytes_of(share)` is the memory that it takes.
template <class Measure, class BytesOf>
TrialSpeed grown(const SpeedLimits& limits, const Measure& measure, const BytesOf& bytes_of) {
  constexpr double first_share = 1.0 / 256, growth = 4;
  TrialSpeed speed;
  for (double share = first_share; share <= 1; share *= growth) {
    const std::int64_t bytes = bytes_of(share);
    const auto next =
        bytes <= limits.most_bytes ? if_there_is_memory([&] { return measure(share); }) : std::optional<TrialSpeed>();
    if (!next && share == first_share) speed.missing_bytes = bytes;
    if (!next) break;
    speed = *next;
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
      [&](double share) { return argument_bytes<T>(trial, share_of(sizes, share), seed); });
}

double copy_ceiling(const SpeedLimits& limits) {
  constexpr std::int64_t most_copied = std::int64_t{1} << 28;
  const std::int64_t whole = std::min(most_copied, limits.most_bytes / 2);
  const auto copied = [&](double share) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(whole) * share));
  };
  return grown(
             limits,
             [&](double share) {
               const std::int64_t bytes = copied(share);
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
             [&](double share) { return 2 * copied(share); })
      .rate();
}

template <class T>
double product_ceiling(const TriedKernels<T>& kernels, const SpeedLimits& limits) {
  constexpr std::int64_t largest = 4096, smallest = 64;
  const Trial& trial = trial_of("gemm_rounded");
  TrialSizes sizes;
  for (std::int64_t side = largest; side >= smallest; side /= 2) {
    sizes.product = {.m = side, .n = side, .k = side, .a = Trans::no, .b = Trans::yes};
    if (argument_bytes<T>(trial, sizes, 0) > limits.most_bytes) continue;
    if (const TrialSpeed speed = time_trial(trial, kernels, sizes, 0, limits); speed.is_timed()) return speed.rate();
  }
  return 0;
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
