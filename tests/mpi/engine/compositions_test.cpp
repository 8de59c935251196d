// Ways to divide a step among ranks, each against one rank: the same losses, norms and gradients in fp64, and against
// plain data parallelism bit for bit where only the place of memory differs. The table is printed with its times.
#include "base/clock.hpp"
#include "composition_job.hpp"
#include "harness/share.hpp"

#include <ATen/ops/eq.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/sub.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(compositions)

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// Those on as many ranks as there are: one of 34, or with LOCKSTEP_TEST_ALL all of them, or, where it is not 1,
/// those whose text has it, of which there must be one.
std::vector<Composition> of_this_world() {
  const char* const all = std::getenv("LOCKSTEP_TEST_ALL");
  const std::string asked = all == nullptr || std::string_view(all) == "1" ? "" : all;
  std::vector<Composition> mine;
  Share share(34);
  for (const Composition& how : all_compositions())
    if (how.ranks() == test::world().size() && share.takes() && how.text().find(asked) != std::string::npos)
      mine.push_back(how);
  BOOST_REQUIRE_MESSAGE(!mine.empty(),
                        fmt::format("no composition on {} ranks has \"{}\" in its text", test::world().size(), asked));
  return mine;
}

/// Each element counts once, whoever holds it.
void expect_of_whole(const std::string& what, const Statistics& got, const at::Tensor& whole) {
  const at::Tensor all = whole.flatten().to(at::kDouble);
  BOOST_TEST(got.finite == all.numel(), what << " has " << got.finite << " elements");
  BOOST_TEST(got.zeros == at::eq(all, 0).sum().item<std::int64_t>(), what << " has " << got.zeros << " zeros");
  BOOST_TEST((got.nan == 0 && got.infinite == 0));
  BOOST_TEST((got.min == all.min().item<double>() && got.max == all.max().item<double>()),
             what << " lies in " << got.min << " to " << got.max);
  const double norm = norm_of(all);
  const auto expect = [&](const char* name, double value, double expected) {
    BOOST_TEST(std::abs(value - expected) <= 1e-12 * norm,
               name << " of " << what << ": " << value << " against " << expected);
  };
  expect("norm", got.norm(), norm);
  expect("mean", got.mean, all.mean().item<double>());
  expect("deviation", got.deviation(), all.std(false).item<double>());
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_equals_one_rank_in_fp64) {
  struct Line {
    double seconds;
    std::string text;
  };
  std::vector<Line> table;
  for (const Composition& how : of_this_world()) {
    const double start_s = monotonic_seconds();
    const Reference& want = reference_of(how.family);
    Job job(all_ranks(), how, Precision::fp64, 0.5);
    for (std::int64_t step = 0; step < how.steps; ++step) {
      const StepOutcome got = job.step(step);
      const StepOutcome& one = want.steps[static_cast<std::size_t>(step)];
      const double bound = step == 0 ? 1e-12 : 1e-9;
      BOOST_TEST(std::abs(got.loss - one.loss) <= bound * one.loss,
                 how.text() << ", step " << step << ": loss " << got.loss << " against " << one.loss);
      BOOST_TEST(std::abs(got.gradient_norm - one.gradient_norm) <= bound * one.gradient_norm,
                 how.text() << ", step " << step << ": norm " << got.gradient_norm << " against " << one.gradient_norm);
      BOOST_TEST(got.aux_loss.has_value() == one.aux_loss.has_value());
      if (got.aux_loss && one.aux_loss)
        BOOST_TEST(std::abs(*got.aux_loss - *one.aux_loss) <= bound * *one.aux_loss,
                   how.text() << ", step " << step << ": " << *got.aux_loss << " against " << *one.aux_loss);
      BOOST_TEST((got.expert_loads == one.expert_loads), how.text()
                                                             << ", step " << step << ": tokens go to other experts");
      if (step > 0) continue;
      const auto fault = job.trace_fault();
      BOOST_TEST(!fault.has_value(), how.text() << ": " << fault.value_or(""));
      for (const LogicalTensor& tensor : job.tensors()) {
        if (!tensor.trained) continue;
        const at::Tensor expected = want.gradients.at(tensor.name);
        const double error = norm_of(at::sub(job.whole_gradient(tensor), expected));
        BOOST_TEST(error <= 1e-12 * std::max(norm_of(expected), 1e-3 * want.all_norm),
                   how.text() << ": the gradient of " << tensor.name << " differs by " << error);
      }
      const TensorStatistics gradients = job.gradients(), weights = job.weights();
      for (const LogicalTensor& tensor : job.tensors()) {
        const auto of = [&](const TensorStatistics& taken) {
          return std::ranges::find(taken.tensors(), tensor.name, &std::pair<std::string, Statistics>::first)->second;
        };
        const std::string where = how.text() + ": " + tensor.name;
        expect_of_whole("the weight in " + where, of(weights), job.whole_weight(tensor));
        if (tensor.trained) expect_of_whole("the gradient in " + where, of(gradients), job.whole_gradient(tensor));
      }
      BOOST_TEST(std::abs(gradients.whole().norm() - got.gradient_norm) <= 1e-12 * got.gradient_norm,
                 how.text() << ": norm of all gradients " << gradients.whole().norm());
      const double eval = job.evaluate(3).loss_sum;
      BOOST_TEST(std::abs(eval - want.eval_loss) <= 1e-12 * want.eval_loss,
                 how.text() << ": evaluation " << eval << " against " << want.eval_loss);
      for (std::size_t i = 0; i < want.texts.size(); ++i) {
        int draws = 0;
        BOOST_TEST((job.continued(ways_to_sample()[i], draws) == want.texts[i]), how.text() << ": texts " << i);
        BOOST_TEST((draws == 0 || job.model().has_head()));
        BOOST_TEST(test::world().all_reduce(std::int64_t{draws}, Reduce::sum) ==
                   std::ssize(want.texts[i][0]) + std::ssize(want.texts[i][1]) - 4);
        const auto astray = job.text_trace_fault();
        BOOST_TEST(!astray.has_value(), how.text() << ": " << astray.value_or(""));
      }
    }
    table.push_back({monotonic_seconds() - start_s, how.text()});
  }
  std::ranges::sort(table, std::ranges::greater{}, &Line::seconds);
  BOOST_TEST(10 * draws().again <= draws().made);
  if (test::world().rank() != 0 || table.empty()) return;
  std::printf("# %d models with experts drawn, %d of them again for choices that were all but ties\n", draws().made,
              draws().again);
  std::printf("# %zu compositions on %d ranks, the slowest first:\n", table.size(), test::world().size());
  for (const Line& line : table) std::printf("#   %5.2f s  %s\n", line.seconds, line.text.c_str());
}

BOOST_AUTO_TEST_CASE(the_first_step_of_each_equals_that_of_one_rank_in_fp32) {
  struct First {
    StepOutcome outcome;
    std::map<std::string, at::Tensor> gradients;
  };
  std::map<std::string, First> of_one_rank;  // by family
  for (const Composition& how : of_this_world()) {
    const auto [found, unknown] = of_one_rank.try_emplace(how.family);
    First& want = found->second;
    if (unknown) {
      Job one(solo_communicator(), {.micro_batch = global_batch, .family = how.family}, Precision::fp32, 0.5);
      want.outcome = one.step(0);
      for (const Parameter* parameter : one.model().parameters())
        if (parameter->is_trained()) want.gradients[parameter->name()] = parameter->gradient().clone().cpu();
    }
    Job job(all_ranks(), how, Precision::fp32, 0.5);
    const StepOutcome got = job.step(0);
    const double loss = want.outcome.loss, norm = want.outcome.gradient_norm;
    BOOST_TEST(std::abs(got.loss - loss) <= 2e-6 * loss, how.text() << ": loss " << got.loss << " against " << loss);
    BOOST_TEST(std::abs(got.gradient_norm - norm) <= 2e-6 * norm,
               how.text() << ": norm " << got.gradient_norm << " against " << norm);
    for (const auto& [name, expected] : want.gradients) {
      const auto tensors = job.tensors();
      const auto tensor = std::ranges::find(tensors, name, &LogicalTensor::name);
      const double error = norm_of(at::sub(job.whole_gradient(*tensor), expected));
      // A sum that nearly cancels, as those of the norms of queries and keys do, is rounded by more than that. Its
      // rounding depends on the order of the sum, which differs among processors and layouts, and may by chance be
      // small on one rank.
      const double rounding = norm_of(at::sub(expected.to(at::kDouble), reference_of(how.family).gradients.at(name)));
      BOOST_TEST(error <= std::max(2e-6 * std::max(norm_of(expected), 1e-1 * norm), 4 * rounding),
                 how.text() << ": the gradient of " << name << " (norm " << norm_of(expected) << " of " << norm
                            << ") differs by " << error << ", one rank's by " << rounding << " from fp64's");
    }
  }
}

namespace {

struct Document {
  std::int64_t tokens;
  std::uint64_t text;  // which
  bool counts;         // as labels
};

/// A sample of documents that attention keeps apart.
Batch sample_of(const std::vector<Document>& documents) {
  const RandomStream random(17, "documents");
  Batch batch;
  batch.samples = 1;
  for (const auto& [tokens, text, counts] : documents) {
    batch.documents.push_back(batch.length);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::uint64_t at = 1000 * text + static_cast<std::uint64_t>(2 * t);
      batch.tokens.push_back(static_cast<std::int32_t>(random.below(at, vocabulary)));
      batch.labels.push_back(counts ? static_cast<std::int32_t>(random.below(at + 1, vocabulary)) : ignored_label);
      batch.positions.push_back(static_cast<std::int32_t>(t));
    }
    batch.length += tokens;
    if (counts) batch.valid_tokens += tokens;
  }
  batch.documents.push_back(batch.length);
  batch.numbers = {0};
  return batch;
}

}  // namespace

// Through the whole model, whichever way attention goes.
BOOST_AUTO_TEST_CASE(documents_of_a_sample_do_not_see_each_other) {
  const int ranks = test::world().size();
  for (const char* family : {"windowed llama in documents", "shared qwen3 in documents", "mixtral in documents"}) {
    const bool has_experts = std::string_view(family).starts_with("mixtral");
    std::vector<Composition> ways{{.micro_batch = global_batch, .family = family, .ring = ranks}};
    if (ranks == 2 || (!has_experts && 12 % ranks == 0 && ranks != 3))
      ways.push_back({.micro_batch = global_batch, .family = family, .ulysses = ranks});
    if (ranks == 4 && !has_experts)
      ways.push_back({.micro_batch = global_batch, .family = family, .ulysses = 2, .ring = 2});
    if (!has_experts && ranks > 1 && 12 % ranks == 0 && ranks != 3)
      for (const bool sequence : {false, true})
        ways.push_back({.micro_batch = global_batch, .family = family, .tensor = ranks, .sequence = sequence});
    for (const Composition& how : ways) {
      Job job(all_ranks(), how, Precision::fp64, std::nullopt);
      const Document mine{5, 1, true};
      const double alone = job.loss_of(sample_of({mine}));
      const double beside = job.loss_of(sample_of({mine, {6, 2, false}}));
      BOOST_TEST(std::abs(beside - alone) <= 1e-12 * alone, how.text() << ": " << beside << " against " << alone);
      const double after = job.loss_of(sample_of({{4, 2, false}, mine, {2, 3, false}}));
      BOOST_TEST(std::abs(after - alone) <= 1e-12 * alone, how.text() << ": " << after << " against " << alone);
      const double other = job.loss_of(sample_of({mine, {6, 3, false}}));
      BOOST_TEST((has_experts ? std::abs(other - beside) <= 1e-12 * alone : other == beside),
                 how.text() << ": " << other << " against " << beside);
    }
  }
}

BOOST_AUTO_TEST_CASE(shards_equal_plain_data_parallelism_bit_for_bit) {
  if (test::world().size() == 1) return;
  for (const auto& [family, precision] : {std::pair("gpt2", Precision::fp32), {"llama", Precision::bf16}}) {
    const auto make = [&](const Composition& how) {
      return std::make_unique<Job>(all_ranks(), how, precision, std::nullopt);
    };
    const int ranks = test::world().size();
    for (const Accumulate accumulate : {Accumulate::whole, Accumulate::sums}) {
      const auto plain = make({.replicas = ranks, .accumulate = accumulate, .micro_batch = 1, .family = family});
      std::vector<std::unique_ptr<Job>> cut;
      for (int zero = 1; zero <= 3; ++zero)
        cut.push_back(
            make({.shards = ranks, .zero = zero, .accumulate = accumulate, .micro_batch = 1, .family = family}));
      if (accumulate == Accumulate::sums)  // where all ranks share a unit out, its shards are sums
        cut.push_back(make({.shards = ranks, .accumulate = Accumulate::shards, .micro_batch = 1, .family = family}));
      for (std::int64_t step = 0; step < 3; ++step) {
        const StepOutcome want = plain->step(step);
        for (const auto& job : cut) BOOST_TEST(job->step(step).loss == want.loss);
      }
      for (const LogicalTensor& tensor : plain->tensors()) {
        const at::Tensor want = plain->whole_weight(tensor);
        for (const auto& job : cut) BOOST_TEST(at::equal(job->whole_weight(tensor), want));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(micro_batches_of_different_length_go_through_a_pipeline) {
  const int ranks = test::world().size();
  if (ranks == 1 || ranks > 4) return;
  for (const PipelineSchedule schedule : pipeline_schedules) {
    Composition one{.micro_batch = 2, .family = "deep llama", .ragged = true};
    Composition how = one;
    how.stages = ranks;
    how.schedule = schedule;
    how.chunks = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b ? 1 : 2;
    Job whole(solo_communicator(), one, Precision::fp64, 0.5), parted(all_ranks(), how, Precision::fp64, 0.5);
    for (std::int64_t step = 0; step < 2; ++step) {
      const StepOutcome want = whole.step(step), got = parted.step(step);
      BOOST_TEST(std::abs(got.loss - want.loss) <= 1e-12 * want.loss, how.text());
      BOOST_TEST(std::abs(got.gradient_norm - want.gradient_norm) <= 1e-12 * want.gradient_norm, how.text());
      const auto fault = parted.trace_fault(step);
      BOOST_TEST(!fault.has_value(), how.text() << ": " << fault.value_or(""));
    }
    BOOST_TEST(std::abs(parted.evaluate(3).loss_sum - whole.evaluate(3).loss_sum) <= 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_summed_in_the_type_that_is_asked_for) {
  const int ranks = test::world().size();
  if (ranks != 2 && ranks != 4) return;
  const double rounding = std::pow(2.0, -8);  // of bf16: a gradient of each rank, a sum over shards, one over replicas
  for (const Accumulate accumulate : {Accumulate::whole, Accumulate::shards, Accumulate::sums}) {
    for (const int shards : {1, 2, 4}) {
      if (ranks % shards != 0 || (shards == 1 && accumulate == Accumulate::shards)) continue;
      Composition how{.replicas = ranks / shards, .shards = shards, .accumulate = accumulate, .micro_batch = 2};
      Job master(all_ranks(), how, Precision::fp32, 0.5);
      how.reduce = DType::f64;
      Job wide(all_ranks(), how, Precision::fp32, 0.5);
      how.reduce = DType::bf16;
      Job narrow(all_ranks(), how, Precision::fp32, 0.5);
      const double norm = master.step(0).gradient_norm;
      BOOST_TEST(std::abs(wide.step(0).gradient_norm - norm) <= 1e-6 * norm, how.text());
      BOOST_TEST(std::abs(narrow.step(0).gradient_norm - norm) <= 4 * rounding * norm, how.text());
      for (const Job* job : {&wide, &narrow}) {
        const auto fault = job->trace_fault();
        BOOST_TEST(!fault.has_value(), how.text() << ": " << fault.value_or(""));
      }
      bool differ = false;
      for (const LogicalTensor& tensor : master.tensors()) {
        const at::Tensor want = master.whole_gradient(tensor), got = narrow.whole_gradient(tensor);
        // Cancellation makes no more of it: what is rounded is as large as the gradients of ranks.
        BOOST_TEST(norm_of(at::sub(got, want)) <= 8 * rounding * std::max(norm_of(want), 1e-2 * norm),
                   how.text() << ": " << tensor.name);
        BOOST_TEST(norm_of(at::sub(wide.whole_gradient(tensor), want)) <= 2e-6 * std::max(norm_of(want), 1e-3 * norm),
                   how.text() << ": " << tensor.name);
        differ = differ || !at::equal(got, want);
      }
      BOOST_TEST(differ, how.text());
    }
  }
}

BOOST_AUTO_TEST_CASE(frozen_tensors_stay_and_leave_the_gradients_of_the_others_alone) {
  if (test::world().size() != 1) return;
  for (const char* family : {"gpt2", "llama"}) {
    const std::string parts = std::string(family) + std::string(in_parts);
    Job whole(solo_communicator(), {.micro_batch = 4, .family = family}, Precision::bf16, 0.5);
    Job frozen(solo_communicator(), {.micro_batch = 4, .family = parts.c_str()}, Precision::bf16, 0.5);
    std::map<std::string, at::Tensor> before;
    std::int64_t held = 0, all = 0;
    for (const Parameter* parameter : frozen.model().parameters())
      before[parameter->name()] = parameter->master().clone().cpu();
    for (const Unit* unit : frozen.model().units()) {
      all += unit->is_trained() ? unit->length() : 0;
      held += unit->gradient().defined() ? unit->gradient().numel() : 0;
      BOOST_TEST(unit->state().size() == (unit->is_trained() ? 2u : 0u));
    }
    BOOST_TEST(held == all);
    whole.step(0);
    const StepOutcome outcome = frozen.step(0);
    double sum = 0;
    for (const Parameter* parameter : frozen.model().parameters()) {
      BOOST_TEST(at::equal(parameter->master(), before.at(parameter->name())) == !parameter->is_trained(),
                 parameter->name());
      if (!parameter->is_trained()) continue;
      const at::Tensor want = whole.model().parameter(parameter->name()).gradient();
      BOOST_TEST(at::equal(parameter->gradient(), want), parameter->name());
      sum += std::pow(norm_of(want), 2);
    }
    BOOST_TEST(std::abs(outcome.gradient_norm - std::sqrt(sum)) <= 1e-6 * outcome.gradient_norm);
  }
}

BOOST_AUTO_TEST_CASE(an_optimizer_in_backward_gives_the_bits_of_one_after_the_heartbeat) {
  const int ranks = test::world().size();
  std::vector<Composition> ways{{.replicas = ranks, .micro_batch = global_batch},
                                {.replicas = ranks, .micro_batch = 1, .family = "llama"},
                                {.replicas = ranks, .recompute = RecomputePolicy::block, .bucket_bytes = 1 << 20}};
  for (int zero = 1; zero <= 3 && ranks > 1; ++zero) {
    ways.push_back({.shards = ranks, .zero = zero, .micro_batch = global_batch});
    ways.push_back(
        {.shards = ranks, .zero = zero, .accumulate = Accumulate::shards, .micro_batch = 1, .family = "llama"});
    if (ranks % 2 == 0) ways.push_back({.replicas = 2, .shards = ranks / 2, .zero = zero, .micro_batch = 1});
  }
  ways.push_back({.replicas = ranks, .accumulate = Accumulate::sums, .micro_batch = 1});
  if (ranks == 4) ways.push_back({.replicas = 2, .shards = 2, .accumulate = Accumulate::sums, .micro_batch = 1});
  for (Composition one : pipelines()) {
    if (one.ranks() != ranks) continue;
    one.passes = 1;
    ways.push_back(one);
  }
  for (const Composition& how : ways) {
    for (const Precision precision : {Precision::fp64, Precision::bf16}) {
      Job after(all_ranks(), how, precision, std::nullopt);
      Composition own = how;
      own.in_backward = true;
      Job within(all_ranks(), own, precision, std::nullopt);
      for (std::int64_t step = 0; step < 3; ++step) {
        const StepOutcome want = after.step(step), got = within.step(step);
        BOOST_TEST(got.loss == want.loss, own.text());
        BOOST_TEST(got.gradient_norm == want.gradient_norm, own.text());
        const auto fault = within.trace_fault();
        BOOST_TEST(!fault.has_value(), own.text() << ": " << fault.value_or(""));
      }
      BOOST_TEST(within.evaluate(3).loss_sum == after.evaluate(3).loss_sum, own.text());
      BOOST_REQUIRE(within.model().units().size() == after.model().units().size());
      for (std::size_t i = 0; i < after.model().units().size(); ++i) {
        const Unit &one = *after.model().units()[i], &other = *within.model().units()[i];
        BOOST_TEST(at::equal(other.master(), one.master()), own.text());
        BOOST_TEST(!other.gradient().defined(), own.text());
        for (std::size_t kept = 0; kept < one.state().size(); ++kept)
          BOOST_TEST(at::equal(other.state()[kept], one.state()[kept]), own.text());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_failure_after_the_first_update_in_backward_is_its_ranks_alone_and_one_before_it_is_everybodys) {
  const int ranks = test::world().size();
  const Rank last = ranks - 1;
  const auto failing_in = [&](const std::string& phase) {
    Job job(all_ranks(), {.replicas = ranks, .micro_batch = global_batch, .in_backward = true}, Precision::fp32,
            std::nullopt);
    job.session().configure(
        {.watchdog_s = 0,
         .injection = parse_injection(fmt::format("kind=throw,code=5,rank={},phase={},step=0", last, phase))});
    try {
      job.step(0);
    } catch (const AgreedError& error) {
      return fmt::format("all of rank {}", error.owner());
    } catch (const Error& error) {
      return fmt::format("alone: {}", error.what());
    }
    return std::string("none");
  };
  for (const char* const phase : {"backward", "norm", "optimizer"})  // the first of each comes before the first update
    BOOST_TEST(failing_in(phase) == fmt::format("all of rank {}", last));
  if (ranks > 1) return;  // what follows leaves other ranks in the middle of a step: tests/e2e/shards_test.py
  BOOST_TEST(failing_in("heartbeat") == "alone: injected failure in heartbeat of step 0");
}

BOOST_AUTO_TEST_CASE(an_engine_that_does_something_else_leaves_another_trace) {
  if (test::world().size() != 4) return;
  const Composition how{.replicas = 2, .shards = 2, .micro_batch = 4};
  const auto told = [&](const std::function<void(RankClass&)>& mutate) {
    Job job(all_ranks(), how, Precision::fp32, 0.5, mutate);
    try {
      job.step(0);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return job.trace_fault().value_or("");
  };
  const auto first = [](RankClass& ranks, Op op) -> Action& {
    return *std::ranges::find(ranks.actions, op, &Action::op);
  };
  BOOST_TEST(told({}) == "");
  const auto sends_elsewhere = [&](std::vector<AxisName> group, Lane lane) {
    return told([&](RankClass& ranks) {
      Action& action = first(ranks, Op::all_reduce);
      action.group = group;
      action.lane = lane;
    });
  };
  BOOST_TEST(
      sends_elsewhere({"dp_shard"}, Lane::reduction).find("recorded issued all_reduce on lane reduction among") !=
      std::string::npos);
  for (const std::string& said : {sends_elsewhere({"dp_shard"}, Lane::replica),
                                  sends_elsewhere({"dp_replicate"}, Lane::reduction)})  // nothing of the program does
    BOOST_TEST(said.find("a lane sends only in groups that it has a communicator for") != std::string::npos, said);
  BOOST_TEST(told([&](RankClass& ranks) {
               first(ranks, Op::gradient_norm).waits.clear();
             }).find("expected waited for all_reduce") != std::string::npos);
  BOOST_TEST(told([&](RankClass& ranks) {  // memory that the next action lets go is let go by the last that reads it
               Action& reshard = first(ranks, Op::reshard);
               Action& reader = *(&reshard - 1);
               reader.slots.releases = std::exchange(reshard.slots.releases, {});
             })
                 .find("recorded released gathered") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_rank_keeps_its_shard_and_no_more) {
  const int ranks = test::world().size();
  if (ranks == 1) return;
  Job job(all_ranks(), {.shards = ranks}, Precision::fp32, 0.5);
  std::int64_t held = 0, all = 0;
  for (const auto& unit : job.model().units()) {
    held += unit->master().numel() + unit->gradient().numel();
    all += 2 * unit->whole_length();
  }
  BOOST_TEST(held <= all / ranks + 2 * 16 * std::ssize(job.model().parameters()) * 14);  // rows and alignment
  for (const Parameter* parameter : job.model().parameters()) BOOST_TEST(!parameter->compute().defined());
}

BOOST_AUTO_TEST_SUITE_END()
