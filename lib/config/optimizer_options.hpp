// What the update of the weights is told: the section optimizer of a TrainConfig.
#pragma once

#include "config/option.hpp"
#include "config/values.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

// muon: hidden matrices, and adamw what is none. Those of plug-ins stand behind these: plugin_index of
// plugin/plugins.hpp.
enum class OptimizerName { adamw, sgd, lion, muon, adafactor };
enum class StateType { weights, bf16 };  // in which state beside weights is kept
enum class MuonAdjust { original, match_rms_adamw };
enum class Decay { matrices, all };  // matrices: tensors with at least two dimensions

enum class Unmatched { refuse, warn };  // a pattern that no tensor matches

/// How weights follow gradients, but for the learning rate and weight decay.
struct UpdateRule {
  OptimizerName name = OptimizerName::adamw;
  std::array<double, 2> betas{0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0;    // of sgd
  bool nesterov = false;  // of sgd
  StateType state_dtype = StateType::weights;
  bool kahan = false;  // of weights in bf16 alone: what rounding takes from them is kept
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  std::int64_t muon_steps = 5;  // of the iteration of Newton and Schulz
  MuonAdjust muon_adjust = MuonAdjust::original;
  double adafactor_decay = -0.8;                     // the second moment's decay rate is 1 - t^decay
  std::array<double, 2> adafactor_eps{1e-30, 1e-3};  // of squares of gradients; the least norm of weights
  double adafactor_clip = 1;                         // of the root of the mean square of a step
  bool adafactor_scale = false;                      // steps are relative to weights
  bool adafactor_relative_step = false;              // rates are 1/√t at most
  double adafactor_momentum = 0;
  bool factored = false;  // of adafactor: by rows and columns, which what is no vector is; no option
  bool operator==(const UpdateRule&) const = default;
};

/// Tensors that are updated in a way of their own; what is absent is as without the group.
struct OptimizerGroup {
  NamePattern match;
  std::optional<OptimizerName> name = {};
  std::optional<double> lr = {};  // peak
  double lr_scale = 1;            // × what the peak is without the group
  std::optional<double> weight_decay = {};
  std::optional<std::array<double, 2>> betas = {};
  std::optional<double> eps = {};
  std::optional<double> momentum = {};
  std::optional<bool> nesterov = {};
  std::optional<StateType> state_dtype = {};
  std::optional<double> muon_momentum = {};
  std::optional<bool> muon_nesterov = {};
  std::optional<std::int64_t> muon_steps = {};
  std::optional<MuonAdjust> muon_adjust = {};
  std::optional<double> adafactor_decay = {};
  std::optional<std::array<double, 2>> adafactor_eps = {};
  std::optional<double> adafactor_clip = {};
  std::optional<bool> adafactor_scale = {};
  std::optional<bool> adafactor_relative_step = {};
  std::optional<double> adafactor_momentum = {};
};

/// `rule` as a group changes it. Pure.
UpdateRule changed(UpdateRule rule, const OptimizerGroup& group);

struct OptimizerOptions : UpdateRule {
  double lr = 3e-4;
  std::optional<double> muon_lr;  // peak; absent: lr
  double weight_decay = 0.1;
  Decay decay = Decay::matrices;
  std::vector<NamePattern> decay_exclude;
  std::vector<NamePattern> frozen;  // tensors that are not trained
  Unmatched unmatched = Unmatched::refuse;
  std::optional<double> clip_norm;  // global gradient norm; absent: no clipping
  bool in_backward = false;         // each unit is updated as soon as its gradient is complete
  Named<OptimizerGroup> groups;     // ordered: the first whose pattern matches
};

}  // namespace lockstep
