// Block is an embedding, a decoder layer or a head with weights; autograd can differentiate its forward. Weights are
// read through their Parameters at the moment of use, and their gradients are added to their units during backward.
// Autograd carries activations only. The order of blocks: model/model.hpp.
#pragma once

#include "architecture/architecture.hpp"
#include "architecture/block_profile.hpp"
#include "model/batch_tensors.hpp"
#include "program/keep_set.hpp"
#include "tensor/block_lane.hpp"
#include "tensor/functions/rotary_table.hpp"
#include "tensor/number_types.hpp"
#include "tensor/parameter.hpp"
#include "tensor/weight_gradients.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

/// The values that a forward leaves to its recomputation. Decisions: the recomputation follows them. Activations: it
/// uses them instead of computing them (undefined: not kept). It also returns statistics of the forward.
struct Replay {
  enum class Pass { first, repeated } pass = Pass::first;
  KeepSet keeps = {};  // activations that a first pass keeps
  // (N, k) int32: experts of each token. With expert parallelism also how many rows each rank sends to each expert. If
  // they are defined, both passes follow them.
  at::Tensor experts = {}, expert_table = {};
  // As read by backward: the product's output or, with ulysses and without head norms, that output after the exchange
  // of ranks.
  at::Tensor qkv = {};
  // Output of attention, and the logarithms of its softmax sums.
  at::Tensor attended = {}, log_sums = {};
  at::Tensor own_attended = {};    // for own heads, if ulysses and ring are combined
  at::Tensor stream = {};          // after attention
  at::Tensor raised = {};          // input of the activation, of an MLP or the shared expert
  at::Tensor expert_raised = {};   // input of the activation, of experts
  at::Tensor expert_lowered = {};  // outputs of experts
  at::Tensor loads = {};           // (E) fp64: how many of this rank's tokens go to each expert; undefined: not counted
  at::Tensor aux_loss = {};        // () fp64: sum over samples; equal on ranks that share the rows of these samples
  // Of a head without autograd: how many labels have the largest logit, () fp64.
  at::Tensor correct = {};
};

class Block {
 public:
  virtual ~Block() = default;

  /// The block's output for input `x`. If grad mode is on, autograd records it. Then x must require grad, and receives
  /// its gradient from torch::autograd::backward({output}, {gradient of output}).
  ///   embedding: x is ignored, may be undefined     → (N, C) output type
  ///   decoder:   x (N, C) output type               → (N, C) output type
  ///   head:      x (N, C) output type               → () fp64: Σ of −log p(label) over the labels that count, or
  ///                                                   another loss that the batch names
  /// Inside the block x has the stream type: it is cast first, and the output last. Their gradients also have the
  /// output type.
  /// A first pass stores in `replay` the values that a repeated pass takes from there. A repeated pass does not compute
  /// values that backward does not read: its output has a shape and a gradient, but no values.
  /// Seed the head with 1 / (valid tokens of the whole step). Weight gradients are added to the parameters' units.
  /// Local.
  ///
  /// Backward can be split in two halves. backward_input(output, gradient) of tensor/weight_gradients.hpp gives x its
  /// gradient and finishes norms, biases and embeddings. compute() of its result, at any later time of the step, adds
  /// the gradients of matrices. That result holds BlockProfile::deferred_bytes and reads no weight, so weights may be
  /// resharded after the first half. Gradients are complete, and may be reduced, after the second half. An embedding
  /// leaves nothing for it. The bits are those of backward, except for a tied weight to which the embedding adds
  /// between the two halves of the head.
  at::Tensor forward(const at::Tensor& x, const BatchTensors& batch, Replay* replay = nullptr);

  /// Sets the lanes to the ranks that compute the block together. Along tp they hold other parts of the block, and its
  /// parameters are parts. Along ring and ulysses they hold other rows of the batch. These ranks exchange data in the
  /// middle of the block's passes (profile of architecture/block_profile.hpp), so its passes are Collective over
  /// them. The lanes must outlive the block's last pass.
  virtual void share(const BlockLanes& lanes) = 0;

  /// Memory for the keys and values of earlier positions of texts: (texts, 2·KV, capacity, D) compute type, of a
  /// decoder block; else undefined. Local.
  virtual at::Tensor new_cache(const TextShape&) const { return {}; }
  /// Lends such memory, for texts of at most `positions` positions. Until an undefined tensor takes it back, forwards
  /// of passes over texts (BatchTensors::text_slots) read it and add the rows of the pass.
  virtual void lend_cache(const at::Tensor&, std::int64_t) {}

  /// The type of the block's input and output; default: the stream type.
  void set_output_type(at::ScalarType type) { output_type_ = type; }

  const BlockDescription& description() const { return description_; }
  BlockDescription::Kind kind() const { return description_.kind; }
  /// Every parameter that forward reads, including a tied one.
  const std::vector<Parameter*>& parameters() const { return parameters_; }

 protected:
  Block(const BlockDescription& description, Precision precision, std::vector<Parameter*> parameters);
  /// Forward with `x` in the stream type.
  virtual at::Tensor compute(const at::Tensor& x, const BatchTensors& batch, Replay& replay) = 0;
  Precision precision() const { return precision_; }
  Parameter* find(Role role) const;  // null if the block has none
  Parameter& get(Role role) const;   // throws Error(bug) if the block has none

 private:
  BlockDescription description_;
  Precision precision_;
  at::ScalarType output_type_;
  std::vector<Parameter*> parameters_;
};

/// The last block of a model. It also gives logits, for text generation.
class HeadBlock : public Block {
 public:
  using Block::Block;
  /// (N, V) fp32 (fp64 in fp64) for x (N, C) output type; not recorded by autograd.
  virtual at::Tensor logits(const at::Tensor& x) = 0;
};

/// Make the blocks that the config describes; with tensor parallelism, that part_of (architecture/tensor_parallel.hpp)
/// describes. `parameters` has one entry for each tensor of the description, in its order. Throw Error(bug) for a
/// description that lacks a role. The decoder blocks of a model share one table of rotary embeddings, which must
/// outlive them; null if positions are not rotary.
std::unique_ptr<Block> make_embedding(const ModelConfig& config, const BlockDescription& description,
                                      Precision precision, std::vector<Parameter*> parameters);
std::unique_ptr<Block> make_decoder(const ModelConfig& config, const BlockDescription& description, Precision precision,
                                    std::vector<Parameter*> parameters, RotaryTable* rotary,
                                    double expert_capacity = ExpertSharing{}.capacity);
std::unique_ptr<HeadBlock> make_head(const ModelConfig& config, const BlockDescription& description,
                                     Precision precision, std::vector<Parameter*> parameters);

}  // namespace lockstep
