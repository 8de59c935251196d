// Options of the optimizer: the section optimizer of a TrainConfig.
#pragma once

#include "config/values.hpp"
#include "options/option.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

// muon updates hidden matrices with muon, and other tensors with adamw. Optimizers of plug-ins have the numbers after
// these: plugin_index of plugin/plugins.hpp.
enum class OptimizerName { adamw, sgd, lion, muon, adafactor };
enum class StateType { weights, bf16 };  // element type of optimizer state
enum class MuonAdjust { original, match_rms_adamw };
enum class Decay { matrices, all };  // matrices: tensors with at least two dimensions

enum class Unmatched { refuse, warn };  // for a pattern that matches no tensor

/// The update rule without learning rate and weight decay.
struct UpdateRule {
  OptimizerName name = OptimizerName::adamw;
  std::array<double, 2> betas{0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0;    // of sgd
  bool nesterov = false;  // of sgd
  StateType state_dtype = StateType::weights;
  bool kahan = false;  // for bf16 weights alone: Kahan summation keeps rounding errors
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  std::int64_t muon_steps = 5;  // Newton-Schulz iterations
  MuonAdjust muon_adjust = MuonAdjust::original;
  double adafactor_decay = -0.8;                     // decay rate of the second moment: 1 - t^decay
  std::array<double, 2> adafactor_eps{1e-30, 1e-3};  // added to squared gradients; least root mean square of weights
  double adafactor_clip = 1;                         // threshold for the root mean square of an update
  bool adafactor_scale = false;                      // scale the learning rate by the root mean square of weights
  bool adafactor_relative_step = false;              // learning rate at most 1/√t
  double adafactor_momentum = 0;
  bool factored = false;  // of adafactor: second moments by rows and columns, except for vectors; no option
  bool operator==(const UpdateRule&) const = default;
};

/// A parameter group: tensors with their own update settings. A field that is not set has its value without the group.
struct OptimizerGroup {
  NamePattern match;
  std::optional<OptimizerName> name = {};
  std::optional<double> lr = {};  // peak
  double lr_scale = 1;            // factor of the peak without the group
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

/// Returns `rule` with the changes of a group. Pure.
UpdateRule changed(UpdateRule rule, const OptimizerGroup& group);

struct OptimizerOptions : UpdateRule {
  double lr = 3e-4;
  std::optional<double> muon_lr;  // peak; default: lr
  double weight_decay = 0.1;
  Decay decay = Decay::matrices;
  std::vector<NamePattern> decay_exclude;
  std::vector<NamePattern> frozen;  // tensors that are not trained
  Unmatched unmatched = Unmatched::refuse;
  std::optional<double> clip_norm;  // maximum global gradient norm; default: no clipping
  bool in_backward = false;         // each unit is updated as soon as its gradient is complete
  Named<OptimizerGroup> groups;     // in order: the first group that matches counts
};

}  // namespace lockstep
