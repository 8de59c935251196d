// What cells of ranks hold apart in post-local SGD, weights and optimizer state, beside its average over the cells:
// evaluations, texts and checkpoints read the average, and a run goes on with its own. Averages within a step are
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
  /// Local. `model` outlives it; `rank` is this one's in `mesh`.
  CellState(Model& model, const Mesh& mesh, Rank rank, LocalOptions options);

  /// Whether cells have weights of their own after so many steps; optimizer state they have from the first local step
  /// on.
  bool weights_apart(std::int64_t steps) const;
  bool state_apart(std::int64_t steps) const;

  /// The model's weights become the average; what they were is kept. Collective over the world. Throws an AgreedError
  /// for memory that is missing on any rank; what else fails does so on one rank, which has to end the job.
  void show_average(Engine& engine, Session& session, std::int64_t step);
  /// The model has its own weights again. Local.
  void show_own();
  /// Takes the averages of weights and optimizer state, which are what is saved() until drop(). As show_average.
  void take_averages(Engine& engine, Session& session, std::int64_t step);
  void drop();

  /// What a checkpoint has of a parameter as the state of all cells: the average, if that was taken, or this rank's
  /// own.
  at::Tensor saved(const Parameter& parameter) const;
  at::Tensor saved_state(const Parameter& parameter, std::size_t index) const;
  /// The state of each cell, under names of its own: saved as it is; loaded beside the model's and then put in its
  /// place. A checkpoint with other cells, or none, leaves the model as it is. Outlived by this.
  Component component();
  /// What is declared of it, where ranks hold the same of the weights along the axes `alike` and cells lie along
  /// `axis`.
  static Component declared(std::vector<AxisName> alike, const AxisName& axis);
  /// The component of a run that loads no cell's state.
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
  Pin cell_;  // where tensors of this rank's cell are
  enum class Beside { nothing, own, averages, loaded } what_ = Beside::nothing;
  std::map<const Unit*, Buffers> beside_;  // of trained units; what the model's buffers do not hold
};

/// While it lives the model's weights are the average, if cells have them apart.
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
