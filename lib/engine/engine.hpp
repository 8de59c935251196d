// The engine runs a step program on one rank: each action of the list in its order, whatever passes made the list. It
// knows blocks, units, slots and lanes, and nothing of what parallelism the program expresses. Who makes programs:
// program/catalogue.hpp. Who calls: train/loop.hpp.
#pragma once

#include "comm/heartbeat.hpp"
#include "comm/session.hpp"
#include "comm/transport.hpp"
#include "data/batch.hpp"
#include "engine/anomaly.hpp"
#include "engine/slot_store.hpp"
#include "model/model.hpp"
#include "model/sampled_text.hpp"
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
#include <utility>
#include <vector>

namespace lockstep {

/// Moments within a step that a rank may be told of.
enum class StepMoment { micro_batch_end, before_update, updated };

/// StepOrder is what a training step is told.
struct StepOrder {
  std::int64_t step = 0;          // 0-based
  std::int64_t valid_tokens = 0;  // labels that count, over all ranks: normalises loss and gradient
  std::int64_t samples = 0;       // without padding, over all ranks: normalises the auxiliary loss of experts
  double lr = 0;
  std::uint64_t seed = 0;  // of what is drawn: dropout
  StepLoss loss = {};
  double loss_scale = 1;  // the loss's gradient is multiplied with it; gradients are divided by it where they are used
  std::int64_t skipped = 0;  // earlier steps without an update: the optimizer's bias corrections do not count them
  std::int64_t next_valid_tokens = 0;      // of this rank in the following step: the heartbeat adds them up
  std::int64_t next_samples = 0;           // and these
  std::vector<DatasetUse> next_uses = {};  // and these, by dataset
  StopLevel stop = StopLevel::none;        // what this rank was asked
  Request requests = Request::none;        // what its callbacks and stop channels ask for
  std::exception_ptr failure;              // of this rank since the last heartbeat: it takes part without computing
  std::shared_ptr<std::vector<Interval>> times =
      {};  // one for each action of this rank, to be filled with monotonic seconds; null: not measured
  std::shared_ptr<std::vector<std::int64_t>> memory =
      {};  // the same, resident bytes of the process behind it; 0 of what runs behind the computation
  std::shared_ptr<TensorStatistics> gradients =
      {};  // takes in this rank's share of those of trained tensors, before clipping, times loss_scale; null: not taken
  std::function<void(StepMoment, MicroBatch)> moments = {};  // is told of those of this rank, throws nothing; or empty
};

/// StepOutcome is what every rank knows after a step; equal on all ranks.
struct StepOutcome {
  double loss = 0;                      // nats a token over the global batch, of labels as smooth as they were ordered
  std::optional<double> aux_loss = {};  // of experts, without its coefficient: mean over samples and layers with such
  double gradient_norm = 0;  // before clipping; of cells that sum no gradients with each other the root of the mean
                             // of the squares of theirs
  bool updated = false;      // false: loss or gradient was not finite, so the step changed no weight and no moment,
                             // unless it updates in backward; what averages cells does so all the same
  std::int64_t next_valid_tokens = 0;  // over all ranks
  std::int64_t next_samples = 0;
  std::vector<DatasetUse> next_uses = {};
  StopLevel stop = StopLevel::none;       // the strongest of any rank
  Request requests = Request::none;       // those of all ranks
  std::vector<double> expert_loads = {};  // by layer with experts and by expert: choices of tokens that fall on it
};

struct EvaluationOutcome {
  double loss_sum = 0;  // nats, over all ranks
  std::int64_t tokens = 0;
  std::int64_t hits = 0;  // tokens that the model held for the most probable
};

/// The lanes and groups of the programs, each lane under the number that it has there. Collective over the world.
Transport make_transport(Session& session, const Catalogue& programs);

class Engine {
 public:
  /// Local. All arguments outlive the engine. Without a `clip_norm` gradients are not scaled; without a `reduce_dtype`
  /// they are summed over ranks in the type that they are kept in.
  /// Throws Error(bug) if the programs' units are not those of the model.
  Engine(Model& model, const Optimizer& optimizer, const Catalogue& programs, Session& session, Transport& transport,
         std::optional<double> clip_norm, std::optional<DType> reduce_dtype = {});

  /// From here on each step looks for the first number that is not finite, which takes time.
  void search_anomalies() { search_.emplace(model_); }
  /// What this rank found in the last step. Local.
  std::optional<Anomaly> anomaly() const { return search_ ? search_->found() : std::nullopt; }

  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// One optimizer step. Collective over the world. A rank that fails goes on communicating up to the heartbeat, where
  /// all ranks learn of it and throw the same AgreedError; weights are then those of before the step. After the
  /// heartbeat a rank throws alone, with its weights half updated: it has to end the job. If loss or gradient
  /// norm is not finite on any rank, all ranks leave weights and moments as they are, and say so in the outcome.
  /// A program that updates in backward changes weights before the heartbeat: a rank throws alone after its first
  /// update, and ranks that have not failed have updated theirs, whatever the heartbeat tells.
  /// Where ranks share blocks nothing can be drained: a rank that fails throws alone, at once, here and below.
  StepOutcome run_step(const StepBatch& batch, const StepOrder& order);

  /// Sums of loss and tokens over all ranks of as many micro-batches as the evaluation program has. Collective over the
  /// world.
  EvaluationOutcome evaluate(const std::vector<Batch>& micro_batches, std::int64_t step);

  /// One pass over a text, the same on all ranks: the first rank that holds the head calls `draw` with the logits
  /// behind its last token, and all ranks are told what it drew. Collective over the world. What fails on one rank, the
  /// draw included, all ranks throw as the same AgreedError, and nothing of it stays.
  DrawnToken draw_token(const SeenText& text, const TokenDraw& draw, std::int64_t step);

  /// Between steps: each buffer becomes its mean over the cells that train apart, the same on all of them. Collective
  /// over the world, with buffers of equal lengths in one order. What fails does so on one rank: it has to end the job.
  void average(const std::vector<at::Tensor>& buffers, std::int64_t step);

  /// Whether what this rank knows of a batch is counted: of ranks that read the same one the first one's.
  bool counts_batch() const;

  /// What this rank did in the last run_step, evaluate or draw_token, as it was recorded by what did it: what it should
  /// be is expect_trace of program/trace.hpp.
  const std::vector<TraceEntry>& trace() const { return trace_.entries(); }

 private:
  struct Run;                                                            // the state of one execution of a program
  const BlockLane* lane_among(const std::vector<AxisName>& axes) const;  // null if nothing is said along all of them
  const BlockLane* tensor_lane() const;                                  // null if this rank shares no block
  Run begin(std::int64_t step, ProgramPhase phase);
  void execute(Run& run);
  void go_through(Run& run);
  void perform(Run& run, const Action& action);
  void perform(Run& run, const Action& action, Unit& unit);
  /// What was done, by the object that it was done with.
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
  /// Waits for all that goes on behind the computation, and ends what it held on to.
  void drain(Run& run);
  Unit& unit_of(const Subject& subject) const;
  /// Memory of `slot` for a gradient of a unit: this rank's or the reduced one.
  static void lend_gradient(Run& run, Unit& unit, int slot);
  /// That of the reduced one, if the action begins with it, or a rank that failed lacks it.
  static void lend_step_gradient(Run& run, Unit& unit, const Action& action);
  /// Units whose gradients are reduced from other memory get that which the action adds to.
  void lend_gradients(Run& run, const Action& action);
  /// What this rank gives to a gathering: its shard, or what was fetched of it.
  static const at::Tensor& own_shard(Run& run, const Unit& unit, const Action& action);
  static const at::Tensor& kept_weights(Run& run, const Unit& unit, int slot);
  /// Where the sum of a reduce-scatter goes.
  std::pair<at::Tensor, SumInto> shard_of(Run& run, const Unit& unit, const Action& action) const;
  /// The gradient of this rank that the action reduces and releases: the unit has it no more.
  std::span<std::byte> give_up_gradient(Run& run, Unit& unit, const Action& action);
  /// Fills in when the operations of a step that is over took place.
  void take_times(Run& run);
  void forward(Run& run, const Action& action);
  /// Adds what experts of a forward in training tell.
  void count_choices(Run& run, const Block& block, const Replay& told) const;
  void recompute(Run& run, const Action& action);
  void backward(Run& run, const Action& action);
  void backward_weight(Run& run, const Action& action);
  void reduce_norm(Run& run, const Action& action);
  void heartbeat(Run& run, const Action& action);
  void reduce_loss(Run& run, const Action& action);
  void draw_token(Run& run, const Action& action);
  /// Of ranks that share a block without sharing out its rows.
  bool is_first_of_sharers() const;
  /// Whether this rank's loss is counted: of ranks that have the same rows the first one's.
  bool counts_loss() const;
  /// Where all ranks meet: what goes on behind the computation ends first, so that nothing is in flight if one failed.
  HeartbeatData agree(Run& run, const Action& action, const HeartbeatData& mine);

  Model& model_;
  const Optimizer& optimizer_;
  std::optional<AnomalySearch> search_;
  const Catalogue& programs_;
  Session& session_;
  Transport& transport_;
  std::optional<double> clip_norm_;
  DType reduce_dtype_;
  std::map<std::vector<AxisName>, BlockLane> block_lanes_;   // where ranks share blocks, or their rows, by their axes
  std::map<std::vector<AxisName>, BlockLane> update_lanes_;  // where ranks update matrices together, likewise
  SequencePlace place_;                                      // of this rank among those that share rows
  std::map<const RankClass*, SlotIndex> slots_;
  TraceLog trace_;
  std::vector<OperationRecord> records_;  // of the last step
};

}  // namespace lockstep
