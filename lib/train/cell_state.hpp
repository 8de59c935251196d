// The weights and optimizer state of cells of ranks in post-local SGD, and their averages over the cells. Evaluations,
// texts and checkpoints use the average; a run continues with the state of each cell. Averages within a step are
// actions of its program (program/catalogue.hpp).
#pragma once

#include "comm/session.hpp"
#include "engine/engine.hpp"
#include "model/model.hpp"
#include "program/program_options.hpp"
#include "store/component.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace lockstep {

class CellState {
 public:
  /// `model` must outlive it; `rank` is this rank in `mesh`. Local.
  CellState(Model& model, const Mesh& mesh, Rank rank, LocalOptions options);

  /// Return whether weights, or optimizer state, differ between cells after `steps` steps. Optimizer state differs from
  /// the first local step on.
  bool weights_apart(std::int64_t steps) const;
  bool state_apart(std::int64_t steps) const;

  /// Replaces the model's weights by their average and keeps a copy of its own weights. Collective over the world.
  /// Throws an AgreedError if memory is missing on any rank. Any other failure occurs on one rank, which must end the
  /// job.
  void show_average(Engine& engine, Session& session, std::int64_t step);
  /// Restores the model's own weights. Local.
  void show_own();
  /// Computes the averages of weights and optimizer state; saved() returns them until drop(). Collective over the
  /// world; errors as in show_average.
  void take_averages(Engine& engine, Session& session, std::int64_t step);
  void drop();

  /// Return the values of a parameter that a checkpoint stores as the state of all cells: the average after
  /// take_averages, otherwise this rank's own.
  at::Tensor saved(const Parameter& parameter) const;
  at::Tensor saved_state(const Parameter& parameter, std::size_t index) const;
  /// Returns the component with the state of each cell, under its own names. Saved, it is written unchanged. Loaded, it
  /// is read into separate buffers, which then replace the model's values. A checkpoint with other cells, or none,
  /// leaves the model unchanged. This object must outlive the component.
  Component component();
  /// Returns the declaration of this component. `alike`: axes along which ranks hold the same weights; `axis`: the axis
  /// of the cells.
  static Component declared(std::vector<AxisName> alike, const AxisName& axis);
  /// Returns the component for a run that loads no state of cells.
  static Component left_out();

 private:
  struct Buffers {
    at::Tensor master;
    std::vector<at::Tensor> state;
  };
  enum class Copy { weights, all };
  void copy_beside(Copy what, Session& session);
  StateTree collect();
  void restore();

  Model& model_;
  LocalOptions options_;
  Pin cell_;  // the cell of this rank, as a pin of its tensors
  enum class Stash { nothing, own, averages, loaded } what_ = Stash::nothing;
  std::map<const Unit*, Buffers> beside_;  // of trained units: copies that the model's buffers do not hold
};

/// AveragedWeights replaces the model's weights by their average for its lifetime, if cells have different ones.
class AveragedWeights {
 public:
  AveragedWeights(CellState& cells, Engine& engine, Session& session, std::int64_t steps)
      : cells_(cells), apart_(cells.weights_apart(steps)) {
    if (apart_) cells.show_average(engine, session, steps);
  }
  ~AveragedWeights() {
    if (apart_) cells_.show_own();
  }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  CellState& cells_;
  bool apart_;
};

}  // namespace lockstep
