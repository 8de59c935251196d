// Where a number first stops being finite in a step: the engine looks at what blocks put out, forward and backward, and
// at the gradients of weights, if it is asked to. What a run says of it: train/nonfinite.hpp.
#pragma once

#include "comm/communicator.hpp"
#include "model/block.hpp"
#include "model/model.hpp"
#include "tensor/unit.hpp"

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace lockstep {

/// Something that is not finite, on one rank.
struct Anomaly {
  enum class Pass { forward, backward, gradient } pass = Pass::forward;
  int micro_batch = 0;  // of a gradient the last one
  int order = 0;        // of the block within its pass
  std::string what;     // "the output of layer.1", "the gradient of h.0.mlp.weight"
};

/// The search of one rank in one step; the first that it finds counts. Local.
class AnomalySearch {
 public:
  explicit AnomalySearch(const Model& model) : model_(model) {}

  void begin() { found_.reset(); }
  /// After a block's forward; of one whose own weights are not finite these are what it names.
  void look_at_forward(const Block& block, int index, int micro_batch, const at::Tensor& output);
  /// After its backward: the gradient of what it was given; undefined: it was given none.
  void look_at_backward(const Block& block, int index, int micro_batch, const at::Tensor& gradient);
  /// When the gradient of a unit is complete on this rank.
  void look_at_gradient(const Unit& unit, int micro_batch);

  const std::optional<Anomaly>& found() const { return found_; }

 private:
  void find(Anomaly::Pass pass, int micro_batch, int order, std::string what);
  const Model& model_;
  std::optional<Anomaly> found_;
};

/// What was found first of what ranks have found, as "the output of layer.1 in forward of micro-batch 0 on rank 2": in
/// forward before backward, there in the earliest micro-batch, there in the block that comes first. Nothing where no
/// rank has found any. Collective over `world`; the same on all.
std::string first_of(const std::optional<Anomaly>& found, Communicator& world);

}  // namespace lockstep
