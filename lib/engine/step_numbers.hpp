// Sums that one execution of a program makes on the device. They stay there until ranks meet: then the calling thread
// reads all of them at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// The sums of this rank.
enum class StepNumber : std::size_t {
  loss,          // of the labels that count
  aux_loss,      // of experts, over the samples that this rank counts
  correct,       // labels with the largest logit, in an evaluation
  squared_norm,  // Σ g² over this rank's shares
};
inline constexpr std::size_t step_numbers = 4;

class StepNumbers {
 public:
  /// Takes memory of this process's device, with `loads` counts of tokens of experts. Local.
  explicit StepNumbers(std::int64_t loads);
  /// All become 0. Local.
  void clear();
  /// The number on the device, () fp64.
  const at::Tensor& at(StepNumber number) const { return each_[static_cast<std::size_t>(number)]; }
  /// Adds `value`, () fp64, if it `counts` or is not finite. Local.
  void add(StepNumber number, const at::Tensor& value, bool counts);
  /// Adds the counts of a layer, (E) fp64, which begin at number `first` of all. Local.
  void add_loads(std::int64_t first, const at::Tensor& counts);
  /// Waits for the device and returns all numbers, then the loads. Local.
  std::vector<double> read() const;

 private:
  at::Tensor all_;
  std::array<at::Tensor, step_numbers> each_;  // views
};

}  // namespace lockstep
