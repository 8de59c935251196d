// One trainable logical tensor: names, shape, and views into the flat buffers of its unit. Passive: it never
// communicates and is no autograd leaf. Functions read `compute()` at the moment of use and add gradients through
// `touch()`. Who owns the memory: tensor/unit.hpp.
#pragma once

#include "architecture/architecture.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

class Unit;

class Parameter {
 public:
  /// The unit has its buffers.
  Parameter(Unit& unit, LogicalTensor description, std::int64_t offset);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return description_.name; }
  Role role() const { return description_.role; }
  const Shape& shape() const { return description_.shape; }
  const LogicalTensor& description() const { return description_; }
  std::int64_t elements() const { return elements_; }
  std::int64_t offset() const { return offset_; }  // elements from the start of each flat buffer of the unit
  Unit& unit() const { return *unit_; }
  bool decays() const { return shape().size() >= 2; }  // matrices decay; biases and norms do not

  /// Views of `shape()`, valid as long as the unit. Local.
  const at::Tensor& master() const { return master_; }  // fp32; fp64 in fp64
  const at::Tensor& compute() const {
    return compute_;
  }  // what kernels read: the master's own storage, or its bf16 copy
  const at::Tensor& gradient() const {
    return gradient_;
  }  // master type; meaningful when touches() > 0 or after Unit::finish_gradients()
  const std::vector<at::Tensor>& state() const { return state_; }  // of the optimizer, in the order that it declares

  /// Where one contribution to the gradient goes: written as gradient ← contribution + β·gradient, where β is 0 at the
  /// first touch since Unit::zero_grad() (what the buffer held is not read) and 1 afterwards.
  struct Accumulation {
    at::Tensor gradient;
    double beta = 0;
  };
  Accumulation touch();
  /// Adds `contribution`, any floating type, of this shape.
  void accumulate(const at::Tensor& contribution);
  int touches() const { return touches_; }  // contributions since Unit::zero_grad(); 0: nothing used this parameter

 private:
  friend class Unit;
  at::Tensor view(const at::Tensor& flat) const;
  Unit* unit_;
  LogicalTensor description_;
  std::int64_t elements_ = 0;
  std::int64_t offset_ = 0;
  at::Tensor master_, compute_, gradient_;  // made once: a view costs as much as a small kernel
  std::vector<at::Tensor> state_;
  int touches_ = 0;
};

}  // namespace lockstep
