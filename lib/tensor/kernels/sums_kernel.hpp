// Sums of a step that stay on the device until the heartbeat reads them: losses, gradient norms. Plain functions.
#pragma once

#include <cstdint>

namespace lockstep {

/// Returns Σ value², in fp64 over blocks of fixed size: the same for any number of threads.
template <class M>
double sum_of_squares(const M* values, std::int64_t count);

/// sum += Σ value², as above.
template <class M>
void add_square_sum(const M* values, std::int64_t count, double* sum);

/// sum = Σ values, added in their order.
void sum_in_order(const double* values, std::int64_t count, double* sum);

/// sum += value, if it `counts` or is not finite.
void add_value(const double* value, bool counts, double* sum);

}  // namespace lockstep
