// A unit owns the buffers of some parameters for the whole run: one allocation each for the master weights, the compute
// copy, the gradient and every tensor of optimizer state. Data parallelism gathers and reduces it as a whole, the
// optimizer updates it, and the checkpoint stores it. A sharded unit (FSDP) keeps only this rank's shard; its gathered
// weights and this rank's whole gradient lie in memory that is lent while needed. Parameters are views:
// tensor/parameter.hpp.
#pragma once

#include "base/error.hpp"
#include "device/region.hpp"
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

/// The ranks over which units are sharded, and this rank.
struct ShardPlace {
  Mesh mesh = make_mesh("world", {});
  Sharding sharding = {};
  Rank rank = 0;
  std::vector<Pin> pins = {};  // of units that only some ranks hold; this rank is one of them
};

/// Whether a unit holds memory for its reduced gradient for the whole run, or is lent it while a step needs it.
enum class GradientMemory { held, lent };

/// Whether a unit keeps master weights, with a separate compute copy if the types differ, or only weights in the
/// compute type.
enum class WeightMemory { master, compute };

/// Buffers of a unit, and their arenas.
struct UnitMemory {
  WeightMemory weights = WeightMemory::master;
  GradientMemory gradients = GradientMemory::held;
  Arena shards = Arena::device;  // all buffers of a sharded unit
  Arena state = Arena::device;   // optimizer state
};

UnitMemory unit_memory_of(const OffloadOptions& offload, bool in_backward, WeightMemory weights = WeightMemory::master);

class BlockLane;

class Unit {
 public:
  /// Allocates zeroed buffers for `tensors` in this order, with the offsets of unit_offsets (program/model_plan.hpp),
  /// and for each tensor of optimizer `state`. Padding stays zero.
  Unit(std::string name, const std::vector<LogicalTensor>& tensors, Precision precision,
       const std::vector<StateDescription>& state = {}, const ShardPlace& place = {}, const UnitMemory& memory = {});
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  const std::string& name() const { return name_; }
  Precision precision() const { return precision_; }
  const std::vector<std::unique_ptr<Parameter>>& parameters() const { return parameters_; }
  bool is_cut() const { return cut_; }
  bool is_trained() const { return trained_; }               // all parameters are; if not, no gradient and no state
  std::int64_t length() const { return map_.shard_length; }  // elements of this rank's buffers, with padding
  std::int64_t whole_length() const { return map_.whole_length; }  // elements of the whole unit, with padding
  /// Elements behind whole weights and behind a gradient that backward adds to, for rows of the last parameter that
  /// only kernels see (Parameter::rows_in_memory). Memory that is lent for these has them too, and they become zero.
  std::int64_t padding() const { return padding_; }
  const ShardMap& shard_map() const { return map_; }  // a single shard if it is not sharded
  /// How weights stay distributed among ranks once they were gathered (reshard_after_forward over fewer ranks); no
  /// pieces if they do not.
  const ShardMap& kept_map() const { return kept_map_; }

  /// The lane over which an update exchanges parts of this unit's tensors, if it needs more than its own; it outlives
  /// the updates. nullptr: not needed.
  void share_updates(const BlockLane* lane) { sharers_ = lane; }
  const BlockLane* sharers() const { return sharers_; }

  /// This rank's flat buffers, (length()), except state of rows or columns. While an update runs, buffers of the host
  /// arena are used in lent device memory.
  const at::Tensor& master() const { return master_; }
  const at::Tensor& compute() const { return compute_; }               // the master itself unless the types differ
  bool is_short() const { return short_; }                             // weights are kept in 16 bits only
  const at::Tensor& gradient() const { return gradient_; }             // reduced
  const std::vector<at::Tensor>& state() const { return state_; }      // optimizer state, in declaration order
  const std::vector<StateDescription>& kept() const { return kept_; }  // describes state(); empty if frozen

  // Memory is lent from a slot of a step program. Views of it are created again only if the slot has moved.
  static constexpr int no_slot = -1;
  /// For a sharded unit: parameters view the gathered weights in `whole`, (whole_length()) in the compute type, until
  /// the next call. With an undefined tensor they have none. Local.
  void lend_weights(const at::Tensor& whole, int slot = no_slot);
  /// Lends memory, (whole_length()) in the master type, for this rank's whole gradient, which counts as cleared.
  /// Several such gradients may exist, for instance of micro-batches with a split backward; contributions go to one of
  /// them at a time.
  void lend_local_gradient(const at::Tensor& whole, int slot);
  /// Makes a gradient that was lent earlier the current one again.
  void resume_local_gradient(const at::Tensor& whole, int slot);
  /// Ends the use of this memory: the gradient is complete. Parameters then have none until one is lent or resumed; if
  /// the unit is not sharded, they have their own.
  void end_local_gradient(int slot);
  /// Copies this rank's part, by kept_map(), of the lent weights to fresh memory. Local.
  at::Tensor keep_weights() const;
  /// With GradientMemory::lent: the reduced gradient lies in `own`, (length()) in the master type, until the next call;
  /// with an undefined tensor there is none. Padding becomes zero. If the unit is not sharded, it is also this rank's
  /// own gradient, and counts as cleared. Local.
  void lend_gradient(const at::Tensor& own, int slot = no_slot);
  /// Adds the reduced gradient of a rank that holds a copy of this unit, (length()) in the master type. Skips the
  /// padding: after an overflow the head's product writes NaN into it. Local.
  void add_gradient_of_peer(const at::Tensor& gradient);
  // The next functions are for a unit with buffers in host memory (offloading). Local.
  /// Bytes of the host buffers that an update uses.
  std::int64_t update_bytes();
  /// Copies these buffers to device `memory` of update_bytes(), and back if an update writes them.
  std::vector<RegionCopy> fetch_update(const at::Tensor& memory);
  std::vector<RegionCopy> offload_update(const at::Tensor& memory);
  /// The buffers are used in `memory` until the next call; with an undefined tensor they are used in host memory.
  void lend_update(const at::Tensor& memory);
  /// Copy of the shard to device memory, for the all-gather.
  RegionCopy fetch_shard(const at::Tensor& memory) const;
  /// Copy of the reduced gradient from lent memory to its host buffer, where it stays until the update.
  RegionCopy offload_gradient() const;

  /// The flat buffer of this rank's own gradient, (whole_length()). It is the buffer of the reduced gradient if the
  /// unit is not sharded and no other memory is lent.
  const at::Tensor& local_gradient() const { return local_gradient_; }

  /// Called before the first backward of a step: clears every gradient. Nothing is written; the first touch of each
  /// parameter overwrites.
  void zero_grad();
  /// Called after the last backward and before reduction: zeroes the gradients of parameters without a contribution.
  void finish_gradients();
  /// Copies the master to the compute copy; does nothing if they are one buffer. The optimizer does it with each
  /// update.
  void update_compute_copy();

 private:
  using Views = std::vector<at::Tensor>;  // by parameter
  struct Buffers {
    at::Tensor master, compute, gradient;  // gradient: only with GradientMemory::held
    std::vector<at::Tensor> state;
  };
  /// A buffer in host memory that an update uses.
  struct HostBuffer {
    at::Tensor home;
    at::Tensor* now;  // current buffer
    bool written = true;
  };
  std::vector<HostBuffer> host_buffers();
  /// Stores the positions of this state in `places`, and returns the length of its buffer.
  std::int64_t place_state(const StateDescription& kept, const std::vector<LogicalTensor>& tensors, Rank rank,
                           std::vector<ParameterPlace>& places) const;
  struct LentViews {
    const void* memory = nullptr;  // that they view, without owning it
    at::ScalarType type = at::kFloat;
    Views views;
  };
  enum class Part : std::uint8_t { whole, shard };
  const Views& views_of(const at::Tensor& memory, int slot, Part part);
  void view_local_gradient(const at::Tensor& whole, int slot);
  /// Zeroes the padding between parameters, because the buffer is reduced as a whole.
  void zero_padding(const at::Tensor& flat) const;
  /// Zeroes the memory of whole weights or of a gradient behind the last parameter.
  void zero_rows_behind(const at::Tensor& whole) const;
  std::string name_;
  Precision precision_;
  bool cut_ = false;
  bool short_ = false;
  const BlockLane* sharers_ = nullptr;
  bool trained_ = true;
  ShardMap map_, kept_map_;
  std::int64_t padding_ = 0;
  std::size_t kept_part_ = 0;  // this rank's index in kept_map_
  UnitMemory memory_;
  std::vector<StateDescription> kept_;
  Buffers home_;        // permanent buffers; the members below are the current ones
  at::Tensor weights_;  // lent
  at::Tensor master_, compute_, gradient_, local_gradient_;
  std::vector<at::Tensor> state_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::map<std::pair<int, Part>, LentViews> lent_;  // by slot
  int local_slot_ = no_slot;                        // of the current local gradient, if it is lent
  std::map<int, std::vector<int>> touches_;         // touches of lent gradients that are not current, by slot
};

/// Returns the bytes of a flat buffer or of a view of one, for reductions, checkpoints and hashes. The tensor must be
/// contiguous and on the CPU.
std::span<std::byte> bytes_of(const at::Tensor& tensor);
template <class T>
std::span<T> values_of(const at::Tensor& tensor) {
  invariant(tensor.device().is_cpu(), "the host touches its own memory alone");
  return {tensor.mutable_data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace lockstep
