// What a user may hang on a run: callbacks observe its events and may ask for a log line, an evaluation, a save or a
// stop; what they ask is merged over ranks in the heartbeat. To add one: derive from Callback and give it a line in
// make_callbacks; those of plug-ins are train/plugin_callback.hpp.
#pragma once

#include "comm/heartbeat.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "corpus/tokenizer.hpp"
#include "engine/engine.hpp"
#include "model/sampled_text.hpp"
#include "plugin/lockstep_plugin.h"
#include "report/recorder.hpp"
#include "store/component.hpp"
#include "train/run_journal.hpp"
#include "train/train_state.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
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

/// What a callback asks for, of all ranks, behind the next step.
struct CallbackAsks {
  Request requests = Request::none;
  bool stop = false;  // after a save
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual std::string name() const = 0;  // as train.callbacks says it
  /// Whether it wants to hear of events.
  virtual bool listens() const { return false; }
  /// At each event (plugin/lockstep_plugin.h), on each rank. Local.
  virtual CallbackAsks on(lockstep_event, const lockstep_facts&, RunJournal&) { return {}; }
  /// After each evaluation and at the end. What fails fails on all ranks, as an AgreedError: local work that may fail
  /// runs inside together (comm/together.hpp). Collective over the world.
  virtual void after_evaluation(const RunView&) {}
  /// What a checkpoint keeps of it.
  virtual std::vector<Component> components() { return {}; }
};

/// Those of train.callbacks, in order, on a rank. Local. Throws Error(input) where a plug-in makes none.
std::vector<std::unique_ptr<Callback>> make_callbacks(const TrainConfig& config, Rank rank, int ranks);

/// The callbacks of a run, called in order. What a callback throws, on one rank or on all, becomes a warning and the
/// event "callback_failed"; the run and its checkpoints go on as if it had returned.
class Callbacks {
 public:
  /// All of them outlive it.
  Callbacks(const std::vector<std::unique_ptr<Callback>>& callbacks, Session& session, RunJournal& journal);

  /// Whether any wants to hear of events.
  bool listen() const;
  /// Local. A failure asks for Request::report.
  void tell(lockstep_event event, const lockstep_facts& facts);
  /// What they have asked for since. Local.
  CallbackAsks take_asks() { return std::exchange(asks_, {}); }
  /// Tells what failed in an event: where a rank has asked for Request::report. Collective over the world.
  void report(const RunView& view);
  /// Collective over the world.
  void after_evaluation(const RunView& view);

 private:
  /// Runs work of `who`, collective over the world as this is: what all ranks throw becomes a warning.
  void call(const RunView& view, const std::string& who, const std::function<void()>& work);

  const std::vector<std::unique_ptr<Callback>>& callbacks_;
  Session& session_;
  RunJournal& journal_;
  CallbackAsks asks_;           // of this rank
  std::exception_ptr failure_;  // of this rank since the last report
};

}  // namespace lockstep
