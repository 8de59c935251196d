// Callbacks observe the events of a run and may ask for a log line, an evaluation, a save or a stop. The requests of
// all ranks are merged in the heartbeat. To add one: derive from Callback and give it a line in make_callbacks.
// Callbacks of plug-ins: train/plugin_callback.hpp.
#pragma once

#include "comm/heartbeat.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "engine/engine.hpp"
#include "model/model.hpp"
#include "plugin/lockstep_plugin.h"
#include "report/log.hpp"
#include "report/recorder.hpp"
#include "store/component.hpp"
#include "tokenizer/tokenizer.hpp"
#include "train/run_journal.hpp"
#include "train/train_state.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// RunView is the part of a run that a callback sees. `records` has sinks on rank 0 only.
struct RunView {
  Session& session;
  Engine& engine;
  const Model& model;
  const std::optional<TextShape>& texts;  // that are continued at once
  std::string generation_config;          // of the model; empty: it has none
  // null if all data is dummy data and no callback reads text
  const Tokenizer* tokenizer;
  const TrainState& train_state;
  Recorder& records;
  Log& log;
};

/// CallbackRequests are the requests of a callback. They apply to all ranks, after the next step.
struct CallbackRequests {
  Request requests = Request::none;
  bool stop = false;  // after a save
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual std::string name() const = 0;  // the name in train.callbacks
  /// Returns whether it receives events.
  virtual bool listens() const { return false; }
  /// Called at each event (plugin/lockstep_plugin.h), on each rank. Local.
  virtual CallbackRequests on(lockstep_event, const lockstep_facts&, RunJournal&) { return {}; }
  /// Called after each evaluation and at the end. A failure must occur on all ranks, as an AgreedError: local work that
  /// may fail runs inside together (comm/together.hpp). Collective over the world.
  virtual void after_evaluation(const RunView&) {}
  /// Returns its state in checkpoints.
  virtual std::vector<Component> components() { return {}; }
};

/// Makes the callbacks of train.callbacks, in order, on a rank. Local. Throws Error(input) if a plug-in cannot make
/// one.
std::vector<std::unique_ptr<Callback>> make_callbacks(const TrainConfig& config, Rank rank, int ranks);

/// Callbacks calls the callbacks of a run in order. An exception of a callback, on one rank or on all, becomes a
/// warning and the event "callback_failed". The run and its checkpoints continue as if it had returned.
class Callbacks {
 public:
  /// All arguments must outlive it.
  Callbacks(const std::vector<std::unique_ptr<Callback>>& callbacks, Session& session, RunJournal& journal);

  /// Returns whether any callback receives events.
  bool listen() const;
  /// Passes an event to the callbacks. After a failure it adds Request::report to the requests. Local.
  void tell(lockstep_event event, const lockstep_facts& facts);
  /// Returns the requests since the last call. Local.
  CallbackRequests take_asks() { return std::exchange(asks_, {}); }
  /// Reports failures of events; called if a rank has asked for Request::report. Collective over the world.
  void report(const RunView& view);
  /// Calls after_evaluation of each callback. Collective over the world.
  void after_evaluation(const RunView& view);

 private:
  /// Runs work of `who`; an error on all ranks becomes a warning. Collective over the world, like the work.
  void call(const RunView& view, const std::string& who, const std::function<void()>& work);

  const std::vector<std::unique_ptr<Callback>>& callbacks_;
  Session& session_;
  RunJournal& journal_;
  CallbackRequests asks_;       // of this rank
  std::exception_ptr failure_;  // of this rank since the last report
};

}  // namespace lockstep
