// A block made real: embedding, decoder layer or head, whose forward can be differentiated with autograd. Weights are
// read through their Parameters at the moment of use and gradients of weights are added to their units during backward;
// autograd carries activations only.
#pragma once

#include "architecture/architecture.hpp"
#include "data/batch.hpp"
#include "layout/sequence.hpp"
#include "program/keep_set.hpp"
#include "tensor/block_lane.hpp"
#include "tensor/functions/loss.hpp"
#include "tensor/functions/ring_attention.hpp"
#include "tensor/functions/rotary_table.hpp"
#include "tensor/number_types.hpp"
#include "tensor/parameter.hpp"
#include "tensor/weight_gradients.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep {

/// What dropout of a training step goes by, besides where values stand.
struct DropoutDraw {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
};

/// What blocks read of a batch, as tensors that saved state may hold on to: N rows, one for each token. Where ranks
/// share sequences these are a rank's own, and attention sees A of them, those of all along ulysses; otherwise both are
/// all B·T.
struct BatchTensors {
  std::int64_t samples = 0;               // B
  std::int64_t length = 0;                // T
  at::Tensor tokens;                      // (N) int32
  at::Tensor labels;                      // (N) int32, ignored_label where the label does not count
  at::Tensor positions;                   // (N) int32
  at::Tensor segments;                    // int64: starts of attention segments in its A rows, then A
  at::Tensor attended_positions;          // (A) int32
  RingSegments ring;                      // instead of both, where there is a ring
  std::int64_t largest_position_end = 0;  // largest position + 1
  std::int64_t valid_tokens = 0;          // labels that count
  StepLoss loss = {};                     // of the head
  at::Tensor places;                      // (N) int64: a Place (tensor/kernels/dropout_kernel.hpp) for each token;
                                          // undefined: nothing is dropped
  at::Tensor attended_places;             // (A) int64
  DropoutDraw draw = {};                  // where something is
  at::Tensor row_samples;                 // (N) int32: of each token, −1: padding; where there are experts
  bool counts_choices = false;            // of experts
  std::optional<double> aux_scale = {};   // the gradient of their auxiliary loss has this factor; absent: there is none
  std::int64_t rows() const { return tokens.numel(); }
};

/// Copies what `batch` holds for the rank at `place`; padding behind the last row has no label and is a segment of its
/// own. With a `draw`, that of a training step, blocks drop what the config says and experts count. Throws Error(input)
/// for a token or label outside the vocabulary or a position outside the model's range, naming it.
BatchTensors to_tensors(const Batch& batch, const HfConfig& config, const SequencePlace& place = {},
                        const std::optional<DropoutDraw>& draw = {});

/// What a forward leaves to the same forward, repeated: what it decided, which that follows, and values, which that
/// takes instead of computing them (undefined: not there); and what it tells of experts.
struct Replay {
  enum class Pass { first, repeated } pass = Pass::first;
  KeepSet keeps = {};  // values that a first pass leaves
  // (N, k) int32: where tokens go, and how many of each rank go to each expert where ranks share these out; both passes
  // follow what is there
  at::Tensor experts = {}, expert_table = {};
  // As backward reads it: what the product gives or, along ulysses where heads have no norms, what ranks made of it
  at::Tensor qkv = {};
  at::Tensor attended = {}, log_sums = {};
  at::Tensor own_attended = {};    // of own heads, where ranks along ulysses share those of a ring
  at::Tensor stream = {};          // behind attention
  at::Tensor raised = {};          // before the activation, of an MLP or the shared expert
  at::Tensor expert_raised = {};   // of experts
  at::Tensor expert_lowered = {};  // behind it, what they give
  std::vector<double> loads = {};  // (E): how many choices of this rank's tokens fall on each; empty: not counted
  double aux_loss = 0;             // added up over samples; ranks that share their rows have the same
  double hits = 0;                 // of a head without autograd: labels that have the largest logit
};

class Block {
 public:
  virtual ~Block() = default;

  /// The block's output for input `x`, recorded by autograd if grad mode is on (then x, which must require grad,
  /// receives its gradient from torch::autograd::backward({output}, {gradient of output})).
  ///   embedding: x is ignored, may be undefined     → (N, C) output type
  ///   decoder:   x (N, C) output type               → (N, C) output type
  ///   head:      x (N, C) output type               → () fp64: Σ of −log p(label) over the labels that count, or,
  ///                                                   where the batch says so, another loss
  /// Inside the block x has the stream type: it is cast first, and the output last. Their gradients have the output
  /// type too.
  /// A first pass leaves in `replay` what a repeated one takes from there. What backward does not read a repeated pass
  /// does not compute: its output has a shape and a gradient, but no values.
  /// Seed the head with 1 / (valid tokens of the whole step). Weight gradients land in the parameters' units. Local.
  ///
  /// In two halves: backward_input(output, gradient) of tensor/weight_gradients.hpp gives x its gradient and finishes
  /// norms, biases and embeddings; compute() of what it returns, at any later time of the step, adds the gradients of
  /// matrices. It holds BlockProfile::deferred_bytes and reads no weight, so that weights may be resharded after the
  /// first half; gradients are complete, and may be reduced, after the second. An embedding leaves nothing. The bits
  /// are those of backward, except for a tied weight to which the embedding adds between the two halves of the head.
  at::Tensor forward(const at::Tensor& x, const BatchTensors& batch, Replay* replay = nullptr);

  /// Along tp other ranks have parts of the block too: its parameters are parts. Along ring and ulysses they have other
  /// rows of the batch. These ranks speak with each other in the middle of its passes (exchanges_of of
  /// architecture/block_profile.hpp), which are Collective over them then. The lanes outlive the block's last pass.
  virtual void share(const BlockLanes& lanes) = 0;

  /// The type of what the block is given and hands out; the stream type until it is set.
  void set_output_type(at::ScalarType type) { output_type_ = type; }

  const BlockDescription& description() const { return description_; }
  BlockDescription::Kind kind() const { return description_.kind; }
  /// Every parameter that forward reads, the tied one included.
  const std::vector<Parameter*>& parameters() const { return parameters_; }

 protected:
  Block(const BlockDescription& description, Precision precision, std::vector<Parameter*> parameters);
  /// forward within the stream type.
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

/// The block that ends a model; also gives logits, for text generation.
class HeadBlock : public Block {
 public:
  using Block::Block;
  /// (N, V) fp32 (fp64 in fp64) for x (N, C) output type; not recorded by autograd.
  virtual at::Tensor logits(const at::Tensor& x) = 0;
};

/// Blocks as the config describes them, or, where ranks share them, as part_of (architecture/tensor_parallel.hpp) does;
/// `parameters` one for each tensor of the description, in its order. Throws Error(bug) for a description that lacks a
/// role. The decoder blocks of a model share one table of rotary embeddings, which outlives them; null where positions
/// are not rotary.
std::unique_ptr<Block> make_embedding(const HfConfig& config, const BlockDescription& description, Precision precision,
                                      std::vector<Parameter*> parameters);
std::unique_ptr<Block> make_decoder(const HfConfig& config, const BlockDescription& description, Precision precision,
                                    std::vector<Parameter*> parameters, RotaryTable* rotary,
                                    double expert_capacity = ExpertSharing{}.capacity);
std::unique_ptr<HeadBlock> make_head(const HfConfig& config, const BlockDescription& description, Precision precision,
                                     std::vector<Parameter*> parameters);

}  // namespace lockstep
