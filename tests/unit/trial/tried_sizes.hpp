// Sizes of two models for tests of trials, and the trials that a model needs.
#pragma once

#include "trial/trials.hpp"

#include <functional>
#include <set>
#include <string_view>
#include <type_traits>

namespace lockstep::test {

/// Learned positions, biases, dropout, and products with transposed weights.
inline trial::TrialSizes dense_sizes() {
  trial::TrialSizes sizes{
      .rows = 64, .loss_rows = 64, .columns = 320, .document = 64, .smoothing = 0.1, .elements = 5000};
  sizes.model = {
      .vocabulary = 300, .channels = 64, .layers = 2, .heads = 4, .kv_heads = 4, .head_size = 16, .feed_forward = 128};
  sizes.model.dropout = {.embedding = 0.1, .attention = 0.1, .residual = 0.1};
  return sizes;
}

/// Rotary positions, grouped heads, windows, experts beside a shared one, and all products without biases.
inline trial::TrialSizes expert_sizes() {
  trial::TrialSizes sizes = dense_sizes();
  ModelConfig& model = sizes.model;
  model.family = Family::qwen2_moe;
  model.kv_heads = 2;
  model.norm = Norm::rms_norm;
  model.activation = Activation::silu;
  model.gated_mlp = true;
  model.positions = Positions::rotary;
  model.windows = {0, 24};
  model.query_key_norm = true;
  model.qkv_bias = model.output_bias = model.mlp_bias = false;
  model.dropout = {};
  model.experts = {.count = 8,
                   .per_token = 2,
                   .feed_forward = 48,
                   .shared_feed_forward = 56,
                   .layers = {false, true},
                   .aux_coefficient = 0.01};
  return sizes;
}

/// Calls work(trial, sizes) for each case in small sizes of the trials for T that a model needs.
template <class T>
void for_each_small_case(const trial::TrialSizes& whole,
                         const std::function<void(const trial::Trial& one, const trial::TrialSizes& sizes)>& work) {
  static const std::set<std::string_view> of_experts{
      "route",        "route_backward",   "count_choices",        "sum_by_sample",
      "aux_loss",     "group_by_expert",  "dispatch_rows",        "dispatch_backward",
      "combine_rows", "combine_backward", "grouped_gemm_rounded", "grouped_weight_gemm"};
  const trial::TrialSizes small = small_sizes(whole);
  for (const trial::Trial& one : trial::all_trials()) {
    if (std::is_same_v<T, double> && one.kernel.ends_with("_short_state")) continue;  // not for fp64
    if (small.model.experts.count == 0 && of_experts.contains(one.kernel)) continue;
    for (const trial::TrialSizes& sizes : one.cases(small, trial::number_of<T>)) work(one, sizes);
  }
}

}  // namespace lockstep::test
