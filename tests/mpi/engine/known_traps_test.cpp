// Mistakes that are known of other trainers, each by its name: what the rest of the tests would show among much else.
#include "composition_job.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/sub.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

BOOST_AUTO_TEST_SUITE(known_traps)

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// Of those that this many ranks have: loss, norm and each gradient of a step, and the loss of the next one.
void check_equal_one_rank(const std::vector<Composition>& ways) {
  for (const Composition& how : ways) {
    if (how.ranks() != test::world().size()) continue;
    const Reference& want = reference_of(how.family);
    Job job(all_ranks(), how, Precision::fp64, 0.5);
    const StepOutcome got = job.step(0);
    BOOST_TEST(std::abs(got.loss - want.steps[0].loss) <= 1e-12 * got.loss, how.text());
    BOOST_TEST(std::abs(got.gradient_norm - want.steps[0].gradient_norm) <= 1e-12 * got.gradient_norm, how.text());
    for (const LogicalTensor& tensor : job.tensors()) {
      const at::Tensor expected = want.gradients.at(tensor.name);
      BOOST_TEST(norm_of(at::sub(job.whole_gradient(tensor), expected)) <=
                     1e-12 * std::max(norm_of(expected), 1e-3 * want.all_norm),
                 how.text() << ": " << tensor.name);
    }
    BOOST_TEST(std::abs(job.step(1).loss - want.steps[1].loss) <= 1e-9 * want.steps[1].loss, how.text());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(tied_weights_counted_twice_in_a_split_backward) {
  for (const PipelineSchedule schedule : {PipelineSchedule::interleaved_zero_bubble, PipelineSchedule::zbv}) {
    for (const int stages : {2, 3, 4})
      check_equal_one_rank({{.family = "deep gpt2", .stages = stages, .schedule = schedule, .chunks = 2},
                            {.shards = 2, .family = "deep gpt2", .stages = stages, .schedule = schedule, .chunks = 2}});
    for (const int stages : {2, 3})
      check_equal_one_rank(
          {{.family = "tied llama", .stages = stages, .schedule = schedule, .chunks = 2, .tensor = 2}});
  }
}

BOOST_AUTO_TEST_CASE(gradients_read_before_the_reduction_under_a_pipeline_of_shards) {
  for (const int zero : {2, 3})
    for (const Accumulate accumulate : {Accumulate::whole, Accumulate::shards})
      check_equal_one_rank({{.shards = 2,
                             .zero = zero,
                             .accumulate = accumulate,
                             .micro_batch = 1,
                             .family = "deep llama",
                             .stages = 2,
                             .schedule = PipelineSchedule::interleaved_zero_bubble,
                             .chunks = 2}});
}

BOOST_AUTO_TEST_CASE(a_displayed_loss_under_shared_blocks_and_rows) {
  for (const bool sequence : {false, true})
    check_equal_one_rank({{.family = "shared llama in documents", .tensor = 2, .sequence = sequence, .ulysses = 2},
                          {.family = "shared llama in documents", .tensor = 2, .sequence = sequence, .ring = 2},
                          {.family = "shared llama in documents", .tensor = 3, .sequence = sequence, .ring = 2},
                          {.family = "shared llama", .tensor = 2, .sequence = sequence, .ulysses = 2, .ring = 2}});
}

// The vocabulary is a prime: ranks have parts of different size, and a part's padding would be e⁰ in every sum.
BOOST_AUTO_TEST_CASE(a_padded_vocabulary_in_the_soft_max) {
  for (const int ranks : {2, 3, 4, 6})
    check_equal_one_rank(
        {{.family = "tied llama", .tensor = ranks}, {.family = "shared llama", .tensor = ranks, .sequence = true}});
}

// Of smoothed labels the loss has a mean over the vocabulary, of which a rank may have a part; where it has another
// part of the rows, padding follows them.
BOOST_AUTO_TEST_CASE(a_mean_over_a_part_of_the_vocabulary_in_the_loss_of_smooth_labels) {
  for (const int ranks : {2, 3, 4, 6})
    check_equal_one_rank(
        {{.family = "tied llama with smooth labels", .tensor = ranks},
         {.family = "shared llama in documents with smooth labels", .tensor = ranks, .sequence = true}});
  for (const int ranks : {2, 3, 4})
    check_equal_one_rank({{.replicas = ranks, .micro_batch = 1, .family = "gpt2 with smooth labels"},
                          {.shards = ranks, .micro_batch = 1, .family = "tied llama with smooth labels"},
                          {.family = "shared llama in documents with smooth labels", .ring = ranks}});
  for (const PipelineSchedule schedule : pipeline_schedules)
    check_equal_one_rank(
        {{.family = "deep gpt2 with smooth labels",
          .stages = 2,
          .schedule = schedule,
          .chunks = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b ? 1 : 2}});
  check_equal_one_rank({{.family = "tied llama with smooth labels", .stages = 2, .tensor = 2},
                        {.family = "shared llama with smooth labels", .tensor = 2, .sequence = true, .ulysses = 2}});
}

BOOST_AUTO_TEST_CASE(norms_of_queries_and_keys_under_shared_blocks) {
  for (const int ranks : {2, 4, 6})
    for (const bool sequence : {false, true})
      check_equal_one_rank({{.family = "shared qwen3", .tensor = ranks, .sequence = sequence}});
}

BOOST_AUTO_TEST_CASE(a_choice_of_experts_that_recomputation_makes_anew) {
  const auto second_step = [](RecomputePolicy recompute) {
    Job job(all_ranks(), {.replicas = test::world().size(), .recompute = recompute, .family = "mixtral"},
            Precision::bf16, 0.5);
    job.step(0);
    return job.step(1);
  };
  const StepOutcome kept = second_step(RecomputePolicy::none), again = second_step(RecomputePolicy::block);
  BOOST_TEST(kept.loss == again.loss);
  BOOST_TEST(kept.gradient_norm == again.gradient_norm);
}

// A router of zeros finds all experts equal; of equal rows rounding may make a difference, in each pass another one.
BOOST_AUTO_TEST_CASE(a_tie_of_experts_that_a_repetition_breaks_otherwise) {
  const int ranks = test::world().size();
  std::vector<Composition> ways{{.replicas = ranks, .family = "mixtral"},
                                {.replicas = ranks, .recompute = RecomputePolicy::block, .family = "mixtral"},
                                {.replicas = ranks, .recompute = {1, {Keep::experts}}, .family = "mixtral"}};
  if (ranks > 1) ways.push_back({.recompute = RecomputePolicy::block, .family = "mixtral", .ring = ranks});
  for (const bool equal_rows : {false, true}) {
    std::optional<StepOutcome> want;
    for (const Composition& how : ways) {
      Job job(all_ranks(), how, Precision::fp64, 0.5);
      for (const Parameter* parameter : job.model().parameters()) {
        if (parameter->name().find(".gate.weight") == std::string::npos) continue;
        const at::Tensor rows = parameter->master();
        if (equal_rows)
          rows.copy_(rows.narrow(0, 0, 1).expand_as(rows).clone());
        else
          rows.zero_();
      }
      const StepOutcome got = job.step(0);
      for (std::size_t i = 0; i < got.expert_loads.size() && !equal_rows; ++i)  // of five experts in each layer
        BOOST_TEST((got.expert_loads[i] > 0) == (i % 5 < 2), how.text() << ": expert " << i);
      if (!want) want = got;
      BOOST_TEST(std::abs(got.loss - want->loss) <= 1e-12 * want->loss, how.text());
      BOOST_TEST(std::abs(got.gradient_norm - want->gradient_norm) <= 1e-12 * want->gradient_norm, how.text());
    }
  }
}

// Two jobs of one process have their memory at other addresses.
BOOST_AUTO_TEST_CASE(an_order_of_sums_that_follows_addresses) {
  const int ranks = test::world().size();
  std::vector<Composition> ways{{.replicas = ranks}, {.shards = ranks, .accumulate = Accumulate::shards}};
  if (ranks == 4) ways.push_back({.family = "shared qwen3", .tensor = 2, .sequence = true, .ring = 2});
  for (const Composition& how : ways) {
    Job first(all_ranks(), how, Precision::fp32, 0.5), again(all_ranks(), how, Precision::fp32, 0.5);
    for (std::int64_t step = 0; step < 2; ++step) {
      const StepOutcome one = first.step(step), other = again.step(step);
      BOOST_TEST(one.loss == other.loss, how.text());
      BOOST_TEST(one.gradient_norm == other.gradient_norm, how.text());
    }
    for (const LogicalTensor& tensor : first.tensors())
      BOOST_TEST(at::equal(first.whole_weight(tensor), again.whole_weight(tensor)), how.text() << ": " << tensor.name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
