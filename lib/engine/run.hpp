// Engine::Run is one execution of a step program. Only the sources of the engine include this header; its interface is
// engine/engine.hpp.
#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "device/device.hpp"
#include "engine/engine.hpp"
#include "tensor/number_types.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace lockstep {

/// The error of a rank whose device has no memory left. It tells the bytes of the request, and by kind the bytes of the
/// program's plan.
Error out_of_memory(const c10::OutOfMemoryError& error, ProgramPhase phase, const RankClass& ranks);

/// One execution of a program: its inputs, the memory of its slots, its tickets, and the first failure of this rank.
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

  /// Whether ranks communicate in the middle of updates before the heartbeat, that is, in updates in backward.
  static bool meets_before_heartbeat(const RankClass& of) {
    for (const Action& action : of.actions) {
      if (action.op == Op::heartbeat) return false;
      if (action.op == Op::optimizer && exchanges_within(action)) return true;
    }
    return false;
  }

  /// Sets up a training step.
  void take(const StepOrder& given) {
    order = &given;
    gradient_scale = 1 / given.loss_scale;
    failure = given.failure;
    times = given.times;
    memory = given.memory;
  }

  const StepProgram& program;
  ProgramPhase phase;
  const RankClass& ranks;             // class of this rank
  const StepOrder* order = nullptr;   // of a training step
  const TextPass* texts = nullptr;    // the pass over texts
  const TokenDraw* draw = nullptr;    // draws the next tokens of the texts
  std::vector<BatchTensors> batches;  // by micro-batch
  SlotStore slots;
  std::vector<Ticket> tickets;                   // by position, of actions that run beside the computation
  std::set<int> summed;                          // units whose gradient already holds a sum of this step
  std::shared_ptr<std::vector<Interval>> times;  // not null: the step is measured
  enum class Mark : std::uint8_t { begin, end };
  struct DeviceMark {
    const Action* action;
    Mark what;
    DeviceMoment moment;
  };
  std::vector<DeviceMark> marks;  // of a step that is measured on a device
  std::shared_ptr<std::vector<std::int64_t>> memory;
  std::vector<std::int64_t> rows_of;  // by micro-batch: rows of this rank
  std::vector<at::Tensor> stand_ins;  // sent by a rank that failed, in place of the values that it did not compute
  std::exception_ptr failure;
  std::int64_t step;
  bool numbers_are_read = false;          // loss_sum, correct and squared_norm come from the device
  double loss_sum = 0;                    // of this rank; after reduce_loss, of all ranks
  double aux_loss_sum = 0;                // of this rank, over the samples that it counts
  double correct = 0;                     // of an evaluation: of this rank; after reduce_loss, of all ranks
  std::vector<double> expert_loads = {};  // of this rank, in the order of StepOutcome::expert_loads
  double squared_norm = 0;                // over this rank's shares
  double clipped_norm_squared = 0;        // of the gradient that is clipped: of all ranks, or of this rank's cell
  double gradient_scale = 1;              // the optimizer multiplies gradients by it
  std::int64_t tokens = 0;                // of this rank; after reduce_loss, of all ranks
  StepOutcome outcome;
  at::Tensor logits;  // fp64 (S, V): after the last row of each segment of `texts`, on ranks with the head
  std::vector<DrawnToken> drawn;
  bool skips_update = false;  // the heartbeat found a loss or gradient that is not finite
  // A heartbeat can no longer report a failure: it is over, a unit is updated, or other ranks wait in the middle of a
  // block.
  bool irrevocable = false;

  /// Runs Local work unless this rank has failed. An exception becomes the failure of this rank, which the heartbeat
  /// reports to all ranks. After the heartbeat or the first update, exceptions leave the step.
  template <class Work>
  void attempt(Work&& work) {
    if (failure) return;
    try {
      in_memory(std::forward<Work>(work));
    } catch (...) {
      if (irrevocable) throw;
      failure = std::current_exception();
    }
  }
  /// Calls `work`. A device without memory becomes an error with the memory of the program.
  template <class Work>
  void in_memory(Work&& work) const {
    try {
      std::forward<Work>(work)();
    } catch (const c10::OutOfMemoryError& error) {
      throw out_of_memory(error, phase, ranks);
    }
  }

  /// Returns how a sum enters the gradient of its unit: the first sum of a step replaces the old value, later ones add.
  SumInto into(const Unit& unit, const Action& action) {
    return {summed.insert(action.subject.index).second ? SumInto::Mode::replace : SumInto::Mode::add,
            master_dtype(unit.precision())};
  }

  Interval& time_of(const Action& action) {
    const auto position = &action - ranks.actions.data();
    Interval& interval = (*times)[static_cast<std::size_t>(position)];
    interval.action = static_cast<int>(position);
    return interval;
  }

  /// Notes the time at which an action begins or ends: of the host, or of the device, which tells it later.
  void mark(const Action& action, Mark what) {
    if (!times) return;
    if (this_device().properties().is_host) {
      (what == Mark::begin ? time_of(action).begin_s : time_of(action).end_s) = monotonic_seconds();
    } else {
      marks.push_back({&action, what, this_device().record(DeviceQueue::compute)});
    }
  }
  /// Fills in the times that the device tells. Waits for the device.
  void take_marks() {
    if (marks.empty()) return;
    this_device().wait(marks.back().moment);
    for (const DeviceMark& one : marks)
      (one.what == Mark::begin ? time_of(*one.action).begin_s : time_of(*one.action).end_s) =
          this_device().seconds_of(one.moment);
    marks.clear();
  }

  /// The factor of a layer's auxiliary loss, summed over samples, in the gradient. It corresponds to the mean over all
  /// samples and all layers with experts.
  std::optional<double> aux_scale(const ModelConfig& config) const {
    if (order == nullptr || config.experts.aux_coefficient == 0) return {};
    const auto parts = static_cast<double>(order->samples * config.expert_layers(config.layers));
    // A cell counts by itself, as for the loss.
    return parts > 0 ? config.experts.aux_coefficient * order->loss_scale * cell_count(program) / parts : 0;
  }

  /// Sets up a pass over texts.
  void take(const TextPass& pass, const TokenDraw& how, const Model& model) {
    texts = &pass;
    draw = &how;
    rows_of.push_back(std::ssize(pass.batch.tokens));
    attempt([&] { batches.push_back(to_tensors(pass, model.config())); });
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

/// The value that an injected nan failure writes.
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace lockstep
