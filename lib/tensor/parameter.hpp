// One logical tensor of the model: names, shape, layout, and views into the flat buffers of its unit. A parameter is
// passive: it never communicates and is no autograd leaf. Functions read `compute()` when they run and add gradients
// through `touch()`. If the unit is sharded, the rank keeps its box of the tensor and has the whole tensor only while
// the unit is gathered. The unit owns the memory: tensor/unit.hpp.
#pragma once

#include "architecture/architecture.hpp"
#include "layout/layout.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

class Unit;

/// Position of one tensor of optimizer state in the flat buffer of its unit.
struct StateSlot {
  Layout layout;
  Box box;                  // held by this rank
  std::int64_t offset = 0;  // in elements
};

/// Position of a parameter in the flat buffers of its unit, in elements.
struct ParameterPlace {
  Layout layout;                       // of weights and reduced gradient; its dtype is that of the weights
  Box box;                             // held by this rank
  Box part;                            // this rank computes with it: a tensor-parallel part, or the whole tensor
  std::int64_t whole = 0;              // offset in buffers of the whole unit
  std::int64_t shard = 0;              // offset in buffers of this rank's shard
  std::int64_t rows = 0;               // that memory of the whole part has: rows_in_memory of program/model_plan.hpp
  std::vector<StateSlot> states = {};  // in the order of the optimizer's declaration
};

class Parameter {
 public:
  /// The unit must have its buffers already.
  Parameter(Unit& unit, LogicalTensor description, ParameterPlace place);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return description_.name; }
  Role role() const { return description_.role; }
  /// Shape of the part that this rank computes with: description().shape, or its tensor-parallel part, which has the
  /// same number of dimensions.
  const Shape& shape() const { return shape_; }
  const Box& part() const { return place_.part; }
  /// Rows in the memory of compute() and local_gradient(), which view the first shape()[0] of them. The others are zero
  /// in weights, and not read in gradients.
  std::int64_t rows_in_memory() const { return place_.rows; }
  const Layout& layout() const { return place_.layout; }  // which rank holds which box of the weights
  const std::vector<StateSlot>& state_places() const { return place_.states; }
  const Box& box() const { return place_.box; }  // held by this rank
  const LogicalTensor& description() const { return description_; }
  std::int64_t elements() const { return elements_; }
  std::int64_t offset() const { return place_.whole; }        // from the start of the unit's whole buffers
  std::int64_t shard_offset() const { return place_.shard; }  // from the start of this rank's buffers
  std::int64_t shard_elements() const { return lockstep::elements(place_.box); }
  Unit& unit() const { return *unit_; }
  bool is_trained() const { return description_.trained; }        // if not, it is frozen and has no gradient
  bool decays() const { return description_.shape.size() >= 2; }  // matrices decay; biases and norms do not

  // Views, valid as long as the unit. Local. The first ones cover the box that this rank holds for the whole run:
  const at::Tensor& master() const { return master_; }             // fp32 (fp64 in fp64), or only the compute type
  const at::Tensor& gradient() const { return gradient_; }         // reduced, in the master type
  const std::vector<at::Tensor>& state() const { return state_; }  // optimizer state, in declaration order
  // These cover shape(); they are undefined while the unit is sharded and not gathered:
  const at::Tensor& compute() const { return compute_; }  // kernels read this copy
  // Backward on this rank adds to it. Valid when touches() > 0 or after Unit::finish_gradients().
  const at::Tensor& local_gradient() const { return local_gradient_; }

  /// Target of one contribution to the gradient: gradient ← contribution + β·gradient. β is 0 at the first touch since
  /// Unit::zero_grad(), so old buffer contents are not read, and 1 afterwards.
  struct Accumulation {
    at::Tensor gradient;
    double beta = 0;
  };
  Accumulation touch();
  /// Adds `contribution` to the gradient; it has this parameter's shape and any floating type.
  void accumulate(const at::Tensor& contribution);
  int touches() const { return touches_; }  // contributions since Unit::zero_grad(); 0: the parameter was not used

 private:
  friend class Unit;
  Unit* unit_;
  LogicalTensor description_;
  ParameterPlace place_;
  Shape shape_;
  std::int64_t elements_ = 0;
  at::Tensor master_, gradient_, compute_, local_gradient_;  // created once: a view costs as much as a small kernel
  std::vector<at::Tensor> state_;
  int touches_ = 0;
};

}  // namespace lockstep
