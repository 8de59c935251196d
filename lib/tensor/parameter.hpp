// One trainable logical tensor: names, shape, layout, and views into the flat buffers of its unit. Passive: it never
// communicates and is no autograd leaf. Functions read `compute()` at the moment of use and add gradients through
// `touch()`. Of a unit that is cut the rank keeps its box of the tensor; the whole is there while the unit is gathered.
// Who owns the memory: tensor/unit.hpp.
#pragma once

#include "architecture/architecture.hpp"
#include "layout/layout.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

class Unit;

/// Where something that the optimizer keeps beside a parameter lies in the flat buffer of its unit.
struct StatePlace {
  Layout layout;
  Box box;                  // what this rank holds by it
  std::int64_t offset = 0;  // in elements
};

/// Where a parameter lies in the flat buffers of its unit, in elements.
struct ParameterPlace {
  Layout layout;           // of weights and reduced gradient; the type is that of weights
  Box box;                 // what this rank holds by it
  Box part;                // what ranks that share blocks compute with: the whole tensor where they do not cut it
  std::int64_t whole = 0;  // offset in buffers of the whole unit
  std::int64_t shard = 0;  // and in those of this rank's shard
  std::vector<StatePlace> states = {};  // in the order that the optimizer declares
};

class Parameter {
 public:
  /// The unit has its buffers.
  Parameter(Unit& unit, LogicalTensor description, ParameterPlace place);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return description_.name; }
  Role role() const { return description_.role; }
  /// Of what this rank computes with: the logical tensor, description().shape, or the part that tp leaves it, which has
  /// as many dimensions.
  const Shape& shape() const { return shape_; }
  const Box& part() const { return place_.part; }
  const Layout& layout() const { return place_.layout; }  // who holds which box of the weights
  const std::vector<StatePlace>& state_places() const { return place_.states; }
  const Box& box() const { return place_.box; }  // of this rank
  const LogicalTensor& description() const { return description_; }
  std::int64_t elements() const { return elements_; }
  std::int64_t offset() const { return place_.whole; }        // from the start of the unit's whole buffers
  std::int64_t shard_offset() const { return place_.shard; }  // from the start of this rank's buffers
  std::int64_t shard_elements() const { return lockstep::elements(place_.box); }
  Unit& unit() const { return *unit_; }
  bool is_trained() const { return description_.trained; }        // if not, it has no gradient and nothing touches it
  bool decays() const { return description_.shape.size() >= 2; }  // matrices decay; biases and norms do not

  // Views, valid as long as the unit. Local. Of what this rank holds for the whole run, of the shape of its box:
  const at::Tensor& master() const { return master_; }             // fp32; fp64 in fp64; or the compute type alone
  const at::Tensor& gradient() const { return gradient_; }         // reduced, in the master type
  const std::vector<at::Tensor>& state() const { return state_; }  // of the optimizer, in the order that it declares
  // Of all that this rank computes with, of shape(); undefined while the unit is cut and not held whole:
  const at::Tensor& compute() const { return compute_; }  // what kernels read
  const at::Tensor& local_gradient() const {
    return local_gradient_;
  }  // what this rank's backward adds to; meaningful when touches() > 0 or after Unit::finish_gradients()

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
  Unit* unit_;
  LogicalTensor description_;
  ParameterPlace place_;
  Shape shape_;
  std::int64_t elements_ = 0;
  at::Tensor master_, gradient_, compute_, local_gradient_;  // made once: a view costs as much as a small kernel
  std::vector<at::Tensor> state_;
  int touches_ = 0;
};

}  // namespace lockstep
