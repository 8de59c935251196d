// What products for computing could do at most, by their makers' own figures: what mfu divides by.
#pragma once

#include "base/precision.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Dense peak of matrix products in a type, each summed in fp32 where it is narrower, in TFLOP/s; absent: the maker
/// names none.
struct DevicePeaks {
  std::string_view name;  // "NVIDIA H100 80GB HBM3", as its driver says it
  std::optional<double> bf16, fp16, fp32, fp64;
  std::optional<double> of(Precision type) const;
};

/// All that are known, in the order of the table.
const std::vector<DevicePeaks>& known_devices();

/// The product of exactly that name, whatever its case and whatever stands between its words; its maker may be left
/// out. Null: it is not known, and no other one stands in for it. Local.
const DevicePeaks* find_device(std::string_view name);

}  // namespace lockstep
