// Values for tests of numerical code: reproducible, of deviation 1.
#pragma once

#include "base/random.hpp"
#include "tensor/kernels/number.hpp"

#include <string_view>
#include <vector>

namespace lockstep {

template <class T>
std::vector<T> random_values(std::int64_t count, std::string_view name) {
  const RandomStream stream(3, name);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) store(values[i], static_cast<Math<T>>(stream.normal(i)));
  return values;
}

}  // namespace lockstep
