// What a user may hang on a run: callbacks observe its events and may ask for a log line, an evaluation, a save or a
// stop; what they ask is merged over ranks in the heartbeat. To add one: derive from Callback and give it a line in
// make_callbacks.
#pragma once

#include "comm/heartbeat.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "corpus/tokenizer.hpp"
#include "model/model.hpp"
#include "report/record_sink.hpp"
#include "train/train_state.hpp"

#include <memory>
#include <vector>

namespace lockstep {

/// What a callback sees. `records` has sinks on rank 0 only.
struct RunView {
  Session& session;
  const Model& model;
  const Tokenizer& tokenizer;
  const TrainState& train_state;
  Recorder& records;
};

class Callback {
 public:
  virtual ~Callback() = default;
  /// After each step. Local; returns what this rank asks for after the next one.
  virtual Request after_step(const RunView&) { return Request::none; }
  /// After each evaluation and at the end. Collective over the world.
  virtual void after_evaluation(const RunView&) {}
};

/// Those of train.callbacks, in order. Local.
std::vector<std::unique_ptr<Callback>> make_callbacks(const TrainConfig& config);

}  // namespace lockstep
