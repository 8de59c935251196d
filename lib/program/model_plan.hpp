// A ModelPlan describes a model to step programs: plain numbers for blocks and units. This room knows no architecture;
// engine/make_model_plan.hpp fills the plan.
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

/// The cost of a forward that keeps some values for its recomputation, and of that recomputation.
struct Recomputation {
  // Kept values, and decisions that the recomputation follows. From then on they are part of the stash.
  std::int64_t kept_bytes = 0;
  std::int64_t workspace_bytes = 0;  // temporaries of the forward, in addition
  double flops = 0;                  // of the recomputation
  std::vector<BlockExchange> exchanges = {};
  bool operator==(const Recomputation&) const = default;
};

/// One block on one micro-batch of the largest shape.
struct BlockPlan {
  std::string name;
  std::int64_t stash_bytes = 0;  // kept from forward to backward, without the input and output of the block
  // Output for the next block; its gradient has the same size. 0 for the last block, whose output is a loss.
  std::int64_t output_bytes = 0;
  std::int64_t workspace_bytes = 0;  // temporaries while backward runs
  double forward_flops = 0;
  double backward_flops = 0;
  bool recomputable = false;                   // may drop its stash and compute it again (a decoder block)
  std::int64_t forward_workspace_bytes = 0;    // temporaries while forward runs, in addition to its stash
  std::int64_t inference_workspace_bytes = 0;  // temporaries of a forward that leaves no stash
  std::int64_t deferred_bytes = 0;   // kept from backward_input to backward_weight; 0: backward_weight has no work
  double backward_weight_flops = 0;  // part of backward_flops
  BlockExchanges exchanges = {};     // with tensor, context or expert parallelism
  std::vector<Recomputation> recomputations = {};  // by KeepSet::index; empty: no activation can be kept
  std::int64_t cache_bytes = 0;  // of a decoder block that continues texts: keys and values of earlier positions
  bool operator==(const BlockPlan&) const = default;
};

/// The recomputation of a block with the keep-set `keeps`.
Recomputation recomputation_of(const BlockPlan& block, KeepSet keeps);

/// The data that the update of a tensor needs. parts: only the rank's own part. matrices: whole matrices, which ranks
/// update in turn (layout/matrix_owners.hpp). sums: sums over all elements, and for a matrix over each row and column.
enum class UpdateNeeds { parts, matrices, sums };

/// Number of sums that an update with UpdateNeeds::sums takes over a matrix (rows, columns) or a vector (length). The
/// `second` ones are computed from the results of the `first` ones.
struct UpdateSums {
  std::int64_t first = 0, second = 0;
};
UpdateSums update_sums(const Shape& matrix);

/// One stored parameter. A tied weight is one parameter that two blocks read.
struct ParameterPlan {
  std::string name;
  Shape shape;              // of a rank's part, the largest one, with tensor parallelism
  std::vector<int> blocks;  // that read it; the first one owns it
  bool trained = true;      // false: it has no gradient and is not updated
  // Unit within its block that it forms with other parameters of this name. Empty: the unit of the block.
  std::string unit = {};
  // With tensor parallelism, axes along which ranks hold the whole parameter. Along `alike` they have equal gradients;
  // along `summed` their gradients must be summed.
  std::vector<AxisName> alike = {}, summed = {};
  std::optional<Split> cut = {};  // how tensor parallelism cuts it; not set: it does not
  // With expert parallelism: each rank holds its own experts, and sees all tokens that are routed to them.
  bool of_experts = false;
  int update = 0;  // index of the optimizer's update rule for it, as in UpdateStates
  UpdateNeeds needs = UpdateNeeds::parts;
  Shape matrix = {};          // if `needs` is not parts: shape of each matrix, or of a vector
  std::int64_t matrices = 0;  // number of them; with expert parallelism, of one rank's experts
  // Of a matrix with a row for each token: memory that kernels use has a multiple of this many rows. 0: another
  // parameter.
  std::int64_t row_multiple = 0;
};

/// Expert parallelism: ranks hold different experts. Tokens go to the ranks of their experts, and results come back.
struct ExpertSharing {
  int ranks = 1;  // along ep, each with the same number of experts; 1: every rank has all experts
  // Ranks along ep_shard that hold the same experts and shard them, as dp_shard does with other weights.
  int shards = 1;
  double capacity = 2;  // rows that a rank's experts take at once, divided by their rows if tokens spread evenly
};

/// Rows that a rank's experts take at once: capacity × `rows`, rounded up. `rows` is the number of rows that each rank
/// sends to experts or, equally, that the experts of each rank get if tokens spread evenly.
std::int64_t rows_at_once(const ExpertSharing& sharing, std::int64_t rows);
/// Most rounds beyond the first one, needed if all rows go to the experts of one rank. In a round rows go to the
/// experts and back.
std::int64_t most_further_rounds(const ExpertSharing& sharing);

/// Tensor parallelism: each rank computes with its part of a block.
struct BlockSharing {
  int ranks = 1;               // along axes()
  bool rows = false;           // sequence parallelism: ranks also split the rows of activations between the matrices
  int key_replicas = 1;        // neighbouring ranks with the same key heads, if there are fewer key heads than ranks
  ExpertSharing experts = {};  // expert parallelism, which divides the ranks differently
  int row_shares() const { return rows ? ranks : 1; }
  std::vector<AxisName> axes() const {
    if (ranks == 1) return {};
    return key_replicas == 1 ? std::vector<AxisName>{tensor_axis}
                             : std::vector<AxisName>{tensor_axis, key_replica_axis};
  }
};

/// How ranks shard each unit: dim 0 of each parameter is cut into `shards` pieces of whole rows, the last ones short or
/// empty (FSDP2 of PyTorch; ZeRO, Rajbhandari et al. 2020).
struct Sharding {
  std::vector<AxisName> axes;  // empty: every rank holds the whole unit
  int shards = 1;              // ranks along them
  // The fastest of these axes, along which weights stay sharded once they were gathered.
  std::vector<AxisName> kept_axes = {};
  int kept_shards = 1;       // ranks along kept_axes; 1: weights do not stay
  BlockSharing blocks = {};  // tensor parallelism, which cuts parameters before
};
/// The sharding of experts under expert parallelism.
Sharding of_experts(const Sharding& sharding);

/// A unit: parameters that are gathered, reduced and updated together. The part of a sharded unit that a rank holds is
/// its shard. All shards are as long as the longest.
struct UnitPlan {
  std::string name;
  std::vector<int> parameters;  // in storage order
  std::vector<int> blocks;      // that read it and add to its gradient in backward; ascending
  bool trained = true;          // false: it is gathered, but has no gradient, optimizer state or update
  // With tensor parallelism: axes along which ranks have equal gradients without a sum.
  std::vector<AxisName> alike = {};
  std::vector<AxisName> summed = {};  // and axes along which gradients are summed, as over replicas
  // For experts: axes along which gradients are summed, instead of the data axes.
  std::vector<AxisName> token_axes = {};
  std::vector<AxisName> shard_axes;  // over which it is sharded; empty: every rank holds the whole unit
  std::int64_t elements = 0;         // of the buffers of the whole unit, padding included
  // Of the buffers of a shard, padding included; of the whole unit if it is not sharded.
  std::int64_t shard_elements = 0;
  std::int64_t master_bytes = 0;          // of the shard
  std::int64_t compute_bytes = 0;         // of the shard; 0: kernels read the master itself
  std::vector<AxisName> kept_axes = {};   // over which gathered weights stay sharded; empty: they do not stay
  std::int64_t kept_bytes = 0;            // of a shard over kept_axes, in the type that kernels read
  std::int64_t gathered_bytes = 0;        // of the whole unit in the type that kernels read; 0: it is not sharded
  std::int64_t local_gradient_bytes = 0;  // of the whole unit: the gradient that backward adds to
  std::int64_t gradient_bytes = 0;        // of the shard: the sum that the optimizer reads
  std::int64_t reduce_bytes = 0;          // of the whole gradient, in the type in which it is summed over ranks
  std::int64_t reduce_shard_bytes = 0;    // of a shard in that type
  std::int64_t optimizer_bytes = 0;       // of the shard
  // Rows behind the last parameter, in the memory of whole weights that kernels read and of a gradient that backward
  // adds to: not among the elements, never exchanged (unit_padding).
  std::int64_t padding = 0;  // in elements
  // Among ranks that hold parts of its tensors, if its update needs more than parts: parts go to the owners of matrices
  // and come back, or sums over parts become sums over tensors.
  std::vector<BlockExchange> update_exchanges = {};
  bool casts_gradient() const { return reduce_bytes != local_gradient_bytes; }
  bool is_cut() const { return !shard_axes.empty(); }
  // Bytes of memory, with the padding where it has some: the master and its copy, and gradients.
  std::int64_t master_memory() const { return master_bytes + (compute_bytes > 0 ? 0 : held_padding(master_bytes)); }
  std::int64_t compute_memory() const { return compute_bytes + held_padding(compute_bytes); }
  std::int64_t gradient_memory() const { return gradient_bytes + held_padding(gradient_bytes); }
  std::int64_t gathered_memory() const { return gathered_bytes + padding_of(gathered_bytes); }
  std::int64_t local_gradient_memory() const { return local_gradient_bytes + padding_of(local_gradient_bytes); }
  bool operator==(const UnitPlan&) const = default;

 private:
  std::int64_t padding_of(std::int64_t whole_bytes) const {
    return elements == 0 ? 0 : padding * (whole_bytes / elements);
  }
  std::int64_t held_padding(std::int64_t bytes) const { return is_cut() ? 0 : padding_of(bytes); }
};

struct ModelPlan {
  std::vector<BlockPlan> blocks;  // in forward order
  int row_shares = 1;  // ranks along tp that split the rows of activations between blocks (sequence parallelism)
  std::vector<UnitPlan> units;
  std::int64_t shared_bytes = 0;  // for the whole run: tables and scratch memory of all blocks
};

/// Shape of an optimizer state: one number for each element of a tensor, or for each row or column of its matrices.
enum class StateShape { elements, rows, columns };

/// One optimizer state of a weight. A state of elements has the shape and layout of the weight. A state of rows or
/// columns is held whole by every rank that holds a part of the weight (architecture/units.hpp).
struct StateDescription {
  std::string name;  // name in checkpoints, "exp_avg"
  DType dtype = DType::f32;
  StateShape of = StateShape::elements;
  bool operator==(const StateDescription&) const = default;
};

/// The optimizer states of a weight, by the number of its update rule (ParameterPlan::update): matrices may have
/// another rule than vectors. All parameters of a unit have the same rule.
using UpdateStates = std::vector<std::vector<StateDescription>>;

/// Element types of the values that a unit stores, and of activations between blocks.
struct UnitTypes {
  DType master = DType::f32;
  DType compute = DType::f32;  // equal to master: there is no copy
  UpdateStates states;
  std::optional<DType> reduce = {};  // in which gradients are summed over ranks; default: master
  std::optional<DType> output = {};  // of a block's output and its gradient; default: master
  std::optional<DType> only = {};    // the only type in which weights are kept; default: master
  /// The states of an update rule; empty if it has none.
  const std::vector<StateDescription>& state(int update) const;
  DType kept() const { return only.value_or(master); }  // type of the stored weights
  DType reduced() const { return reduce.value_or(master); }
  DType handed_out() const { return output.value_or(master); }
};

/// In a unit's master buffer, each parameter begins at a multiple of this many bytes.
constexpr std::int64_t unit_alignment_bytes = 64;

/// Offsets of parameters with `elements` elements each in the buffers of a unit, followed by the length of the buffers.
/// In elements, padding included.
std::vector<std::int64_t> unit_offsets(const std::vector<std::int64_t>& elements, DType master);

/// Rows of a matrix in memory: at least `rows`, and a multiple of `multiple` if that is not 0.
std::int64_t rows_in_memory(std::int64_t rows, std::int64_t multiple);
/// Elements that memory of whole weights needs behind `offsets` (of unit_offsets), so that its last parameter, of a
/// `shape` with dim 0 for tokens, has rows_in_memory.
std::int64_t unit_padding(const std::vector<std::int64_t>& offsets, const Shape& shape, std::int64_t row_multiple);

/// The shape of the first of `shards` shards, which is the longest.
Shape longest_shard(Shape shape, int shards);

/// Limits on the blocks of one unit.
struct Buckets {
  std::int64_t bytes = 0;              // most bytes of the gradient of a unit of several blocks; 0: one unit per block
  std::vector<int> stage_begins = {};  // first blocks of the stages of a pipeline, ascending; empty: one stage
};

/// Makes units of whole blocks, in the order of `blocks` (block names). A parameter belongs to its first block. In
/// backward order, the next block joins a unit while the bucket has room and the same stages read its parameters: no
/// unit of several blocks extends over stages, and none has two parameters with padding. A parameter with a row for
/// each token is the last of its unit. Blocks without parameters have no unit. Parameters that are not trained
/// have units of their own, and so have, in each block, the parameters that name a unit.
std::vector<UnitPlan> make_units(const std::vector<std::string>& blocks, const std::vector<ParameterPlan>& parameters,
                                 const UnitTypes& types, const Buckets& buckets, const Sharding& sharding = {});

}  // namespace lockstep
