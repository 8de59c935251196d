// Compares the calls of a trial with their reference, which the CPU computes in fp64 from the same arguments. Outputs
// hold other bits before each call, the memory around each argument is guarded, arguments that are only read must stay
// as they are, and a second call must give the same bits.
//
// The error of an output y with the reference r is measured twice: ‖y − r‖ / ‖r‖, and the largest |yᵢ − rᵢ| / (|rᵢ| +
// rms(r)). Both have bounds that follow from the types: the unit roundoff u = 2^-p of a type with p significant bits,
// and the n terms of the longest sum.
//
//   rounding = 2·u(type of y) + 4·u(type within)
//   sums = 4·√max(n, 16)·u(type of sums)
//   bound of the relative L2 error = rounding + sums
//   bound of the largest error = 4·rounding + 16·sums, because errors of sums that cancel spread widely
//
// The type within is that of values which a kernel may round between its sums, such as the probabilities of attention.
// TF32 adds 2^-11 to its roundoff for products of fp32 matrices. The iteration of Muon amplifies errors; its bounds are
// 16 times as large. Integers and copies must be equal.
#pragma once

#include "trial/trials.hpp"

#include <cstdint>
#include <string>

namespace lockstep::trial {

/// The errors of one case of a trial.
struct TrialErrors {
  std::string shape;
  std::string types;           // of its numbers: "bf16 fp32"
  double l2 = 0, largest = 0;  // of the output that is nearest to its bound, or beyond it
  double l2_bound = 0, largest_bound = 0;
  std::string output = {};  // its name
  std::string fault = {};   // what is wrong, as a clause: "two calls … differ in y"; empty: nothing
};

/// Calls kernels for T on this process's device, twice for each case, and compares. Local; waits for the
/// device.
template <class T>
TrialErrors compare_with_reference(const Trial& trial, const TriedKernels<T>& kernels, const TrialSizes& sizes,
                                   std::uint64_t seed);

/// Values that the references of trials give to their outputs, for arguments of the type `tested`. The result must not
/// outlive `sizes`.
References references_of(Number tested, const TrialSizes& sizes, std::uint64_t seed);

}  // namespace lockstep::trial
