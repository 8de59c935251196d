// What a user may hang on a run: callbacks observe its events and may ask for a log line, an evaluation, a save or a
// stop; what they ask is merged over ranks in the heartbeat. To add one: derive from Callback and give it a line in
// make_callback.
#pragma once

#include "comm/heartbeat.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "corpus/tokenizer.hpp"
#include "engine/engine.hpp"
#include "model/sampled_text.hpp"
#include "report/recorder.hpp"
#include "train/run_journal.hpp"
#include "train/train_state.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// What a callback sees. `records` has sinks on rank 0 only.
struct RunView {
  Session& session;
  Engine& engine;
  const TextWindow& window;    // of texts that are sampled
  const Tokenizer* tokenizer;  // null where all tokens are made, and no callback reads text
  const TrainState& train_state;
  Recorder& records;
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual std::string name() const = 0;  // as train.callbacks says it
  /// After each step. Returns what this rank asks for after the next one. Local.
  virtual Request after_step(const RunView&) { return Request::none; }
  /// After each evaluation and at the end. What fails fails on all ranks, as an AgreedError: local work that may fail
  /// runs inside together (comm/together.hpp). Collective over the world.
  virtual void after_evaluation(const RunView&) {}
};

/// Those of train.callbacks, called in order. What a callback throws, on one rank or on all, becomes a warning and the
/// event "callback_failed"; the run and its checkpoints go on as if it had returned.
class Callbacks {
 public:
  /// `journal` outlives it.
  Callbacks(const TrainConfig& config, RunJournal& journal);

  /// Local. A failure asks for Request::report.
  Request after_step(const RunView& view);
  /// Tells what failed in after_step: where a rank has asked for Request::report. Collective over the world.
  void report(const RunView& view);
  /// Collective over the world.
  void after_evaluation(const RunView& view);

 private:
  /// Runs work of `who`, collective over the world as this is: what all ranks throw becomes a warning.
  void call(const RunView& view, const std::string& who, const std::function<void()>& work);

  RunJournal& journal_;
  std::vector<std::unique_ptr<Callback>> callbacks_;
  std::exception_ptr failure_;  // of this rank since the last report
};

}  // namespace lockstep
