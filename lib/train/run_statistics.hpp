// Statistics of weights and gradients in the records of a run, for the steps and tensors that log.statistics selects.
// They only read: the run is bitwise the same without them. The computation: optim/tensor_statistics.hpp.
#pragma once

#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "engine/engine.hpp"
#include "model/model.hpp"
#include "optim/tensor_statistics.hpp"
#include "train/cadence_clock.hpp"
#include "train/cell_state.hpp"
#include "train/run_journal.hpp"
#include "train/train_plan.hpp"
#include "train/train_state.hpp"

#include <memory>

namespace lockstep {

class RunStatistics {
 public:
  /// All parts must outlive this object.
  struct Parts {
    const TrainConfig& config;
    const TrainPlan& plan;
    Session& session;
    Engine& engine;
    CellState& cells;
    const Model& model;
    RunJournal& journal;
  };
  RunStatistics(const Parts& parts, double now_s);

  /// Returns whether statistics are due by time on this rank. Local.
  bool due(double now_s) const;
  /// Called when all ranks know that statistics are due: the next step has them. Local.
  void asked(double now_s);
  /// Applies a changed cadence. Local.
  void follow_cadence() { clock_.follow(cadence()); }
  /// Called before the step after `now`, which takes samples up to `next`. All ranks decide equally whether it has
  /// statistics. Returns the object that collects its gradients; null: none are requested. Local.
  std::shared_ptr<TensorStatistics> begin_step(const TrainState& now, DataPosition next);
  /// Called after the step with the collected gradients; writes the records if the step has statistics. Collective over
  /// the world.
  void end_step(const TrainState& now, TensorStatistics* gradients, double loss_scale);

 private:
  bool asks_for(MeasuredTensors tensors) const;
  const Cadence& cadence() const;

  Parts parts_;
  CadenceClock clock_;
  bool asked_ = false;  // the next step has statistics
  bool taken_ = false;  // this step has statistics
};

}  // namespace lockstep
