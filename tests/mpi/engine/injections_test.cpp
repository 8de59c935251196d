// A failure on one rank, in every phase that all ranks can still agree after, of every kind of program: all ranks throw
// the same error, or skip the same step, and the step done again gives the bits of a job that never failed. What ends a
// job is tried with whole jobs: tests/e2e/failures_test.py.
#include "comm/failure.hpp"
#include "composition_job.hpp"
#include "harness/share.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(injections)

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// A kind of program each, on as many ranks as there are.
std::vector<Composition> kinds_of_programs() {
  const int ranks = world().size();
  std::vector<Composition> ways{{.replicas = ranks, .micro_batch = 2},
                                {.shards = ranks, .accumulate = Accumulate::shards, .prefetch = 2, .micro_batch = 2}};
  const auto pipeline = [&](PipelineSchedule schedule, int stages, int shards, int zero) {
    Composition how{.shards = shards, .zero = zero, .family = stages > 3 ? "deep llama" : "deep gpt2"};
    how.stages = stages;
    how.schedule = schedule;
    const bool one_stage = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
    how.chunks = one_stage ? 1 : 2;
    ways.push_back(how);
  };
  ways.push_back({.shards = ranks, .accumulate = Accumulate::shards, .micro_batch = 2, .offload = {.shards = true}});
  if (ranks == 2) {
    pipeline(PipelineSchedule::zbv, 2, 1, 3);
    ways.back().offload.activations = true;
  }
  if (ranks == 3) {
    pipeline(PipelineSchedule::interleaved_1f1b, 3, 1, 3);
    ways.push_back({.replicas = 3, .micro_batch = 2, .offload = {.optimizer = true}});
  }
  if (ranks == 4) {
    pipeline(PipelineSchedule::one_f_one_b, 2, 2, 3);
    ways.push_back(ways.back());
    ways.back().offload.shards = true;
    pipeline(PipelineSchedule::interleaved_zero_bubble, 4, 1, 3);
    ways.push_back({.replicas = 2, .shards = 2, .zero = 2, .accumulate = Accumulate::sums, .micro_batch = 1});
    ways.push_back({.shards = 4, .inner = 2, .accumulate = Accumulate::shards, .micro_batch = 1, .family = "llama"});
  }
  if (ranks == 6) pipeline(PipelineSchedule::one_f_one_b, 3, 2, 3);
  if (ranks == 8) pipeline(PipelineSchedule::gpipe, 4, 2, 1);
  return ways;
}

/// With LOCKSTEP_TEST_ALL all ranks; else one, another from call to call.
std::vector<Rank> failing_ranks() {
  static int calls = 0;
  if (!all_cases()) return {calls++ % world().size()};
  std::vector<Rank> all;
  for (Rank rank = 0; rank < world().size(); ++rank) all.push_back(rank);
  return all;
}

void inject(Job& job, const std::optional<Injection>& injection) {
  job.session().configure({.watchdog_s = 0, .injection = injection});
}

/// Whom all ranks name, in its own words; nothing if `work` ends well.
template <class Work>
std::string told_by_all(Work&& work) {
  try {
    work();
  } catch (const AgreedError& error) {
    return fmt::format("rank {}, code {}: {}", error.owner(), static_cast<int>(error.code()), error.what());
  }
  return "nothing";
}

void check_told(const std::string& told, const Injection& injection, const std::string& where) {
  const std::string start = fmt::format("rank {}, code 5: ", injection.rank);
  BOOST_TEST(told.starts_with(start), where << ": " << told);
  BOOST_TEST(told.find(fmt::format("injected failure in {}", name_of(injection.phase))) != std::string::npos,
             where << ": " << told);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_that_one_rank_fails_in_can_be_done_again_as_if_nothing_had_been) {
  for (const Composition& how : kinds_of_programs()) {
    Job sound(all_ranks(), how, Precision::fp32, 0.5), failing(all_ranks(), how, Precision::fp32, 0.5);
    std::int64_t step = 0;
    for (const Phase phase :
         {Phase::gather, Phase::forward, Phase::backward, Phase::reduction, Phase::norm, Phase::heartbeat}) {
      if (phase == Phase::gather && how.shards == 1) continue;
      for (const Injection::Kind kind : {Injection::Kind::raise, Injection::Kind::nan}) {
        for (const Rank rank : failing_ranks()) {
          const Injection injection{.kind = kind, .rank = rank, .phase = phase, .step = step, .code = 5};
          const std::string where =
              fmt::format("{}: {} of rank {} in {}", how.text(),
                          kind == Injection::Kind::raise ? "an exception" : "not a number", rank, name_of(phase));
          inject(failing, injection);
          if (kind == Injection::Kind::raise)
            check_told(told_by_all([&] { failing.step(step); }), injection, where);
          else
            BOOST_TEST(!failing.step(step).updated, where);
          inject(failing, {});
          const StepOutcome want = sound.step(step), got = failing.step(step);
          BOOST_TEST(got.updated, where);
          BOOST_TEST(got.loss == want.loss, where << ": loss " << got.loss << " against " << want.loss);
          BOOST_TEST(got.gradient_norm == want.gradient_norm,
                     where << ": norm " << got.gradient_norm << " against " << want.gradient_norm);
          ++step;
        }
      }
    }
  }
}

// The rows of the head that pad it lie behind its gradient, where the rank of the embedding has nothing that writes.
BOOST_AUTO_TEST_CASE(numbers_that_are_not_finite_in_a_tied_head_do_not_stay_with_the_embedding) {
  Composition how{.micro_batch = 2, .family = "deep gpt2"};
  how.stages = world().size();
  how.schedule = PipelineSchedule::one_f_one_b;
  Job sound(all_ranks(), how, Precision::fp32, 0.5), failing(all_ranks(), how, Precision::fp32, 0.5);
  inject(failing,
         Injection{.kind = Injection::Kind::nan, .rank = world().size() - 1, .phase = Phase::backward, .code = 5});
  BOOST_TEST(!failing.step(0).updated);
  inject(failing, {});
  const StepOutcome want = sound.step(0), got = failing.step(0);
  BOOST_TEST(got.updated);
  BOOST_TEST(got.gradient_norm == want.gradient_norm);
}

BOOST_AUTO_TEST_CASE(an_evaluation_and_a_text_that_one_rank_fails_in_leave_nothing_behind) {
  for (const Composition& how : kinds_of_programs()) {
    Job job(all_ranks(), how, Precision::fp32, 0.5);
    const double want = job.evaluate(3).loss_sum;
    const SampleOptions greedy = ways_to_sample().front();
    int draws = 0;
    const auto texts = job.continued(greedy, draws);
    for (const Rank rank : failing_ranks()) {
      const Injection amid_evaluation{.rank = rank, .phase = Phase::evaluation, .code = 5};
      inject(job, amid_evaluation);
      check_told(told_by_all([&] { job.evaluate(3); }), amid_evaluation, how.text());
      const Injection amid_text{.rank = rank, .phase = Phase::sample, .code = 5};
      inject(job, amid_text);
      check_told(told_by_all([&] { job.continued(greedy, draws); }), amid_text, how.text());
      inject(job, {});
      BOOST_TEST(job.evaluate(3).loss_sum == want, how.text());
      BOOST_TEST((job.continued(greedy, draws) == texts), how.text());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
