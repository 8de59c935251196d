// What the update of the weights is told: the section optimizer of a TrainConfig.
#pragma once

#include "config/values.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

enum class OptimizerName { adamw, sgd, lion, muon };  // muon: hidden matrices, and adamw what is none
enum class StateType { weights, bf16 };               // in which state beside weights is kept
enum class MuonAdjust { original, match_rms_adamw };
enum class Decay { matrices, all };  // matrices: tensors with at least two dimensions

struct OptimizerGroup {
  NamePattern match;
  double lr_scale = 1;
  std::optional<double> weight_decay;      // absent: as optimizer.weight_decay and its exclusions say
  std::optional<OptimizerName> name = {};  // absent: as without the group
};

struct OptimizerOptions {
  OptimizerName name = OptimizerName::adamw;
  double lr = 3e-4;
  std::array<double, 2> betas{0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0;    // of sgd
  bool nesterov = false;  // of sgd
  StateType state_dtype = StateType::weights;
  std::optional<double> muon_lr;  // peak; absent: lr
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  std::int64_t muon_steps = 5;  // of the iteration of Newton and Schulz
  MuonAdjust muon_adjust = MuonAdjust::original;
  double weight_decay = 0.1;
  Decay decay = Decay::matrices;
  std::vector<NamePattern> decay_exclude;
  std::vector<NamePattern> frozen;     // tensors that are not trained
  std::optional<double> clip_norm;     // global gradient norm; absent: no clipping
  bool in_backward = false;            // each unit is updated as soon as its gradient is complete
  std::vector<OptimizerGroup> groups;  // ordered: the first whose pattern matches
};

}  // namespace lockstep
