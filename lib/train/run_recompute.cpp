#include "train/run_recompute.hpp"

#include "base/checked_cast.hpp"
#include "base/error.hpp"
#include "plugin/plugins.hpp"
#include "program/activation_budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

KeepSet keep_set_of(const std::vector<RecomputeKeep>& asked, const ModelConfig& model) {
  KeepSet keeps;
  for (const RecomputeKeep keep : asked) {
    switch (keep) {
      case RecomputeKeep::attention: keeps.add(Keep::attention); break;
      case RecomputeKeep::projections: keeps.add(Keep::projections); break;
      case RecomputeKeep::mlp:
        keeps.add(Keep::mlp);
        if (model.experts.count > 0) keeps.add(Keep::experts);
        break;
      case RecomputeKeep::matmul:
        keeps.add(Keep::projections);
        keeps.add(Keep::mlp);
        break;
      case RecomputeKeep::experts:
        if (model.experts.count == 0)
          throw Error(ExitCode::usage, fmt::format("train.recompute_keeps experts has no effect: a {} model has none",
                                                   name_of(model.family)));
        keeps.add(Keep::experts);
        break;
    }
  }
  return keeps;
}

/// Returns the choice of a plug-in for each block.
RecomputePolicy policy_of_plugin(const std::string& name, const ModelConfig& config, const ModelPlan& model) {
  const auto& recomputes = Plugins::opened().recomputes();
  const auto entry =
      std::ranges::find_if(recomputes, [&](const auto& one) { return std::string_view(one.table->name) == name; });
  const std::vector<BlockPlan>& blocks = model.blocks;
  RecomputePolicy policy;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    policy.blocks.emplace_back();
    if (!blocks[i].recomputable) continue;
    const lockstep_block block{.name = blocks[i].name.c_str(),
                               .index = static_cast<int>(i),
                               .blocks = static_cast<int>(blocks.size()),
                               .stash_bytes = blocks[i].stash_bytes,
                               .forward_flops = blocks[i].forward_flops};
    const int said = entry->table->keeps(entry->plugin->values(), &block);
    if (said < 0) continue;
    std::vector<RecomputeKeep> keeps;
    int known = 0;
    for (const auto& [bit, keep] : {std::pair{LOCKSTEP_ATTENTION, RecomputeKeep::attention},
                                    {LOCKSTEP_PROJECTIONS, RecomputeKeep::projections},
                                    {LOCKSTEP_MLP, RecomputeKeep::mlp},
                                    {LOCKSTEP_EXPERTS, RecomputeKeep::experts}}) {
      known |= bit;
      if ((said & bit) != 0) keeps.push_back(keep);
    }
    if ((said & ~known) != 0)
      fail(ExitCode::usage, "the recomputation {} of {} returns {} for block {}, which is not a valid choice", name,
           entry->plugin->file(), said, block.name);
    policy.blocks.back() = keep_set_of(keeps, config);
  }
  return policy;
}

}  // namespace

RecomputePolicy recompute_policy(const TrainOptions& train, const ModelConfig& config, const Mesh& mesh,
                                 const ModelPlan& model, const ProgramOptions& options) {
  if (const auto& budget = train.activation_memory_budget)
    return fit_activations(
        mesh, model, options,
        {.bytes = checked_cast<std::int64_t>(budget->size.bytes, "train.activation_memory_budget", ExitCode::usage),
         .share = budget->share});
  if (!train.recompute.plugin.empty()) return policy_of_plugin(train.recompute.plugin, config, model);
  return {.every = checked_cast<int>(train.recompute.every, "train.recompute", ExitCode::usage),
          .keeps = keep_set_of(train.recompute_keeps, config)};
}

}  // namespace lockstep
