// An architecture made real on one rank: its units, its parameters by logical name and its blocks in order, or those of
// its pipeline stages. Who runs the blocks and when: engine/.
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
  /// Zero weights in the units that units_of (architecture/units.hpp) gives, with the optimizer's `states`, cut as
  /// `place` says; where ranks share blocks, this one's part of them. A tied weight lives in the unit of the block that
  /// owns its storage and is touched by the head as well. `parts` are what each rank along the pipeline axis has;
  /// without them a rank has all. Local.
  Model(const Architecture& architecture, Precision precision, const UpdateStates& states = {},
        const Buckets& buckets = {}, const ShardPlace& place = {}, const std::vector<PipelinePart>& parts = {},
        const UnitMemory& memory = {});

  const Architecture& architecture() const { return architecture_; }
  const HfConfig& config() const { return architecture_.config; }
  Precision precision() const { return precision_; }
  /// The type of what blocks hand to each other; the stream type until it is set.
  at::ScalarType output_type() const { return output_type_; }
  void set_output_type(at::ScalarType type);
  /// Block::share of all that lie here.
  void share(const BlockLanes& lanes);

  /// Those that lie here, in order.
  const std::vector<Unit*>& units() const { return units_; }
  /// Every stored parameter that lies here once, in block order.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// By logical name, aliases included. Throws Error(input) with the nearest name if there is none here.
  Parameter& parameter(std::string_view name) const;

  // By their indices in the whole model. What lies on another rank must not be asked for.
  std::size_t unit_count() const { return all_units_.size(); }
  bool has_unit(std::size_t index) const { return all_units_[index] != nullptr; }
  Unit& unit(std::size_t index) const { return *all_units_[index]; }
  std::size_t block_count() const { return blocks_.size(); }
  bool has_block(std::size_t index) const { return blocks_[index] != nullptr; }
  Block& block(std::size_t index) const { return *blocks_[index]; }
  bool has_head() const { return head_ != nullptr; }
  HeadBlock& head() const { return *head_; }

  /// Fresh weights in this rank's boxes: element i of a tensor is a function of (seed, name, i) alone. Refreshes the
  /// compute copies. Local.
  void initialise(std::uint64_t seed);
  /// Weights of this rank's boxes from a source (fp64, fp32, bf16 or fp16), in pieces of bounded size; of what lies on
  /// other ranks nothing is read. Refreshes the
  /// compute copies. A tied name may be absent; a name that the model does not have is ignored. Throws Error(input) for
  /// a missing tensor or another shape, naming it.
  void load(const TensorSource& source);

  /// (B·T, V) fp32 (fp64 in fp64): the whole model without autograd, for tests. All units lie here and are held whole.
  at::Tensor logits(const BatchTensors& batch) const;

 private:
  Architecture architecture_;
  Precision precision_;
  at::ScalarType output_type_;
  std::vector<std::unique_ptr<Unit>> all_units_;
  std::vector<Unit*> units_;
  std::optional<RotaryTable> rotary_;  // of all decoder blocks
  std::vector<std::unique_ptr<Block>> blocks_;
  HeadBlock* head_ = nullptr;
  std::vector<Parameter*> parameters_;
};

}  // namespace lockstep
