// Times the calls of trials on this process's device, and measures the ceilings of their rates there: a copy in its
// memory, and a large product of each type.
#pragma once

#include "trial/trials.hpp"

#include <cstdint>
#include <string>

namespace lockstep::trial {

/// Limits of the calls that are timed.
struct SpeedLimits {
  std::int64_t most_bytes = 0;  // of the device's memory, for the arguments of a call
  double most_seconds = 1;      // of all calls of a case, about
};

struct TrialSpeed {
  std::string shape;
  double seconds = 0;  // median
  double flops = 0;    // of a product; 0: the call moves bytes
  double bytes = 0;
  std::int64_t missing_bytes = 0;  // that the smallest call needs, for which there is no memory; 0: it was timed
  bool is_timed() const { return missing_bytes == 0; }
  double rate() const { return is_timed() ? (flops > 0 ? flops : bytes) / seconds : 0; }  // FLOP/s or bytes/s
};

/// Times a case at the largest share of its sizes that keeps the limits; times nothing if the smallest share does not.
/// Local; waits for the device.
template <class T>
TrialSpeed time_trial(const Trial& trial, const TriedKernels<T>& kernels, const TrialSizes& sizes, std::uint64_t seed,
                      const SpeedLimits& limits);

/// Bytes per second that a copy within the device's memory moves; a byte that is read and written counts twice. 0:
/// there is no memory for it.
double copy_ceiling(const SpeedLimits& limits);
/// FLOPs per second of a large product of this type, rounded to it. 0: there is no memory for it.
template <class T>
double product_ceiling(const TriedKernels<T>& kernels, const SpeedLimits& limits);

}  // namespace lockstep::trial
