// What is chosen for a budget of activations, against every other choice.
#include "program/activation_budget.hpp"

#include "base/error.hpp"
#include "program/catalogue.hpp"
#include "program/memory_estimate.hpp"
#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(activation_budget)

using namespace lockstep;

namespace {

using Choices = std::vector<std::optional<KeepSet>>;

struct Outcome {
  std::int64_t peak = 0;
  double flops = 0;
};

Outcome outcome_of(const models::Case& made, const Choices& choices) {
  ProgramOptions options = made.options;
  options.recompute.blocks = choices;
  const StepProgram program = make_catalogue(made.mesh, made.plan, options).train;
  Outcome outcome;
  for (const RankClass& ranks : program.classes)
    outcome.peak = std::max(outcome.peak, activations_of(ranks).peak_bytes);
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (choices[i]) outcome.flops += recomputation_of(made.plan.blocks[i], *choices[i]).flops;
  return outcome;
}

/// All of a model whose blocks may keep what is in `sets`.
std::vector<Choices> all_choices(const ModelPlan& plan, const std::vector<KeepSet>& sets) {
  std::vector<Choices> all(1);
  for (const BlockPlan& block : plan.blocks) {
    std::vector<Choices> longer;
    for (const Choices& choices : all) {
      longer.push_back(choices);
      longer.back().emplace_back(std::nullopt);
      for (const KeepSet keeps : sets) {
        if (!block.recomputable) break;
        longer.push_back(choices);
        longer.back().emplace_back(keeps);
      }
    }
    all = std::move(longer);
  }
  return all;
}

void check_against_all(models::Case made, std::mt19937& engine) {
  const auto roll = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); };
  made.options.offload = {};
  made.options.local = {};
  made.options.training_step = TrainingStep::summing;
  made.options.eval_micro_batches = 0;
  int may = 0;
  for (BlockPlan& block : made.plan.blocks) may += block.recomputable && (block.recomputable = may < 4);
  const std::vector<KeepSet> sets = may < 4 ? std::vector<KeepSet>{{},
                                                                   {Keep::attention},
                                                                   {Keep::projections, Keep::mlp},
                                                                   {Keep::attention, Keep::projections, Keep::mlp}}
                                            : std::vector<KeepSet>{{}, {Keep::attention}};
  for (BlockPlan& block : made.plan.blocks) {
    const std::int64_t attention = roll(1, 20), matmul = may < 4 ? roll(1, 20) : 0;
    const double attention_flops = roll(0, 3), matmul_flops = may < 4 ? roll(0, 3) : 0;
    block.stash_bytes = attention + matmul + roll(0, 20);
    block.recomputations.clear();
    for (std::size_t index = 0; index < KeepSet::count; ++index) {
      const bool first = KeepSet::at(index).has(Keep::attention), second = KeepSet::at(index).has(Keep::mlp);
      const bool third = KeepSet::at(index).has(Keep::experts);
      block.recomputations.push_back({.kept_bytes = (first ? attention : 0) + (second ? matmul : 0),
                                      .workspace_bytes = (first ? 1 : 0) + (second ? 2 : 0) + (third ? 4 : 0),
                                      .flops = 1 + (first ? 0 : attention_flops) + (second ? 0 : matmul_flops)});
    }
  }
  std::vector<Outcome> outcomes;
  std::set<std::int64_t> budgets;
  for (const Choices& choices : all_choices(made.plan, sets)) {
    outcomes.push_back(outcome_of(made, choices));
    budgets.insert({outcomes.back().peak, outcomes.back().peak - 1});
  }
  for (const std::int64_t budget : budgets) {
    std::optional<double> least;
    for (const Outcome& outcome : outcomes)
      if (outcome.peak <= budget) least = std::min(least.value_or(outcome.flops), outcome.flops);
    if (!least) {
      BOOST_CHECK_EXCEPTION(
          fit_activations(made.mesh, made.plan, made.options, {.bytes = budget}), Error, [](const Error& error) {
            return error.code() == ExitCode::usage &&
                   std::string(error.what()).find(" is too small: even with full recompute") != std::string::npos;
          });
      continue;
    }
    const Outcome chosen =
        outcome_of(made, fit_activations(made.mesh, made.plan, made.options, {.bytes = budget}).blocks);
    BOOST_TEST(chosen.peak <= budget);
    BOOST_TEST(chosen.flops == *least, budget << " bytes: " << chosen.flops << " against " << *least);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_other_choice_that_fits_computes_less_again) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 engine(seed);
    check_against_all(models::random_case(engine), engine);
  }
}

BOOST_AUTO_TEST_CASE(nor_on_any_rank_of_a_pipeline) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 engine(100 + seed);
    check_against_all(models::random_pipeline(engine), engine);
  }
}

BOOST_AUTO_TEST_CASE(a_model_of_many_layers_keeps_as_much_as_the_budget_has_room_for) {
  std::vector<BlockPlan> blocks;
  std::vector<ParameterPlan> parameters;
  constexpr std::int64_t unit = 1 << 20;
  for (int i = 0; i < 128; ++i) {
    blocks.push_back({"layer." + std::to_string(i), 100 * unit, i == 127 ? 0 : unit, unit, 10, 20, true});
    for (std::size_t index = 0; index < KeepSet::count; ++index) {
      const KeepSet keeps = KeepSet::at(index);
      const bool attention = keeps.has(Keep::attention), matmul = keeps.has(Keep::mlp);
      blocks.back().recomputations.push_back({.kept_bytes = (attention ? 10 : 0) * unit + (matmul ? 60 : 0) * unit,
                                              .workspace_bytes = unit,
                                              .flops = 9. - (attention ? 2 : 0) - (matmul ? 6 : 0)});
    }
    parameters.push_back({"w" + std::to_string(i), {8}, {i}});
  }
  models::Case made{
      .mesh = make_mesh("world", {{"dp_replicate", 2}}), .plan = models::plan_of(blocks, parameters), .options = {}};
  double before = 1e9;
  for (const std::int64_t budget : {1000, 3000, 6000, 9000, 12000}) {
    const RecomputePolicy policy = fit_activations(made.mesh, made.plan, made.options, {.bytes = budget * unit});
    const Outcome chosen = outcome_of(made, policy.blocks);
    BOOST_TEST(chosen.peak <= budget * unit);
    BOOST_TEST(chosen.peak > (budget - 100) * unit);  // less than a layer is left over
    BOOST_TEST(chosen.flops < before);
    before = chosen.flops;
  }
  const auto of_share = [&](double share) {
    return outcome_of(made, fit_activations(made.mesh, made.plan, made.options, {.share = share}).blocks);
  };
  const Outcome none = outcome_of(made, Choices(made.plan.blocks.size())), least = of_share(0);
  BOOST_TEST(of_share(1).peak == none.peak);
  for (const double share : {0.2, 0.5, 0.9}) {
    const double at_most = static_cast<double>(least.peak) + share * static_cast<double>(none.peak - least.peak);
    const Outcome chosen = of_share(share);
    BOOST_TEST(static_cast<double>(chosen.peak) <= at_most);
    BOOST_TEST(static_cast<double>(chosen.peak) > at_most - static_cast<double>(100 * unit));
    BOOST_TEST((chosen.flops < least.flops && chosen.flops > 0));
  }
  for (BlockPlan& block : made.plan.blocks)
    for (Recomputation& one : block.recomputations) one.flops = 0;  // norms and activations are not for nothing
  const RecomputePolicy roomy = fit_activations(made.mesh, made.plan, made.options, {.bytes = 20000 * unit});
  BOOST_TEST(std::ranges::none_of(roomy.blocks, &std::optional<KeepSet>::has_value));
}

BOOST_AUTO_TEST_SUITE_END()
