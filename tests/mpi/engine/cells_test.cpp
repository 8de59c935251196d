// Cells of ranks that train apart (post-local SGD): averaged after each step they are data parallelism, and whatever
// the ranks of a cell share, they train as replicas do. That these train as a plain script does:
// e2e/local_sgd_parity_test.
#include "base/hash.hpp"
#include "composition_job.hpp"
#include "harness/share.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/sub.h>
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(cells)

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// Ways to have cells of this world's ranks.
std::vector<Composition> in_cells(std::int64_t start_step, std::int64_t period) {
  const int ranks = test::world().size();
  std::vector<Composition> ways{{.replicas = ranks, .micro_batch = global_batch},
                                {.replicas = ranks, .accumulate = Accumulate::sums, .micro_batch = 1},
                                {.replicas = ranks, .micro_batch = 1, .family = "llama in parts"}};
  if (ranks == 4) {
    for (int zero = 1; zero <= 3; ++zero)
      ways.push_back({.replicas = 2,
                      .shards = 2,
                      .zero = zero,
                      .accumulate = zero == 3 ? Accumulate::shards : Accumulate::sums,
                      .micro_batch = 1});
    ways.push_back({.replicas = 2, .accumulate = Accumulate::sums, .micro_batch = 1, .node = 2});
    for (const PipelineSchedule schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::zbv})
      ways.push_back({.replicas = 2,
                      .family = "deep gpt2",  // tied: one unit on both stages
                      .stages = 2,
                      .schedule = schedule,
                      .chunks = schedule == PipelineSchedule::zbv ? 2 : 1});
    for (const bool sequence : {false, true})
      ways.push_back({.replicas = 2, .family = "tied llama", .tensor = 2, .sequence = sequence});
    ways.push_back({.replicas = 2, .family = "shared llama in documents", .ulysses = 2});
    ways.push_back({.replicas = 2, .family = "windowed llama in documents", .ring = 2});
    ways.push_back({.replicas = 2, .shards = 2, .family = "balanced mixtral"});
    ways.push_back({.replicas = 2, .family = "balanced mixtral", .ulysses = 2});
  }
  ways.push_back({.replicas = ranks, .micro_batch = 1, .family = "balanced qwen3_moe"});
  for (Composition& way : ways) way.local = {{"dp_replicate"}, start_step, period};
  return ways;
}

/// Two cells whose ranks share blocks, rows or weights, on as many ranks as there are.
std::vector<Composition> cells_of_sharers() {
  std::vector<Composition> all;
  for (const int ranks : {2, 4}) {
    all.push_back({.replicas = 2, .family = "shared llama", .tensor = ranks});
    all.push_back({.replicas = 2,
                   .recompute = RecomputePolicy::block,
                   .family = "shared gpt2 with dropout",
                   .tensor = ranks,
                   .sequence = true});
    all.push_back(
        {.replicas = 2, .accumulate = Accumulate::sums, .family = "shared llama in documents", .ulysses = ranks});
    all.push_back({.replicas = 2, .family = "windowed llama in documents", .ring = ranks});
    all.push_back({.replicas = 2, .micro_batch = 3, .family = "balanced mixtral", .ulysses = ranks});
    all.push_back(
        {.replicas = 2, .recompute = RecomputePolicy::block, .family = "balanced mixtral in documents", .ring = ranks});
  }
  all.push_back({.replicas = 2, .family = "grouped llama", .tensor = 4});  // some have the same key heads
  for (int zero = 1; zero <= 3; ++zero)
    all.push_back({.replicas = 2,
                   .shards = 2,
                   .zero = zero,
                   .accumulate = zero == 1 ? Accumulate::whole : Accumulate::shards,
                   .family = zero == 2 ? "balanced qwen3_moe" : "balanced mixtral"});
  for (const bool apart : {false, true}) {
    all.push_back({.replicas = 2, .family = "four experts", .node = 2, .experts = 2, .apart = apart});
    all.push_back({.replicas = 2, .family = "four experts", .node = 4, .experts = 2, .apart = apart});
    all.push_back({.replicas = 2, .shards = 4, .family = "four experts", .experts = 2, .apart = apart});
    all.push_back({.replicas = 2,
                   .shards = 2,
                   .family = "four experts",
                   .ulysses = 2,
                   .folds = true,
                   .experts = 4,
                   .apart = apart});
  }
  all.push_back({.replicas = 2, .shards = 2, .family = "deep qwen3_moe", .stages = 2, .experts = 2});
  all.push_back({.replicas = 2, .family = "balanced qwen3_moe", .stages = 2});
  all.push_back({.replicas = 2, .family = "shared llama", .node = 2, .tensor = 2});
  all.push_back({.replicas = 2, .family = "tied llama", .stages = 2, .tensor = 2});
  all.push_back({.replicas = 2, .shards = 2, .family = "balanced mixtral", .ulysses = 2});
  all.push_back({.replicas = 2, .family = "shared llama in documents", .tensor = 2, .sequence = true, .ulysses = 2});
  all.push_back({.replicas = 2, .family = "shared llama in documents", .ulysses = 2, .ring = 2});
  all.push_back({.replicas = 2, .shards = 2, .family = "windowed llama in documents", .ring = 2, .folds = true});
  std::erase_if(all, [](const Composition& how) { return how.ranks() != test::world().size(); });
  for (Composition& how : all) how.local = {{"dp_replicate"}, 1, 3};
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(cells_of_plain_sgd_that_are_averaged_after_each_step_are_data_parallelism) {
  if (test::world().size() == 1) return;
  Share share(3);
  for (Composition how : in_cells(0, 1)) {
    if (!share.takes()) continue;
    how.optimizer = OptimizerName::sgd;
    Composition plain = how;
    plain.local = {};
    for (const bool in_backward : {false, true}) {
      const NotedMargins noted;
      how.in_backward = in_backward;
      Job want(all_ranks(), plain, Precision::fp64, std::nullopt), got(all_ranks(), how, Precision::fp64, std::nullopt);
      for (std::int64_t step = 0; step < 3; ++step) {
        const double loss = want.step(step).loss;
        BOOST_TEST(std::abs(got.step(step).loss - loss) <= 1e-12 * loss, how.text());
        const auto fault = got.trace_fault(step);
        BOOST_TEST(!fault.has_value(), how.text() << ": " << fault.value_or(""));
      }
      for (const LogicalTensor& tensor : want.tensors()) {
        const at::Tensor expected = want.whole_weight(tensor);
        const double error = norm_of(at::sub(got.whole_weight(tensor), expected));
        BOOST_TEST(error <= 1e-12 * norm_of(expected), how.text() << ": " << tensor.name << " differs by " << error);
      }
      BOOST_TEST(least_routing_margin() >= least_margin, how.text());
    }
  }
}

BOOST_AUTO_TEST_CASE(cells_part_from_each_other_until_they_are_averaged) {
  if (test::world().size() == 1) return;
  Share share(3);
  for (const Composition& how : in_cells(1, 3)) {
    if (!share.takes()) continue;
    for (const Precision precision : {Precision::fp64, Precision::bf16}) {
      Job job(all_ranks(), how, precision, 0.1);
      for (std::int64_t step = 0; step < 6; ++step) {
        BOOST_TEST(std::isfinite(job.step(step).gradient_norm));
        const auto fault = job.trace_fault(step);
        BOOST_TEST(!fault.has_value(), how.text() << ", step " << step << ": " << fault.value_or(""));
        std::map<std::string, std::set<std::string>> seen;  // by what ranks differ in besides their cell: weights
        std::string mine = job.place_in_cell() + ":";
        for (const auto& unit : job.model().units()) {
          BOOST_TEST((precision != Precision::bf16 || at::equal(unit->compute(), unit->master().to(at::kBFloat16))));
          const at::Tensor weights = unit->master().cpu();
          mine += to_hex(hash128(std::as_bytes(bytes_of(weights)))) + " ";
        }
        for (const std::string& told : test::world().all_gather(mine))
          seen[told.substr(0, told.find(':'))].insert(told);
        for (const auto& [place, weights] : seen)
          BOOST_TEST((weights.size() > 1) == (step == 2 || step == 3 || step == 5), how.text() << ", step " << step);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(cells_whose_ranks_share_something_train_as_cells_of_replicas) {
  Share share(3);
  for (const Composition& how : cells_of_sharers()) {
    if (!share.takes()) continue;
    const NotedMargins noted;
    Composition plain{.replicas = 2, .family = how.family, .node = test::world().size() / 2};
    plain.local = how.local;
    Job replicas(all_ranks(), plain, Precision::fp64, 0.1), sharers(all_ranks(), how, Precision::fp64, 0.1);
    for (std::int64_t step = 0; step < 5; ++step) {  // the last of which averages
      const double bound = step == 0 ? 1e-12 : 1e-9;
      const StepOutcome want = replicas.step(step), got = sharers.step(step);
      BOOST_TEST(std::abs(got.loss - want.loss) <= bound * want.loss,
                 how.text() << ", step " << step << ": loss " << got.loss << " against " << want.loss);
      BOOST_TEST(
          std::abs(got.gradient_norm - want.gradient_norm) <= bound * want.gradient_norm,
          how.text() << ", step " << step << ": norm " << got.gradient_norm << " against " << want.gradient_norm);
      BOOST_TEST(std::abs(got.aux_loss.value_or(0) - want.aux_loss.value_or(0)) <= bound * want.aux_loss.value_or(0),
                 how.text() << ", step " << step << ": loss of routers");
      BOOST_TEST((got.expert_loads == want.expert_loads), how.text() << ", step " << step);
      const auto fault = sharers.trace_fault(step);
      BOOST_TEST(!fault.has_value(), how.text() << ", step " << step << ": " << fault.value_or(""));
    }
    std::map<std::string, at::Tensor> weights;
    for (const LogicalTensor& tensor : replicas.tensors()) weights[tensor.name] = replicas.whole_weight(tensor);
    for (const LogicalTensor& tensor : sharers.tensors()) {
      const at::Tensor& want = weights.at(tensor.name);
      const double error = norm_of(at::sub(sharers.whole_weight(tensor), want));
      BOOST_TEST(error <= 1e-9 * norm_of(want), how.text() << ": " << tensor.name << " differs by " << error);
    }
    BOOST_TEST(least_routing_margin() >= least_margin, how.text());
  }
}

BOOST_AUTO_TEST_SUITE_END()
