// A unit owns the buffers of some parameters for the whole run: one allocation each for master, compute copy, gradient
// and every tensor of the optimizer's state. It is what data parallelism reduces, the optimizer steps and the
// checkpoint stores at once. Parameters are views: tensor/parameter.hpp.
#pragma once

#include "tensor/number_types.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

class Unit {
 public:
  /// Zeroed buffers for `tensors` in this order, where unit_offsets (program/model_plan.hpp) places them, and for each
  /// `state` of the optimizer; padding stays zero.
  Unit(std::string name, const std::vector<LogicalTensor>& tensors, Precision precision,
       const std::vector<StateDescription>& state = {});
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  const std::string& name() const { return name_; }
  Precision precision() const { return precision_; }
  const std::vector<std::unique_ptr<Parameter>>& parameters() const { return parameters_; }
  std::int64_t length() const { return length_; }  // elements of each flat buffer, padding included

  /// The flat buffers, (length()).
  const at::Tensor& master() const { return master_; }
  const at::Tensor& compute() const { return compute_; }  // the master itself unless the precision is bf16
  const at::Tensor& gradient() const { return gradient_; }
  const std::vector<at::Tensor>& state() const { return state_; }  // of the optimizer, in the order that it declares

  /// Before the first backward of a step: forgets every gradient. Nothing is written; the first touch of each parameter
  /// overwrites.
  void zero_grad();
  /// After the last backward and before reduction: zeroes the gradient of parameters that nothing touched.
  void finish_gradients();
  /// Makes the compute copy follow the master; nothing to do unless the precision is bf16. The optimizer does it in its
  /// own pass.
  void update_compute_copy();

 private:
  std::string name_;
  Precision precision_;
  std::int64_t length_ = 0;
  at::Tensor master_, compute_, gradient_;
  std::vector<at::Tensor> state_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
};

/// The bytes of a flat buffer or of a view of one: for reductions, checkpoints and hashes. The tensor must be
/// contiguous and on the CPU.
std::span<std::byte> bytes_of(const at::Tensor& tensor);
template <class T>
std::span<T> values_of(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace lockstep
