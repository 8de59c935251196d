// What blocks keep for their repetition, in the ways to divide a step: the bits of a job that recomputes nothing.
#include "composition_job.hpp"
#include "harness/share.hpp"

#include <ATen/ops/equal.h>
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <vector>

BOOST_AUTO_TEST_SUITE(keep_sets)

using namespace lockstep;
using namespace lockstep::test;

namespace {

std::vector<Composition> ways_on(int ranks) {
  std::vector<Composition> ways{{.replicas = ranks, .micro_batch = 1, .family = "gpt2 with dropout"},
                                {.replicas = ranks, .family = "mixtral"},
                                {.shards = ranks, .family = "llama with dropout"},
                                {.shards = ranks, .family = "deep qwen3_moe"},
                                {.shards = ranks, .family = "deep qwen2_moe with dropout"}};
  if (ranks == 1) return ways;
  ways.push_back({.family = "deep llama", .stages = ranks});
  ways.push_back({.family = "deep gpt2", .stages = ranks, .schedule = PipelineSchedule::zbv, .chunks = 2});
  ways.push_back({.family = "shared llama with dropout", .tensor = ranks});
  ways.push_back({.family = "shared gpt2 with dropout", .tensor = ranks, .sequence = true});
  ways.push_back({.family = "shared llama with dropout in documents", .ulysses = ranks});
  if (ranks != 3) ways.push_back({.family = "shared qwen3", .ulysses = ranks});
  ways.push_back({.family = "windowed llama with dropout in documents", .ring = ranks});
  if (ranks == 2) ways.push_back({.micro_batch = 1, .family = "mixtral", .ulysses = 2});
  if (ranks != 4) return ways;
  ways.push_back({.family = "shared qwen3", .tensor = 2, .sequence = true, .ulysses = 2});
  for (const char* family : {"shared llama in documents", "shared qwen3 in documents"})
    ways.push_back({.family = family, .ulysses = 2, .ring = 2});
  return ways;
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_keep_set_changes_a_bit_of_losses_or_weights) {
  if (test::world().size() > 4) return;  // more of the same
  std::size_t number = 0;
  Share share(2);
  for (const Composition& how : ways_on(test::world().size())) {
    if (!share.takes()) continue;
    const Precision precision = number++ % 2 == 0 ? Precision::bf16 : Precision::fp32;
    Job plain(all_ranks(), how, precision, 0.5);
    std::vector<StepOutcome> want;
    for (std::int64_t step = 0; step < 2; ++step) want.push_back(plain.step(step));
    for (std::size_t index = 0; index < KeepSet::count; ++index) {
      if ((index + number) % 5 != 0 && !all_cases()) continue;
      Composition own = how;
      own.recompute = {1, KeepSet::at(index)};
      Job job(all_ranks(), own, precision, 0.5);
      for (std::int64_t step = 0; step < 2; ++step) {
        const StepOutcome got = job.step(step);
        BOOST_TEST(got.loss == want[static_cast<std::size_t>(step)].loss, own.text());
        BOOST_TEST(got.gradient_norm == want[static_cast<std::size_t>(step)].gradient_norm, own.text());
        const auto fault = job.trace_fault(step);
        BOOST_TEST(!fault.has_value(), own.text() << ": " << fault.value_or(""));
      }
      for (std::size_t i = 0; i < plain.model().units().size(); ++i)
        BOOST_TEST(at::equal(job.model().units()[i]->master(), plain.model().units()[i]->master()), own.text());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
