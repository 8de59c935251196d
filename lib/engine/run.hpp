// Engine::Run is one execution of a program. The engine's own: nobody else includes this.
#pragma once

#include "base/error.hpp"
#include "engine/engine.hpp"
#include "tensor/number_types.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace lockstep {

/// One execution of a program: what it was given, the memory of its slots, its tickets, and the first failure of this
/// rank.
struct Engine::Run {
  Run(const StepProgram& whole, ProgramPhase of_phase, const RankClass& of, const SlotIndex& index, std::int64_t number,
      TraceLog& trace)
      : program(whole),
        phase(of_phase),
        ranks(of),
        slots(of, index, trace),
        tickets(of.actions.size()),
        step(number),
        irrevocable(!whole.exchanges.empty() || meets_before_heartbeat(of)) {}

  /// Whether ranks speak in the middle of updates while failures can still be told: those of an update in backward.
  static bool meets_before_heartbeat(const RankClass& of) {
    for (const Action& action : of.actions) {
      if (action.op == Op::heartbeat) return false;
      if (action.op == Op::optimizer && speaks_within(action)) return true;
    }
    return false;
  }

  /// A training step.
  void take(const StepOrder& given) {
    order = &given;
    gradient_scale = 1 / given.loss_scale;
    failure = given.failure;
    times = given.times;
    memory = given.memory;
  }

  const StepProgram& program;
  ProgramPhase phase;
  const RankClass& ranks;             // its class of this rank
  const StepOrder* order = nullptr;   // of a training step
  const SeenText* text = nullptr;     // that is sampled
  const TokenDraw* draw = nullptr;    // for it
  std::int64_t last_row = -1;         // of this rank: that of the text's last token; −1: another rank has it
  std::vector<BatchTensors> batches;  // by micro-batch
  SlotStore slots;
  std::vector<Ticket> tickets;                   // by position; of what goes on behind the computation
  std::set<int> summed;                          // units whose gradient has sums of this step
  std::shared_ptr<std::vector<Interval>> times;  // where the step is measured
  std::shared_ptr<std::vector<std::int64_t>> memory;
  std::vector<std::int64_t> rows_of;  // by micro-batch: those of this rank
  std::vector<at::Tensor> stand_ins;  // sent by a rank that failed, in place of what it did not compute
  std::exception_ptr failure;
  std::int64_t step;
  double loss_sum = 0;                    // of this rank; after reduce_loss of all ranks
  double aux_loss_sum = 0;                // of this rank: of samples that it counts
  double hits = 0;                        // of an evaluation, as loss_sum
  std::vector<double> expert_loads = {};  // of this rank, as those of the outcome
  double squared_norm = 0;                // of this rank's shares
  double clipped_norm_squared = 0;        // of what is clipped: the gradient of all ranks, or of this rank's cell
  double gradient_scale = 1;              // that the optimizer multiplies gradients with
  std::int64_t tokens = 0;                // of this rank; after reduce_loss of all ranks
  StepOutcome outcome;
  at::Tensor logits;  // fp64, (V): behind the last token of `text`, where the head is
  DrawnToken token;
  bool skips_update = false;  // the heartbeat found that loss or gradient is not finite
  bool irrevocable = false;   // no heartbeat can tell of a failure: it is past, or a unit is updated, or other ranks
                              // wait in the middle of a block

  /// Runs Local work unless this rank has failed; what it throws is the rank's failure, which the heartbeat tells all
  /// ranks. What comes after the heartbeat, or after the first update, throws out of the step.
  template <class Work>
  void attempt(Work&& work) {
    if (failure) return;
    try {
      std::forward<Work>(work)();
    } catch (...) {
      if (irrevocable) throw;
      failure = std::current_exception();
    }
  }

  /// What a sum finds in the gradient of its unit: the first of a step, nothing that counts.
  SumInto into(const Unit& unit, const Action& action) {
    return {summed.insert(action.subject.index).second ? SumInto::How::replace : SumInto::How::add,
            master_dtype(unit.precision())};
  }

  Interval& time_of(const Action& action) {
    const auto position = &action - ranks.actions.data();
    Interval& interval = (*times)[static_cast<std::size_t>(position)];
    interval.action = static_cast<int>(position);
    return interval;
  }

  /// What the auxiliary loss of a layer, added up over its samples, counts for in the gradient: as much as in the mean
  /// over all samples and layers with experts.
  std::optional<double> aux_scale(const HfConfig& config) const {
    if (order == nullptr || config.experts.aux_coefficient == 0) return {};
    const auto parts = static_cast<double>(order->samples * config.expert_layers(config.layers));
    // Of a cell by itself, as the loss.
    return parts > 0 ? config.experts.aux_coefficient * order->loss_scale * cell_count(program) / parts : 0;
  }

  void take(const std::vector<Batch>& micro_batches, const Model& model, const SequencePlace& place, bool counts_loss) {
    for (const Batch& batch : micro_batches) rows_of.push_back(rows_of_each(place.ranks, batch.documents));
    const auto dropout = order == nullptr ? std::nullopt : std::optional(DropoutDraw{order->seed, step});
    attempt([&] {
      invariant(static_cast<int>(micro_batches.size()) == program.micro_batches,
                "a rank has the micro-batches of its program");
      for (const Batch& batch : micro_batches) {
        batches.push_back(to_tensors(batch, model.config(), place, dropout));
        batches.back().aux_scale = aux_scale(model.config());
        if (order != nullptr) batches.back().loss = order->loss;
        if (counts_loss) tokens += batches.back().valid_tokens;
      }
    });
  }
};

/// What an injected failure of numbers puts in.
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace lockstep
