// Statistics of contiguous numbers, on raw pointers: plain functions.
#pragma once

#include "base/statistics.hpp"
#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

/// Statistics of values [0, count), in fp64 over blocks of fixed size: the same bits for any number of threads.
template <class T>
Statistics statistics_of(const T* values, std::int64_t count);

/// Merges these statistics into `sum`.
template <class T>
void add_statistics(const T* values, std::int64_t count, Statistics* sum);

}  // namespace lockstep
