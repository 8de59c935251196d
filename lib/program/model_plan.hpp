// A model as programs see it: plain numbers for blocks and units. Who fills it knows the architecture; this room does
// not.
#pragma once

#include "layout/dtype.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// One block on one micro-batch of the largest shape.
struct BlockPlan {
  std::string name;
  std::int64_t stash_bytes = 0;   // kept from forward to backward, without the block's input and output
  std::int64_t output_bytes = 0;  // handed to the next block, whose gradient is as large; the last block's is a loss: 0
  std::int64_t workspace_bytes = 0;  // temporaries while forward or backward runs
  double forward_flops = 0;
  double backward_flops = 0;
  bool recomputable = false;  // may drop its stash and compute it again: a decoder block
  bool operator==(const BlockPlan&) const = default;
};

/// One stored parameter. A tied weight is one parameter of two blocks.
struct ParameterPlan {
  std::string name;
  std::int64_t elements = 0;
  std::vector<int> blocks;  // that read it, the owner first
};

/// Parameters whose gradients are reduced and which are updated at once.
struct UnitPlan {
  std::string name;
  std::vector<int> parameters;  // in the order of their storage
  std::vector<int> blocks;      // whose backward adds to the unit's gradient, ascending
  std::int64_t elements = 0;    // of the unit's buffers, padding included
  std::int64_t master_bytes = 0;
  std::int64_t compute_bytes = 0;  // 0: kernels read the master itself
  std::int64_t gradient_bytes = 0;
  std::int64_t optimizer_bytes = 0;
  bool operator==(const UnitPlan&) const = default;
};

struct ModelPlan {
  std::vector<BlockPlan> blocks;  // in forward order
  std::vector<UnitPlan> units;
};

/// What an optimizer keeps beside each weight: a tensor of the weight's shape and layout.
struct StateDescription {
  std::string name;  // as checkpoints call it, "exp_avg"
  DType dtype = DType::f32;
  bool operator==(const StateDescription&) const = default;
};

/// The types of what a unit stores.
struct UnitTypes {
  DType master = DType::f32;
  DType compute = DType::f32;  // equal to master: no copy
  std::vector<StateDescription> state;
};

/// Parameters begin at multiples of so many bytes in a unit's master buffer.
constexpr std::int64_t unit_alignment_bytes = 64;

/// Where parameters of so many `elements` begin in the buffers of a unit, and last the length of the buffers: in
/// elements, padding included.
std::vector<std::int64_t> unit_offsets(const std::vector<std::int64_t>& elements, DType master);

/// Units of whole blocks (a parameter goes with its first block), in the order of `blocks`, their names. Walking
/// backward, as gradients complete, the next block joins a unit while the gradient stays within `bucket_bytes`; 0: one
/// unit a block. Blocks without parameters have none.
std::vector<UnitPlan> make_units(const std::vector<std::string>& blocks, const std::vector<ParameterPlan>& parameters,
                                 const UnitTypes& types, std::int64_t bucket_bytes);

}  // namespace lockstep
