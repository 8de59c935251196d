#include "config/precision_check.hpp"

#include "config/option_rules.hpp"
#include "config/train_choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep {

namespace {

bool has_loss_scale(const TrainConfig& config) { return config.precision.dtype == Precision::fp16; }

bool a_group_rounds_its_state(const TrainConfig& config) {
  return std::ranges::any_of(config.optimizer.groups,
                             [](const auto& group) { return group.second.state_dtype == StateType::bf16; });
}

/// Whether a setting of the loss scale differs from its default although there is no loss scale.
template <auto Member>
bool is_moot(const TrainConfig& config) {
  static const LossScaleOptions plain;
  return !has_loss_scale(config) && config.precision.loss_scale.*Member != plain.*Member;
}

const std::vector<Rule>& precision_rules() {
  static const std::vector<Rule> all{
      {{"optimizer.groups", "precision.dtype"},
       [](const TrainConfig& config) {
         return a_group_rounds_its_state(config) && config.precision.dtype == Precision::fp64;
       },
       "optimizer.state_dtype bf16 would lose the precision of precision.dtype fp64: leave one of them out"},
      {{"optimizer.state_dtype", "precision.dtype"},
       [](const TrainConfig& config) {
         return config.optimizer.state_dtype == StateType::bf16 && !a_group_rounds_its_state(config) &&
                config.precision.dtype == Precision::fp64;
       },
       "optimizer.state_dtype bf16 would lose the precision of precision.dtype fp64: leave one of them out"},
      {{"precision.weights", "precision.dtype"},
       [](const TrainConfig& config) {
         return config.precision.weights == WeightsKept::bf16 && config.precision.dtype != Precision::bf16;
       },
       "precision.weights bf16 needs precision.dtype bf16: without fp32 master weights, computation is in bf16"},
      {{"precision.weights", "post_local_sgd.start_step"},
       [](const TrainConfig& config) {
         return config.precision.weights == WeightsKept::bf16 && config.post_local_sgd.start_step.has_value();
       },
       "averages of bf16 weights would be rounded away: leave precision.weights or post_local_sgd.start_step out"},
      {{"optimizer.kahan", "precision.weights"},
       [](const TrainConfig& config) {
         return config.optimizer.kahan && config.precision.weights != WeightsKept::bf16;
       },
       "optimizer.kahan has no effect: it applies only to precision.weights bf16"},
      {{"precision.output_dtype", "precision.dtype"},
       [](const TrainConfig& config) {
         return config.precision.output_dtype == Precision::fp64 && config.precision.dtype != Precision::fp64;
       },
       "precision.output_dtype fp64 would add nothing without precision.dtype fp64: blocks compute in fp32"},
      {{"precision.output_dtype", "precision.dtype"},
       [](const TrainConfig& config) {
         return config.precision.output_dtype == Precision::fp16 && !has_loss_scale(config);
       },
       "precision.output_dtype fp16 needs the loss scale of precision.dtype fp16, or small gradients vanish: use bf16, "
       "which needs none"},
      {{"precision.reduce_dtype", "precision.dtype"},
       [](const TrainConfig& config) {
         return config.precision.reduce_dtype == Precision::fp16 && !has_loss_scale(config);
       },
       "precision.reduce_dtype fp16 needs the loss scale of precision.dtype fp16, or small gradients vanish: use bf16, "
       "which needs none"},
      {{"precision.init_scale", "precision.dtype"},
       is_moot<&LossScaleOptions::init_scale>,
       "precision.init_scale has no effect: only precision.dtype fp16 has a loss scale"},
      {{"precision.growth_factor", "precision.dtype"},
       is_moot<&LossScaleOptions::growth_factor>,
       "precision.growth_factor has no effect: only precision.dtype fp16 has a loss scale"},
      {{"precision.backoff_factor", "precision.dtype"},
       is_moot<&LossScaleOptions::backoff_factor>,
       "precision.backoff_factor has no effect: only precision.dtype fp16 has a loss scale"},
      {{"precision.growth_interval", "precision.dtype"},
       is_moot<&LossScaleOptions::growth_interval>,
       "precision.growth_interval has no effect: only precision.dtype fp16 has a loss scale"},
      {{"precision.min_scale", "precision.dtype"},
       is_moot<&LossScaleOptions::min_scale>,
       "precision.min_scale has no effect: only precision.dtype fp16 has a loss scale"},
      {{"precision.backoff_factor"},
       [](const TrainConfig& config) {
         return has_loss_scale(config) && config.precision.loss_scale.backoff_factor == 1;
       },
       "with a factor of 1 the loss scale never falls and gradients overflow again: precision.backoff_factor must be "
       "below 1"},
      {{"optimizer.in_backward", "precision.dtype"},
       [](const TrainConfig& config) { return has_loss_scale(config) && config.optimizer.in_backward; },
       "optimizer.in_backward updates weights before gradients can be checked for overflow, which precision.dtype fp16 "
       "needs: use bf16, or leave optimizer.in_backward out"},
  };
  return all;
}

}  // namespace

void check_precision(const TrainConfig& config, Problems& problems) {
  check_rules(precision_rules(), config, problems);
  const LossScaleOptions& scale = config.precision.loss_scale;
  if (has_loss_scale(config) && scale.init_scale < scale.min_scale)
    problems.add(
        {"precision.init_scale", "precision.min_scale"},
        fmt::format("precision.init_scale {} is below precision.min_scale {}", scale.init_scale, scale.min_scale));
}

}  // namespace lockstep
