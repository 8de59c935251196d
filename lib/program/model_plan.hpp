// A model as programs see it: plain numbers for blocks and units. Who fills it knows the architecture; this room does
// not.
#pragma once

#include "layout/dtype.hpp"
#include "layout/layout.hpp"
#include "layout/mesh.hpp"
#include "layout/shape.hpp"
#include "program/block_exchange.hpp"
#include "program/keep_set.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A forward that keeps some values for its repetition, and that repetition.
struct Recomputation {
  std::int64_t kept_bytes = 0;       // values, and what was decided, which the repetition follows; stash from then on
  std::int64_t workspace_bytes = 0;  // temporaries of the forward beside them
  double flops = 0;                  // of the repetition
  std::vector<BlockExchange> exchanges = {};
  bool operator==(const Recomputation&) const = default;
};

/// One block on one micro-batch of the largest shape.
struct BlockPlan {
  std::string name;
  std::int64_t stash_bytes = 0;   // kept from forward to backward, without the block's input and output
  std::int64_t output_bytes = 0;  // handed to the next block, whose gradient is as large; the last block's is a loss: 0
  std::int64_t workspace_bytes = 0;  // temporaries while backward runs
  double forward_flops = 0;
  double backward_flops = 0;
  bool recomputable = false;                   // may drop its stash and compute it again: a decoder block
  std::int64_t forward_workspace_bytes = 0;    // temporaries while forward runs beside its stash
  std::int64_t inference_workspace_bytes = 0;  // temporaries of a forward that leaves no stash
  std::int64_t deferred_bytes = 0;   // kept from backward_input to backward_weight; 0: nothing is left to that
  double backward_weight_flops = 0;  // of backward_flops
  BlockExchanges exchanges = {};     // among ranks that share the block
  std::vector<Recomputation> recomputations = {};  // by KeepSet::index; empty: nothing can be kept
  bool operator==(const BlockPlan&) const = default;
};

/// The recomputation of a block with such a keep-set.
Recomputation recomputation_of(const BlockPlan& block, KeepSet keeps);

/// What the update of a tensor needs beyond the part of it that a rank has: nothing; each matrix whole, in turn on one
/// rank (layout/matrix_owners.hpp); or sums over all elements, and of a matrix over each row and column.
enum class UpdateNeeds { parts, matrices, sums };

/// How many sums are taken of a matrix (rows, columns) or a vector (length): first, and with what these say.
struct UpdateSums {
  std::int64_t first = 0, second = 0;
};
UpdateSums update_sums(const Shape& matrix);

/// One stored parameter. A tied weight is one parameter of two blocks.
struct ParameterPlan {
  std::string name;
  Shape shape;              // of a rank's part, the largest, where ranks share blocks
  std::vector<int> blocks;  // that read it, the owner first
  bool trained = true;      // false: it has no gradient and is not updated
  std::string unit = {};    // that it forms within its block, with others of this name; empty: the block's
  // Of ranks that share blocks: along which all have all of it, with equal gradients or with such as add up,
  std::vector<AxisName> alike = {}, summed = {};
  std::optional<Split> cut = {};  // or how they cut it
  bool of_experts = false;        // that ranks share out: each has its own, and sees all tokens that go there
  int update = 0;                 // the way in which the optimizer updates it
  UpdateNeeds needs = UpdateNeeds::parts;
  Shape matrix = {};          // where it needs more: of each matrix, or of a vector
  std::int64_t matrices = 0;  // so many, of experts that ranks share out those of one rank
};

/// How ranks share out experts (expert parallelism): tokens go to the ranks that have theirs, and back.
struct ExpertSharing {
  int ranks = 1;        // along ep, each with as many of them; 1: all ranks have all
  int shards = 1;       // ranks with the same, along ep_shard, that cut them as dp_shard cuts the rest
  double capacity = 2;  // rows that a rank's experts take at once, over what they get where tokens spread evenly
};

/// Rows that a rank's experts take at once, where each rank has so many for experts, or all together so many for each.
std::int64_t rows_at_once(const ExpertSharing& sharing, std::int64_t rows);
/// Beyond the first round, in which rows go to experts and back: what one rank's experts may need if all rows go there.
std::int64_t most_further_rounds(const ExpertSharing& sharing);

/// How ranks share blocks (tensor parallelism): each computes with its part of what they cut.
struct BlockSharing {
  int ranks = 1;         // along axes()
  bool rows = false;     // sequence parallelism: they have the rows of what lies between matrices between them
  int key_replicas = 1;  // neighbours among them that have the same key heads, of which there are fewer than ranks
  ExpertSharing experts = {};  // which are shared out in a way of their own
  int row_shares() const { return rows ? ranks : 1; }
  std::vector<AxisName> axes() const {
    if (ranks == 1) return {};
    return key_replicas == 1 ? std::vector<AxisName>{tensor_axis}
                             : std::vector<AxisName>{tensor_axis, key_replica_axis};
  }
};

/// How the ranks of a job share out each unit: each parameter is cut along dim 0 into as many pieces of whole rows, the
/// last short or empty (FSDP2 of PyTorch; ZeRO, Rajbhandari et al. 2020).
struct Sharding {
  std::vector<AxisName> axes;            // empty: every rank holds all
  int shards = 1;                        // ranks along them
  std::vector<AxisName> kept_axes = {};  // the fastest of them, along which weights that were gathered once stay cut
  int kept_shards = 1;                   // ranks along these; 1: they do not stay
  BlockSharing blocks = {};              // which are cut before
};
/// The same of experts that ranks share out.
Sharding of_experts(const Sharding& sharding);

/// Parameters that are gathered, whose gradients are reduced and which are updated at once. What one rank holds of a
/// unit that is cut is its shard; all shards are as long as the longest.
struct UnitPlan {
  std::string name;
  std::vector<int> parameters;            // in the order of their storage
  std::vector<int> blocks;                // that read it; their backward adds to the unit's gradient. Ascending
  bool trained = true;                    // false: gathered, but without gradient, optimizer state and update
  std::vector<AxisName> alike = {};       // along which ranks that share blocks have equal gradients of it, unsummed
  std::vector<AxisName> summed = {};      // or such as add up, which are summed as those of replicas are
  std::vector<AxisName> token_axes = {};  // along which its gradients add up instead of those of data: of experts
  std::vector<AxisName> shard_axes;       // over which it is cut; empty: every rank holds the whole
  std::int64_t elements = 0;              // of the whole unit's buffers, padding included
  std::int64_t shard_elements = 0;        // of a shard's buffers, padding included; of the whole if it is not cut
  std::int64_t master_bytes = 0;          // of the shard
  std::int64_t compute_bytes = 0;         // of the shard; 0: kernels read the master itself
  std::vector<AxisName> kept_axes = {};   // over which weights stay cut once they were gathered; empty: they do not
  std::int64_t kept_bytes = 0;            // of a shard of these, in the type that kernels read
  std::int64_t gathered_bytes = 0;        // of the whole in the type that kernels read; 0: it is not cut
  std::int64_t local_gradient_bytes = 0;  // of the whole: what this rank's backward adds to
  std::int64_t gradient_bytes = 0;        // of the shard: the sum that the optimizer reads
  std::int64_t reduce_bytes = 0;          // of the whole gradient in the type that is summed over ranks
  std::int64_t reduce_shard_bytes = 0;    // and of the shard
  std::int64_t optimizer_bytes = 0;       // of the shard
  // Among ranks that have parts of its tensors, where its update needs more: parts go to the owners of matrices and
  // come back, or sums over parts become sums over tensors.
  std::vector<BlockExchange> update_exchanges = {};
  bool casts_gradient() const { return reduce_bytes != local_gradient_bytes; }
  bool is_cut() const { return !shard_axes.empty(); }
  bool operator==(const UnitPlan&) const = default;
};

struct ModelPlan {
  std::vector<BlockPlan> blocks;  // in forward order
  int row_shares = 1;  // ranks along tp, among which the rows of what blocks hand to each other are shared out
  std::vector<UnitPlan> units;
  std::int64_t shared_bytes = 0;  // for the whole run: tables and scratch memory of all blocks
};

/// Of what an optimizer keeps a number: of each element of a tensor, or of each row or column of its matrices.
enum class KeptOf { elements, rows, columns };

/// What an optimizer keeps beside each weight: of elements a tensor of the weight's shape and layout. Of rows or
/// columns ranks that have parts of the weight hold all (architecture/units.hpp).
struct StateDescription {
  std::string name;  // as checkpoints call it, "exp_avg"
  DType dtype = DType::f32;
  KeptOf of = KeptOf::elements;
  bool operator==(const StateDescription&) const = default;
};

/// What the optimizer keeps beside weights that it updates in one way, by the number of the way: matrices may be
/// updated otherwise than vectors. A unit has parameters of one way.
using UpdateStates = std::vector<std::vector<StateDescription>>;

/// The types of what a unit stores, and of what blocks hand to each other.
struct UnitTypes {
  DType master = DType::f32;
  DType compute = DType::f32;  // equal to master: no copy
  UpdateStates states;
  std::optional<DType> reduce = {};  // in which gradients are summed over ranks; absent: master
  std::optional<DType> output = {};  // of a block's output and its gradient; absent: master
  std::optional<DType> only = {};    // in which weights are kept, and in no other type; absent: in master
  /// None for a way without a state.
  const std::vector<StateDescription>& state(int update) const;
  DType kept() const { return only.value_or(master); }  // of weights
  DType reduced() const { return reduce.value_or(master); }
  DType handed_out() const { return output.value_or(master); }
};

/// Parameters begin at multiples of so many bytes in a unit's master buffer.
constexpr std::int64_t unit_alignment_bytes = 64;

/// Where parameters of so many `elements` begin in the buffers of a unit, and last the length of the buffers: in
/// elements, padding included.
std::vector<std::int64_t> unit_offsets(const std::vector<std::int64_t>& elements, DType master);

/// The shape of the first of so many shards: no other is longer.
Shape longest_shard(Shape shape, int shards);

/// How many blocks are one unit.
struct Buckets {
  std::int64_t bytes = 0;              // of the gradient of a unit of several blocks, at most; 0: one unit a block
  std::vector<int> stage_begins = {};  // first blocks of the stages of a pipeline, ascending; empty: one stage
};

/// Units of whole blocks (a parameter goes with its first block), in the order of `blocks`, their names. Walking
/// backward, as gradients complete, the next block joins a unit while the buckets have room and the stages that read
/// its parameters are those of the unit: no unit of several blocks extends over stages. Blocks without parameters have
/// none. What is not trained has units of its own, and what names a unit is one in each block.
std::vector<UnitPlan> make_units(const std::vector<std::string>& blocks, const std::vector<ParameterPlan>& parameters,
                                 const UnitTypes& types, const Buckets& buckets, const Sharding& sharding = {});

}  // namespace lockstep
