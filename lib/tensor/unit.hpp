// A unit owns the buffers of some parameters for the whole run: one allocation each for master (the weights that are
// updated), compute copy, gradient and every tensor of the optimizer's state. It is what data parallelism gathers and
// reduces, the optimizer steps and the checkpoint stores at once. Of a unit that is cut these buffers hold this rank's
// shard; whole weights and the whole gradient of this rank lie in memory that is lent while they are needed. Parameters
// are views: tensor/parameter.hpp.
#pragma once

#include "base/region.hpp"
#include "layout/shard_map.hpp"
#include "program/offload.hpp"
#include "tensor/number_types.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Over which ranks units are cut, and which of them this is.
struct ShardPlace {
  Mesh mesh = make_mesh("world", {});
  Sharding sharding = {};
  Rank rank = 0;
  std::vector<Pin> pins = {};  // of units that only some ranks have; this is one of those
};

/// Whether a unit holds memory for its reduced gradient all run, or is lent it while a step needs it.
enum class GradientMemory { held, lent };

/// Whether a unit keeps weights in the master type, with a copy in the compute type if that is another, or in the
/// compute type alone.
enum class WeightMemory { master, compute };

/// Which buffers a unit has, and where.
struct UnitMemory {
  WeightMemory weights = WeightMemory::master;
  GradientMemory gradients = GradientMemory::held;
  Arena shards = Arena::device;  // all buffers of a unit that is cut
  Arena state = Arena::device;   // those of the optimizer
};

UnitMemory unit_memory_of(const OffloadOptions& offload, bool in_backward, WeightMemory weights = WeightMemory::master);

class BlockLane;

class Unit {
 public:
  /// Zeroed buffers for `tensors` in this order, where unit_offsets (program/model_plan.hpp) places them, and for each
  /// `state` of the optimizer; padding stays zero.
  Unit(std::string name, const std::vector<LogicalTensor>& tensors, Precision precision,
       const std::vector<StateDescription>& state = {}, const ShardPlace& place = {}, const UnitMemory& memory = {});
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  const std::string& name() const { return name_; }
  Precision precision() const { return precision_; }
  const std::vector<std::unique_ptr<Parameter>>& parameters() const { return parameters_; }
  bool is_cut() const { return cut_; }
  bool is_trained() const { return trained_; }  // all of its parameters are; if not, there is no gradient and no state
  std::int64_t length() const { return map_.shard_length; }        // elements of this rank's buffers, padding included
  std::int64_t whole_length() const { return map_.whole_length; }  // the same of the whole
  const ShardMap& shard_map() const { return map_; }               // one shard, the whole, if it is not cut
  /// How ranks share out weights that stay gathered among them; no pieces if they do not.
  const ShardMap& kept_map() const { return kept_map_; }

  /// Among ranks that have parts of its tensors, where an update needs more than these; it outlives the updates. Null:
  /// none.
  void share_updates(const BlockLane* lane) { sharers_ = lane; }
  const BlockLane* sharers() const { return sharers_; }

  /// This rank's flat buffers, (length()), but for state of rows or columns. Those in host memory are used in memory of
  /// the device that is lent.
  const at::Tensor& master() const { return master_; }
  const at::Tensor& compute() const { return compute_; }           // the master itself unless they differ in type
  bool is_short() const { return short_; }                         // weights are of 16 bits, and of no other type
  const at::Tensor& gradient() const { return gradient_; }         // reduced
  const std::vector<at::Tensor>& state() const { return state_; }  // of the optimizer, in the order that it declares
  const std::vector<StateDescription>& kept() const { return kept_; }  // what that is; nothing if it is frozen

  /// Of a unit that is cut: parameters view whole weights in `whole` (whole_length()), of the compute type, until
  /// another call; with an undefined tensor they have none. Memory that is lent again costs no new views. Local.
  void lend_weights(const at::Tensor& whole);
  /// The same of a gradient of this rank, of the master type, which counts as forgotten. Several may be under way, as
  /// those of micro-batches whose backward comes in parts: one is added to at a time.
  void lend_local_gradient(const at::Tensor& whole);
  /// Goes on with one that was lent before another.
  void resume_local_gradient(const at::Tensor& whole);
  /// It is complete: parameters have none until one is lent or resumed, or theirs if the unit is not cut.
  void end_local_gradient(const at::Tensor& whole);
  /// This rank's part, by kept_map(), of the whole weights that are lent, in fresh memory. Local.
  at::Tensor keep_weights() const;
  /// Where gradients are lent: the reduced one lies in `own` (length()), of the master type, until another call; with
  /// an undefined tensor there is none. Padding becomes zero. Of a unit that is not cut it is this rank's too, and
  /// counts as forgotten. Local.
  void lend_gradient(const at::Tensor& own);
  // Of a unit with buffers in host memory. Local.
  /// Bytes of those that an update uses.
  std::int64_t update_bytes();
  /// Copies of them to memory of the device that is so long, and back of what an update wrote.
  std::vector<RegionCopy> fetch_update(const at::Tensor& memory);
  std::vector<RegionCopy> offload_update(const at::Tensor& memory);
  /// They are used in that memory until another call; with an undefined tensor where they lie all run.
  void lend_update(const at::Tensor& memory);
  /// A copy of the shard that a gathering reads to memory of the device.
  RegionCopy fetch_shard(const at::Tensor& memory) const;
  /// A copy of the reduced gradient, in memory that was lent, to where it lies until the update.
  RegionCopy offload_gradient() const;

  /// The flat buffer of this rank's gradient, (whole_length()): if the unit is not cut and no other memory is lent,
  /// that of the reduced one.
  const at::Tensor& local_gradient() const { return local_gradient_; }

  /// Before the first backward of a step: forgets every gradient. Nothing is written; the first touch of each parameter
  /// overwrites.
  void zero_grad();
  /// After the last backward and before reduction: zeroes the gradient of parameters that nothing touched.
  void finish_gradients();
  /// Makes the compute copy follow the master; nothing to do if that is the master itself. The optimizer does it with
  /// each update.
  void update_compute_copy();

 private:
  using Views = std::vector<at::Tensor>;  // by parameter
  struct Buffers {
    at::Tensor master, compute, gradient;  // the gradient only where it is held
    std::vector<at::Tensor> state;
  };
  /// A buffer in host memory that an update uses.
  struct HostBuffer {
    at::Tensor home;
    at::Tensor* now;  // where it is used
    bool written = true;
  };
  std::vector<HostBuffer> host_buffers();
  /// Says in `places` where the parameters have it, and returns the length of the buffer.
  std::int64_t place_state(const StateDescription& kept, const std::vector<LogicalTensor>& tensors, Rank rank,
                           std::vector<ParameterPlace>& places) const;
  const Views& views_of(const at::Tensor& whole);
  void view_local_gradient(const at::Tensor& whole);
  /// What is reduced as one has padding that counts for nothing.
  void zero_padding(const at::Tensor& flat) const;
  std::string name_;
  Precision precision_;
  bool cut_ = false;
  bool short_ = false;
  const BlockLane* sharers_ = nullptr;
  bool trained_ = true;
  ShardMap map_, kept_map_;
  std::size_t kept_part_ = 0;  // of kept_map_: this rank's
  UnitMemory memory_;
  std::vector<StateDescription> kept_;
  Buffers home_;        // all run; what follows is where they lie now
  at::Tensor weights_;  // that are lent
  at::Tensor master_, compute_, gradient_, local_gradient_;
  std::vector<at::Tensor> state_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::map<std::pair<const void*, at::ScalarType>, Views> lent_;  // by memory; views do not own it
  std::map<const void*, std::vector<int>> touches_;  // by memory of gradients under way that are not viewed now
  std::map<const void*, Views> lent_gradients_;      // the same of reduced gradients
};

/// The bytes of a flat buffer or of a view of one: for reductions, checkpoints and hashes. The tensor must be
/// contiguous and on the CPU.
std::span<std::byte> bytes_of(const at::Tensor& tensor);
template <class T>
std::span<T> values_of(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace lockstep
