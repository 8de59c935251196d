// The engine runs a step program on one rank: it performs the actions of the rank's list in order. It knows blocks,
// units, slots and lanes, but no form of parallelism. program/catalogue.hpp makes the programs; train/loop.hpp calls
// the engine.
#pragma once

#include "comm/heartbeat.hpp"
#include "comm/session.hpp"
#include "comm/transport.hpp"
#include "data/batch.hpp"
#include "engine/anomaly.hpp"
#include "engine/slot_store.hpp"
#include "engine/step_numbers.hpp"
#include "model/model.hpp"
#include "model/text_pass.hpp"
#include "optim/optimizer.hpp"
#include "optim/tensor_statistics.hpp"
#include "program/catalogue.hpp"
#include "program/simulate.hpp"
#include "program/trace.hpp"

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Moments within a step at which StepOrder::moments is called.
enum class StepMoment { micro_batch_end, before_update, updated };

/// StepOrder holds the inputs of a training step besides its batch.
struct StepOrder {
  std::int64_t step = 0;          // 0-based
  std::int64_t valid_tokens = 0;  // labels that count, over all ranks; normalises loss and gradient
  std::int64_t samples = 0;       // without padding, over all ranks; normalises the auxiliary loss of experts
  double lr = 0;
  std::uint64_t seed = 0;  // of random draws (dropout)
  StepLoss loss = {};
  double loss_scale = 1;     // the gradient of the loss is multiplied by it; uses of gradients divide by it
  std::int64_t skipped = 0;  // earlier steps without an update, which the optimizer's bias corrections do not count
  std::int64_t next_valid_tokens = 0;      // of this rank in the following step; the heartbeat sums them over ranks
  std::int64_t next_samples = 0;           // likewise
  std::vector<DatasetUse> next_uses = {};  // likewise, by dataset
  StopLevel stop = StopLevel::none;        // asked of this rank
  Request requests = Request::none;        // requested by callbacks and stop channels of this rank
  // Failure of this rank since the last heartbeat. With one the rank takes part without computing.
  std::exception_ptr failure;
  // One for each action of this rank, to be filled with monotonic seconds. Null: not measured.
  std::shared_ptr<std::vector<Interval>> times = {};
  // For each action of this rank, resident bytes of the process after it; 0 for actions beside the computation. Null:
  // not measured.
  std::shared_ptr<std::vector<std::int64_t>> memory = {};
  // Accumulates this rank's share of the statistics of gradients of trained tensors, before clipping, times loss_scale.
  // Null: not wanted.
  std::shared_ptr<TensorStatistics> gradients = {};
  // Called at the moments of this rank; must not throw. Empty: not called.
  std::function<void(StepMoment, MicroBatch)> moments = {};
};

/// StepOutcome is the result of a step, equal on all ranks.
struct StepOutcome {
  double loss = 0;  // nats per token over the global batch, with the ordered label smoothing
  // Auxiliary loss of experts without its coefficient: mean over samples and layers with experts.
  std::optional<double> aux_loss = {};
  // Before clipping. For cells that do not sum gradients with each other: root of the mean of their squared norms.
  double gradient_norm = 0;
  // False: loss or gradient was not finite, so the step changed no weight and no moment, unless it updates in backward.
  // Averages over cells take place all the same.
  bool updated = false;
  std::int64_t next_valid_tokens = 0;  // over all ranks
  std::int64_t next_samples = 0;
  std::vector<DatasetUse> next_uses = {};
  StopLevel stop = StopLevel::none;       // the strongest of all ranks
  Request requests = Request::none;       // of all ranks
  std::vector<double> expert_loads = {};  // by layer with experts and by expert: number of tokens routed to it
};

struct EvaluationOutcome {
  double loss_sum = 0;  // nats, over all ranks
  std::int64_t tokens = 0;
  std::int64_t correct = 0;  // tokens that the model considered most probable
};

/// Returns the groups in which a rank exchanges memory of its device with others, by their axes:
/// "dp_replicate+dp_shard". Groups of the same ranks count once, because with NCCL they share a communicator. Local.
std::vector<std::string> device_groups(const Catalogue& programs, Rank rank);

/// Makes the transport with the lanes and groups of the programs. The number of a lane is its value in Lane. Collective
/// over the world.
Transport make_transport(Session& session, const Catalogue& programs);

class Engine {
 public:
  /// Local. All arguments must outlive the engine. Without `clip_norm`, gradients are not scaled. Without
  /// `reduce_dtype`, they are summed over ranks in the type in which they are kept. Throws Error(bug) if the blocks or
  /// units of the programs differ from those of the model.
  Engine(Model& model, const Optimizer& optimizer, const Catalogue& programs, Session& session, Transport& transport,
         std::optional<double> clip_norm, std::optional<DType> reduce_dtype = {});

  /// From now on each step searches for the first number that is not finite, which takes time.
  void search_anomalies() { search_.emplace(model_); }
  /// The anomaly that this rank found in the last step. Local.
  std::optional<Anomaly> anomaly() const { return search_ ? search_->found() : std::nullopt; }

  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Runs one optimizer step. Collective over the world.
  /// A rank that fails keeps communicating up to the heartbeat. There all ranks throw the same AgreedError, and weights
  /// are those of before the step. After the heartbeat a rank throws alone, with half-updated weights, and must end the
  /// job. If the loss or the gradient norm is not finite on any rank, no rank changes weights or moments, and the
  /// outcome says so.
  /// A program that updates in backward changes weights before the heartbeat: a rank throws alone after its first
  /// update, and ranks that have not failed have updated their weights, whether or not the heartbeat reports a failure.
  /// With tensor, context or expert parallelism a failure cannot be drained: the rank that fails throws alone and at
  /// once, also in the functions below.
  StepOutcome run_step(const StepBatch& batch, const StepOrder& order);

  /// Sums loss and tokens over all ranks. `micro_batches` has as many entries as the evaluation program has
  /// micro-batches. Collective over the world.
  EvaluationOutcome evaluate(const std::vector<Batch>& micro_batches, std::int64_t step);

  /// Runs a pass over texts, with the program prompt or token. The blocks have a cache (model/text_cache.hpp) that
  /// holds the earlier rows of each text, and the pass adds its rows. For each segment that draws, the first rank that
  /// holds the head calls `draw`, and all ranks receive the token; other segments have an id of 0. Collective over the
  /// world. If a rank fails, in `draw` for example, all ranks throw the same AgreedError; the texts cannot be continued
  /// then.
  std::vector<DrawnToken> continue_texts(const TextPass& pass, ProgramPhase phase, const TokenDraw& draw,
                                         std::int64_t step);

  /// Replaces each buffer, between steps, by its mean over the cells that train apart, equal on all of them. Collective
  /// over the world; buffers have equal lengths and the same order on all ranks. A rank that fails throws alone and
  /// must end the job.
  void average(const std::vector<at::Tensor>& buffers, std::int64_t step);

  /// Whether this rank counts the numbers of its batch: the first one of the ranks with the head that read the same
  /// batch.
  bool counts_batch() const;

  /// The trace of this rank's last run_step, evaluate or continue_texts, recorded by the parts that did the work.
  /// expect_trace of program/trace.hpp gives the trace that it must equal.
  const std::vector<TraceEntry>& trace() const { return trace_.entries(); }

 private:
  struct Run;                                                            // the state of one execution of a program
  const BlockLane* lane_among(const std::vector<AxisName>& axes) const;  // null if no exchange is along these axes
  const BlockLane* tensor_lane() const;                                  // null without tensor parallelism
  Run begin(std::int64_t step, ProgramPhase phase);
  /// Reads the sums of the device, once in an execution.
  void read_numbers(Run& run);
  void execute(Run& run);
  void go_through(Run& run);
  void perform(Run& run, const Action& action);
  void perform(Run& run, const Action& action, Unit& unit);
  /// Records a computation, under the unit or block that was used.
  void record(Op op, const Unit& unit, MicroBatch micro_batch);
  void record(Op op, const Block& block, MicroBatch micro_batch);
  void communicate(Run& run, const Action& action, std::size_t position);
  void transfer(Run& run, const Action& action, std::size_t position);
  void exchange_gradient(Run& run, const Action& action, std::size_t position, int group, int peer);
  void copy(Run& run, const Action& action, std::size_t position);
  std::vector<RegionCopy> copies_of(Run& run, const Action& action);
  std::vector<RegionCopy> offload_stash(Run& run, const Action& action);
  std::vector<RegionCopy> fetch_stash(Run& run, const Action& action);
  void wait_for(Run& run, const Action& action);
  /// Waits for all actions that run beside the computation, and releases their memory.
  void drain(Run& run);
  /// Waits until state that the device copied to host memory is there.
  static void await_offloads(const Run& run);
  Unit& unit_of(const Subject& subject) const;
  /// Gives the memory of `slot` to a unit's gradient: the local or the reduced one.
  static void lend_gradient(Run& run, Unit& unit, int slot);
  /// Gives memory to the reduced gradient if the action is the first to use it, or if a failed rank lacks it.
  static void lend_step_gradient(Run& run, Unit& unit, const Action& action);
  /// Gives the units of the action the memory of the local and step gradients that it adds to.
  void lend_gradients(Run& run, const Action& action);
  /// The shard that this rank contributes to a gathering: the unit's own, or a fetched copy.
  static const at::Tensor& own_shard(Run& run, const Unit& unit, const Action& action);
  static const at::Tensor& kept_weights(Run& run, const Unit& unit, int slot);
  /// The destination of the sum of a reduce-scatter.
  std::pair<at::Tensor, SumInto> shard_of(Run& run, const Unit& unit, const Action& action) const;
  /// Takes from the unit the gradient of this rank that the action reduces and releases.
  Region give_up_gradient(Run& run, Unit& unit, const Action& action);
  /// Fills in the times of the operations of a finished step.
  void take_times(Run& run);
  void forward(Run& run, const Action& action);
  /// Adds the token counts and the auxiliary loss of experts of a forward in training.
  void count_choices(const Block& block, const Replay& told);
  void recompute(Run& run, const Action& action);
  void backward(Run& run, const Action& action);
  void backward_weight(Run& run, const Action& action);
  void reduce_norm(Run& run, const Action& action);
  void heartbeat(Run& run, const Action& action);
  void reduce_loss(Run& run, const Action& action);
  void text_logits(Run& run, const at::Tensor& input);
  void draw_tokens(Run& run, const Action& action);
  /// Whether this rank is the first of its tensor-parallel group; true without tensor parallelism.
  bool is_first_of_sharers() const;
  /// Whether this rank's loss is counted: the first one of the ranks with the head that compute the same rows.
  bool counts_loss() const;
  /// Meets all ranks. Call it when all actions beside the computation have ended, so that nothing is in flight if a
  /// rank has failed.
  HeartbeatData agree(const Action& action, const HeartbeatData& mine);

  Model& model_;
  const Optimizer& optimizer_;
  std::optional<AnomalySearch> search_;
  const Catalogue& programs_;
  Session& session_;
  Transport& transport_;
  std::optional<double> clip_norm_;
  DType reduce_dtype_;
  std::map<std::vector<AxisName>, BlockLane> block_lanes_;   // by axes, of exchanges within blocks
  std::map<std::vector<AxisName>, BlockLane> update_lanes_;  // by axes, of updates that ranks compute together
  SequencePlace place_;                                      // of this rank, with context parallelism
  std::map<const RankClass*, SlotIndex> slots_;
  StepNumbers numbers_;
  TraceLog trace_;
  std::vector<OperationRecord> records_;  // of the last step
};

}  // namespace lockstep
