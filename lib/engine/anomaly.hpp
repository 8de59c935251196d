// Finds the first number in a step that is not finite: if asked to, the engine checks the outputs of blocks in forward
// and backward, and the gradients of weights. train/nonfinite.hpp decides how the run continues.
#pragma once

#include "comm/communicator.hpp"
#include "model/block.hpp"
#include "model/model.hpp"
#include "tensor/unit.hpp"

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace lockstep {

/// A value that is not finite, on one rank.
struct Anomaly {
  enum class Pass { forward, backward, gradient } pass = Pass::forward;
  int micro_batch = 0;  // for a gradient, the last one
  int order = 0;        // position of the block within its pass
  std::string what;     // "the output of layer.1", "the gradient of h.0.mlp.weight"
};

/// The search of one rank in one step. It keeps the first anomaly that it finds. Local.
class AnomalySearch {
 public:
  explicit AnomalySearch(const Model& model) : model_(model) {}

  void begin() { found_.reset(); }
  /// Call after a block's forward. If a weight of the block is not finite, the anomaly names that weight.
  void look_at_forward(const Block& block, int index, int micro_batch, const at::Tensor& output);
  /// Call after a block's backward with the gradient of its input; undefined if the input has none.
  void look_at_backward(const Block& block, int index, int micro_batch, const at::Tensor& gradient);
  /// Call when the gradient of a unit is complete on this rank.
  void look_at_gradient(const Unit& unit, int micro_batch);

  const std::optional<Anomaly>& found() const { return found_; }

 private:
  void find(Anomaly::Pass pass, int micro_batch, int order, std::string what);
  const Model& model_;
  std::optional<Anomaly> found_;
};

/// The first anomaly over all ranks, as "the output of layer.1 in forward of micro-batch 0 on rank 2". Forward comes
/// before backward, backward before gradients of weights; then the earliest micro-batch, the first block of the pass,
/// and the lowest rank. Empty if no rank has found any. Collective over `world`; equal on all ranks.
std::string first_of(const std::optional<Anomaly>& found, Communicator& world);

}  // namespace lockstep
