// Model is an architecture with weights on one rank: its units, its parameters by logical name, and its blocks in order
// (of all stages, or of the pipeline stages of this rank). engine/ runs the blocks.
#pragma once

#include "model/block.hpp"
#include "program/stages.hpp"
#include "store/tensor_source.hpp"
#include "tensor/number_types.hpp"
#include "tensor/unit.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class Model {
 public:
  /// Makes zero weights in the units of units_of (architecture/units.hpp), with the optimizer's `states`, sharded as
  /// described by `place`; with tensor or expert parallelism, only this rank's part of the blocks. A tied weight lives
  /// in the unit of the block that owns its storage and is also used by the head. `parts` lists the blocks and units of
  /// each rank along the pipeline axis; without it this rank has all. Local.
  Model(const Architecture& architecture, Precision precision, const UpdateStates& states = {},
        const Buckets& buckets = {}, const ShardPlace& place = {}, const std::vector<PipelinePart>& parts = {},
        const UnitMemory& memory = {});

  const Architecture& architecture() const { return architecture_; }
  const ModelConfig& config() const { return architecture_.config; }
  Precision precision() const { return precision_; }
  /// The type of activations between blocks; default: the stream type.
  at::ScalarType output_type() const { return output_type_; }
  void set_output_type(at::ScalarType type);
  /// Calls Block::share for all blocks of this rank.
  void share(const BlockLanes& lanes);

  /// The units of this rank, in order.
  const std::vector<Unit*>& units() const { return units_; }
  /// The stored parameters of this rank, each once, in block order.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// Finds a parameter by logical name, aliases included. Throws Error(input) with the nearest name if this rank has
  /// none.
  Parameter& parameter(std::string_view name) const;

  // By index in the whole model. Units and blocks of other ranks must not be requested.
  std::size_t unit_count() const { return all_units_.size(); }
  bool has_unit(std::size_t index) const { return all_units_[index] != nullptr; }
  Unit& unit(std::size_t index) const { return *all_units_[index]; }
  std::size_t block_count() const { return blocks_.size(); }
  bool has_block(std::size_t index) const { return blocks_[index] != nullptr; }
  Block& block(std::size_t index) const { return *blocks_[index]; }
  bool has_head() const { return head_ != nullptr; }
  HeadBlock& head() const { return *head_; }

  /// Sets fresh weights in this rank's boxes: element i of a tensor is a function of (seed, name, i) alone. Updates the
  /// compute copies. Local.
  void initialise(std::uint64_t seed);
  /// Loads the weights of this rank's boxes from a source (fp64, fp32, bf16 or fp16), in pieces of bounded size.
  /// Weights of other ranks are not read. Updates the compute copies. A tied name may be missing, and names that the
  /// model does not have are ignored. Throws Error(input) for a missing tensor or a different shape, naming the tensor.
  /// Local.
  void load(const TensorSource& source);

  /// (B·T, V) fp32 (fp64 in fp64): logits of the whole model without autograd, for tests. This rank must hold all units
  /// whole.
  at::Tensor logits(const BatchTensors& batch) const;

 private:
  Architecture architecture_;
  Precision precision_;
  at::ScalarType output_type_;
  std::vector<std::unique_ptr<Unit>> all_units_;
  std::vector<Unit*> units_;
  std::optional<RotaryTable> rotary_;  // shared by all decoder blocks
  std::vector<std::unique_ptr<Block>> blocks_;
  HeadBlock* head_ = nullptr;
  std::vector<Parameter*> parameters_;
};

}  // namespace lockstep
