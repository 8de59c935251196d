// The objects that the training loop, its evaluations and its saves use.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "data/shard_verifier.hpp"
#include "engine/engine.hpp"
#include "model/model.hpp"
#include "store/component.hpp"
#include "tokenizer/tokenizer.hpp"
#include "train/callbacks.hpp"
#include "train/cell_state.hpp"
#include "train/run_files.hpp"
#include "train/train_plan.hpp"
#include "train/train_state.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// LoopParts is everything that the loop uses; all of it must outlive the loop.
struct LoopParts {
  TrainConfig& config;  // the control file may change its cadences
  const TrainPlan& plan;
  const World& world;
  Session& session;
  Output& output;
  RunFiles& files;
  Engine& engine;
  const Model& model;
  const Tokenizer* tokenizer;  // null if all data is dummy data
  const std::vector<Component>& components;
  CellState& cells;
  const std::vector<std::pair<std::string, std::string>>& documents;  // name and text, saved with each checkpoint
  TrainState& train_state;
  ShardVerifier& verifier;
  const std::vector<std::unique_ptr<Callback>>& callbacks;
  double began_s;  // monotonic_seconds() at the beginning of this start
};

}  // namespace lockstep
