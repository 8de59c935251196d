// Statistics of weights and gradients in the records of a run, as log.statistics asks for them: at which steps, and of
// what. They are read alone: a run is to the bit as it is without. How they are taken: optim/tensor_statistics.hpp.
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
  /// All of it outlives this.
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

  /// Whether they are due by time, as this rank counts it. Local.
  bool due(double now_s) const;
  /// All ranks have heard that they are: the next step has them. Local.
  void asked(double now_s);
  /// How often they are asked for has changed. Local.
  void follow_cadence() { clock_.follow(cadence()); }
  /// Before the step behind `now`, which takes samples up to `next`: whether it has them is the same on all ranks.
  /// Returns what takes in its gradients; null: none are asked for. Local.
  std::shared_ptr<TensorStatistics> begin_step(const TrainState& now, DataPosition next);
  /// After it, with what took in its gradients: its records, if it has them. Collective over the world.
  void end_step(const TrainState& now, TensorStatistics* gradients, double loss_scale);

 private:
  bool asks_for(MeasuredTensors tensors) const;
  const Cadence& cadence() const;

  Parts parts_;
  CadenceClock clock_;
  bool asked_ = false;  // for the next step
  bool taken_ = false;  // in this one
};

}  // namespace lockstep
