// Steps of the engine: the same numbers on any number of ranks, with any accumulation, ragged masks included; and what
// a failure does.
#include "engine/engine.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "comm/failure.hpp"
#include "engine/make_model_plan.hpp"
#include "harness/mpi_test.hpp"
#include "harness/share.hpp"
#include "harness/tiny_models.hpp"
#include "mpi/engine/continued_texts.hpp"
#include "program/batch_plan.hpp"
#include "program/work_times.hpp"
#include "tensor/runtime.hpp"

#include <ATen/ops/dot.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/sub.h>

#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(engine)

using namespace lockstep;

namespace {

constexpr std::int64_t length = 12;
constexpr std::int64_t global_batch = 6;
constexpr std::int64_t vocabulary = 29;

Architecture architecture_of(const std::string& family) {
  if (family == "gpt2") return test::tiny_gpt2({.vocabulary = vocabulary});
  if (family == "llama")
    return test::tiny_llama({.vocabulary = vocabulary, .heads = 4, .intermediate = 40, .key_value_heads = 2});
  return test::tiny_gpt2({.vocabulary = 997, .width = 256, .layers = 3, .heads = 4, .initial = 0.02});
}

/// One sample of a step: random tokens; labels that count in a ragged pattern, none at all in samples 0 and 4.
Batch sample(std::int64_t step, std::int64_t index) {
  const RandomStream random(99, "samples");
  Batch batch;
  batch.samples = 1;
  batch.length = length;
  for (std::int64_t t = 0; t < length; ++t) {
    const auto at = static_cast<std::uint64_t>((step * global_batch + index) * length + t);
    batch.tokens.push_back(static_cast<std::int32_t>(random.below(2 * at, vocabulary)));
    const bool counts = index % 4 != 0 && random.uniform(2 * at + 1) < 0.6;
    batch.labels.push_back(counts ? static_cast<std::int32_t>(random.below(3 * at + 1, vocabulary)) : ignored_label);
    batch.positions.push_back(static_cast<std::int32_t>(t));
    batch.valid_tokens += counts ? 1 : 0;
  }
  return batch;
}

Batch joined(std::int64_t step, const SampleRange& range) {
  Batch all;
  all.samples = std::max<std::int64_t>(range.count, 1);
  all.length = length;
  for (std::int64_t i = 0; i < all.samples; ++i) {
    Batch one = sample(step, range.count == 0 ? 0 : range.begin + i);  // sample 0 has no label that counts
    all.tokens.insert(all.tokens.end(), one.tokens.begin(), one.tokens.end());
    all.labels.insert(all.labels.end(), one.labels.begin(), one.labels.end());
    all.positions.insert(all.positions.end(), one.positions.begin(), one.positions.end());
    all.documents.push_back(i * length);
    all.valid_tokens += one.valid_tokens;
  }
  all.documents.push_back(all.samples * length);
  return all;
}

std::int64_t valid_tokens(std::int64_t step) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < global_batch; ++i) count += sample(step, i).valid_tokens;
  return count;
}

/// A whole training set-up on the ranks of a communicator.
struct Job {
  static constexpr TextShape texts{.texts = 1, .piece = 2, .positions = 16};
  Job(std::unique_ptr<Communicator> ranks, const std::string& family, Precision precision, std::int64_t micro_batch,
      RecomputePolicy recompute = RecomputePolicy::none, std::int64_t bucket_bytes = 0)
      : session(std::move(ranks)),
        architecture(architecture_of(family)),
        batches(plan_batch(global_batch, session.world().size(), micro_batch)),
        types(unit_types(precision, states_of(optimizer_options(), master_dtype(precision)))),
        model(architecture, precision, types.states, {bucket_bytes}),
        optimizer(make_optimizer(optimizer_options(), model.parameters())),
        programs(make_catalogue(make_mesh("world", {{"dp_replicate", session.world().size()}}),
                                plan_of(architecture, types, {batches.micro_batch, length}, {bucket_bytes}),
                                {.micro_batches = static_cast<int>(batches.accumulation),
                                 .eval_micro_batches = static_cast<int>(batches.accumulation),
                                 .recompute = recompute,
                                 .shards = {},
                                 .update = {.clips = true, .heartbeat_bytes = heartbeat_bytes},
                                 .eval_reduction_bytes = heartbeat_bytes,
                                 .draw_bytes = draw_bytes_of(texts.texts)},
                                TextPlans{plan_of(architecture, types, prompt_pass(texts), {bucket_bytes}),
                                          plan_of(architecture, types, token_pass(texts), {bucket_bytes})})),
        transport(make_transport(session, programs)),
        engine(model, *optimizer, programs, session, transport, 0.5) {
    model.initialise(7);
  }

  static OptimizerOptions optimizer_options() {
    OptimizerOptions options;
    options.eps = 1e-4;  // keeps Adam's first steps from turning rounding of tiny gradients into steps of full size
    return options;
  }

  std::vector<Batch> part(std::int64_t step) const {
    std::vector<Batch> parts;
    for (std::int64_t i = 0; i < batches.accumulation; ++i)
      parts.push_back(joined(step, samples_of(batches, session_rank(), i)));
    return parts;
  }

  StepOutcome step(std::int64_t number, const std::exception_ptr& failure = nullptr) {
    const StepBatch batch{.step = number, .micro_batches = part(number), .valid_tokens = 0};
    return engine.run_step(batch,
                           {.step = number, .valid_tokens = valid_tokens(number), .lr = 1e-3, .failure = failure});
  }

  std::vector<Interval> measured_step(std::int64_t number) {
    const auto times = std::make_shared<std::vector<Interval>>(programs.train.of(rank).size());
    const StepBatch batch{.step = number, .micro_batches = part(number), .valid_tokens = 0};
    engine.run_step(
        batch, {.step = number, .valid_tokens = valid_tokens(number), .lr = 1e-3, .failure = nullptr, .times = times});
    return *times;
  }

  Rank session_rank() const { return rank; }

  Session session;
  Rank rank = session.world().rank();
  Architecture architecture;
  BatchPlan batches;
  UnitTypes types;
  Model model;
  std::unique_ptr<Optimizer> optimizer;
  Catalogue programs;
  Transport transport;
  Engine engine;
};

std::unique_ptr<Communicator> all_ranks() { return test::world().split(0, "world"); }

double relative_l2(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor difference = at::sub(got, want).to(at::kDouble);
  return std::sqrt(at::dot(difference.flatten(), difference.flatten()).item<double>()) /
         (std::sqrt(at::dot(want.flatten().to(at::kDouble), want.flatten().to(at::kDouble)).item<double>()) + 1e-300);
}

void check_equal_to_one_rank(const std::string& family, Precision precision, double first_loss, double first_gradient,
                             double later_loss) {
  for (const std::int64_t micro_batch : {global_batch, std::int64_t{2}, std::int64_t{1}}) {
    Job one(solo_communicator(), family, precision, global_batch);
    Job many(all_ranks(), family, precision, micro_batch);
    for (std::int64_t step = 0; step < 20; ++step) {
      const StepOutcome want = one.step(step);
      const StepOutcome got = many.step(step);
      const double bound = step == 0 ? first_loss : later_loss;
      BOOST_TEST(std::abs(got.loss - want.loss) <= bound * want.loss, family << ", micro-batch " << micro_batch
                                                                             << ", step " << step << ": " << got.loss
                                                                             << " against " << want.loss);
      if (step > 0) continue;
      for (std::size_t i = 0; i < one.model.parameters().size(); ++i) {
        const Parameter& expected = *one.model.parameters()[i];
        if (expected.name().find("c_attn.bias") != std::string::npos)
          continue;  // its key part has no gradient but rounding
        const double error = relative_l2(many.model.parameters()[i]->gradient(), expected.gradient());
        BOOST_TEST(error <= first_gradient, family << " " << expected.name() << ": gradient differs by " << error);
      }
    }
  }
}

#ifndef __SANITIZE_ADDRESS__  // which takes memory for itself
/// While it lives the process cannot enlarge its address space: a mapping or a larger heap fails.
class NoMoreMemory {
 public:
  NoMoreMemory() {
    getrlimit(RLIMIT_AS, &before_);
    std::ifstream sizes("/proc/self/statm");
    rlim_t pages = 0;
    sizes >> pages;
    const rlimit now{pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)), before_.rlim_max};
    BOOST_REQUIRE(setrlimit(RLIMIT_AS, &now) == 0);
  }
  ~NoMoreMemory() { setrlimit(RLIMIT_AS, &before_); }
  NoMoreMemory(const NoMoreMemory&) = delete;
  NoMoreMemory& operator=(const NoMoreMemory&) = delete;

 private:
  rlimit before_{};
};

std::int64_t minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}
#endif

}  // namespace

BOOST_AUTO_TEST_CASE(in_fp64_no_number_of_ranks_and_no_accumulation_changes_losses_or_gradients) {
  check_equal_to_one_rank("gpt2", Precision::fp64, 1e-12, 1e-12, 1e-9);
  check_equal_to_one_rank("llama", Precision::fp64, 1e-12, 1e-12, 1e-9);
}

BOOST_AUTO_TEST_CASE(in_fp32_ranks_and_accumulation_change_rounding_only) {
  check_equal_to_one_rank("gpt2", Precision::fp32, 1e-6, 2e-6, 1e-5);
  check_equal_to_one_rank("llama", Precision::fp32, 1e-6, 2e-6, 1e-5);
}

BOOST_AUTO_TEST_CASE(every_rank_does_what_its_program_says) {
  for (const RecomputePolicy& recompute : {RecomputePolicy::none, RecomputePolicy::block, RecomputePolicy{2},
                                           RecomputePolicy{2, {Keep::attention, Keep::projections, Keep::mlp}}}) {
    Job job(all_ranks(), "llama", Precision::bf16, 1, recompute);
    job.step(0);
    const auto train =
        difference(job.programs.train, expect_trace(job.programs.train, job.rank, job.types), job.engine.trace());
    BOOST_TEST(!train.has_value(), train.value_or(""));
    job.engine.evaluate(job.part(1), 1);
    const auto eval =
        difference(job.programs.eval, expect_trace(job.programs.eval, job.rank, job.types), job.engine.trace());
    BOOST_TEST(!eval.has_value(), eval.value_or(""));
  }
}

BOOST_AUTO_TEST_CASE(recomputed_blocks_give_the_same_bits) {
  Job kept(all_ranks(), "gpt2", Precision::fp32, 2);
  for (std::int64_t step = 0; step < 3; ++step) kept.step(step);
  for (const RecomputePolicy& policy : {RecomputePolicy::block, RecomputePolicy{2}}) {
    Job recomputed(all_ranks(), "gpt2", Precision::fp32, 2, policy);
    for (std::int64_t step = 0; step < 3; ++step) recomputed.step(step);
    for (std::size_t i = 0; i < kept.model.units().size(); ++i)
      BOOST_TEST(at::equal(kept.model.units()[i]->master(), recomputed.model.units()[i]->master()));
  }
}

BOOST_AUTO_TEST_CASE(buckets_of_any_size_give_the_same_gradients_bit_for_bit) {
  for (const auto& [family, precision] : {std::pair("gpt2", Precision::fp32), {"llama", Precision::bf16}}) {
    Job blocks(all_ranks(), family, precision, 2);
    blocks.step(0);
    const auto& units = blocks.model.units();
    std::set<std::size_t> counts{units.size()};
    const auto last_two = static_cast<std::int64_t>(bytes_of(units.back()->gradient()).size() +
                                                    bytes_of(units[units.size() - 2]->gradient()).size());
    for (const std::int64_t bucket : {std::int64_t{1}, last_two, std::int64_t{1} << 40}) {
      Job buckets(all_ranks(), family, precision, 2, RecomputePolicy::none, bucket);
      buckets.step(0);
      counts.insert(buckets.model.units().size());
      for (const Parameter* parameter : blocks.model.parameters())
        BOOST_TEST(at::equal(parameter->gradient(), buckets.model.parameter(parameter->name()).gradient()));
    }
    BOOST_TEST(counts.size() == 3u);  // one unit a block, the last two together, one for all
  }
}

BOOST_AUTO_TEST_CASE(replicas_hold_the_same_bits_after_every_step) {
  Job job(all_ranks(), "llama", Precision::bf16, 2);
  for (std::int64_t step = 0; step < 5; ++step) {
    job.step(step);
    for (const auto& unit : job.model.units()) {
      const std::span<std::byte> bytes = bytes_of(unit->master());
      const std::string mine(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      for (const std::string& other : test::world().all_gather(mine)) BOOST_TEST((other == mine));
    }
  }
}

BOOST_AUTO_TEST_CASE(evaluation_sums_loss_and_tokens_over_all_ranks) {
  Job one(solo_communicator(), "gpt2", Precision::fp64, global_batch);
  Job many(all_ranks(), "gpt2", Precision::fp64, 1);
  const EvaluationOutcome want = one.engine.evaluate(one.part(3), 0);
  const EvaluationOutcome got = many.engine.evaluate(many.part(3), 0);
  BOOST_TEST(got.tokens == want.tokens);
  BOOST_TEST(got.tokens == valid_tokens(3));
  BOOST_TEST(std::abs(got.loss_sum - want.loss_sum) <= 1e-12 * want.loss_sum);
}

BOOST_AUTO_TEST_CASE(a_rank_that_failed_tells_all_ranks_and_no_weight_changes) {
  Job job(all_ranks(), "gpt2", Precision::fp32, 1);
  const at::Tensor before = job.model.units()[1]->master().clone();
  const Rank last = test::world().size() - 1;
  std::exception_ptr failure;
  if (job.rank == last) failure = std::make_exception_ptr(Error(ExitCode::input, "shard 7 is damaged"));
  try {
    job.step(0, failure);
    BOOST_TEST(false, "the step ended as if nothing had failed");
  } catch (const AgreedError& error) {
    BOOST_TEST(error.owner() == last);
    BOOST_TEST((error.code() == ExitCode::input));
    BOOST_TEST(std::string(error.what()).find("shard 7 is damaged") != std::string::npos);
  }
  BOOST_TEST(at::equal(job.model.units()[1]->master(), before));
  job.step(0);  // the lane and the ranks are still in step
}

BOOST_AUTO_TEST_CASE(a_step_that_fails_leaves_nothing_in_flight_on_any_lane) {
  Job job(all_ranks(), "gpt2", Precision::fp32, global_batch);
  std::vector<OperationRecord> records;
  job.transport.take_records(records);
  std::vector<double> large(std::size_t{4} << 20);  // takes longer than a step that computes nothing
  const Ticket ticket = job.transport.all_reduce(static_cast<int>(Lane::reduction), 0,
                                                 std::as_writable_bytes(std::span(large)), DType::f64, Reduce::sum);
  const std::exception_ptr failure = std::make_exception_ptr(Error(ExitCode::input, "no rank has samples"));
  BOOST_CHECK_THROW(job.step(0, failure), AgreedError);
  job.transport.take_records(records);
  BOOST_TEST(std::ranges::any_of(records, [&](const OperationRecord& record) { return record.ticket == ticket; }));
}

BOOST_AUTO_TEST_CASE(a_failure_after_the_heartbeat_leaves_the_step_at_once_on_its_rank_alone) {
  Job job(all_ranks(), "gpt2", Precision::fp32, 1);
  const Rank last = test::world().size() - 1;
  job.session.configure(
      {.watchdog_s = 0,
       .injection = parse_injection(fmt::format("kind=throw,code=5,rank={},phase=optimizer,step=0", last))});
  bool threw_alone = false;
  try {
    job.step(0);
  } catch (const AgreedError& error) {
    BOOST_TEST(false, error.what());
  } catch (const Error& error) {
    threw_alone = error.code() == ExitCode::resources;
    BOOST_TEST(error.what() == "injected failure in optimizer of step 0");
    BOOST_TEST((job.engine.trace().back().what == "all_reduce"));
  }
  BOOST_TEST(threw_alone == (job.rank == last));
}

BOOST_AUTO_TEST_CASE(a_batch_that_one_rank_cannot_use_is_everybodys_error) {
  Job job(all_ranks(), "gpt2", Precision::fp32, global_batch);
  StepBatch batch{.step = 0, .micro_batches = job.part(0), .valid_tokens = 0};
  if (job.rank == 0) batch.micro_batches[0].tokens[3] = vocabulary + 5;
  BOOST_CHECK_EXCEPTION(
      job.engine.run_step(batch, {.step = 0, .valid_tokens = valid_tokens(0), .lr = 1e-3, .failure = nullptr}),
      AgreedError, [](const AgreedError& error) { return error.owner() == 0 && error.code() == ExitCode::input; });
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_changes_no_weight_on_any_rank) {
  Job job(all_ranks(), "llama", Precision::fp32, 2);
  if (job.rank == 0) values_of<float>(job.model.units()[1]->master())[0] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor poisoned = job.model.units()[1]->master().clone();
  const StepOutcome outcome = job.step(0);
  BOOST_TEST(!outcome.updated);
  BOOST_TEST(!std::isfinite(outcome.loss));
  BOOST_TEST(at::equal(job.model.units()[1]->master().slice(0, 1), poisoned.slice(0, 1)));
}

BOOST_AUTO_TEST_CASE(what_fails_on_one_rank_while_a_text_is_sampled_fails_on_all_and_leaves_nothing_behind) {
  Job job(all_ranks(), "llama", Precision::fp64, 1);
  SampleOptions options;
  options.max_tokens = 5;
  const auto text_from = [&](const TokenDraw& fails) {
    std::vector<SampledText> texts{SampledText({1, 2, 3}, options, {.positions = 16})};
    continue_all(job.engine, job.model, Job::texts, texts, [&](std::size_t, std::span<const double> logits) {
      return texts[0].added().size() == 2 && fails ? fails(0, logits) : texts[0].draw(logits);
    });
    return texts[0].tokens();
  };
  const auto thrown_by = [&](const TokenDraw& fails) -> std::optional<AgreedError> {
    try {
      text_from(fails);
    } catch (const AgreedError& error) {
      return error;
    }
    return std::nullopt;
  };
  const Rank last = test::world().size() - 1;
  const auto before = text_from({});
  const auto drawn =
      thrown_by([](std::size_t, std::span<const double>) -> DrawnToken { throw Error(ExitCode::input, "no token"); });
  BOOST_REQUIRE(drawn.has_value());
  BOOST_TEST((drawn->owner() == 0 && drawn->code() == ExitCode::input));
  job.session.configure(
      {.watchdog_s = 0, .injection = parse_injection(fmt::format("kind=throw,code=5,rank={},phase=sample", last))});
  const auto injected = thrown_by({});
  BOOST_REQUIRE(injected.has_value());
  BOOST_TEST((injected->owner() == last && injected->code() == ExitCode::resources));
  job.session.configure({.watchdog_s = 0, .injection = parse_injection("kind=nan,rank=0,phase=sample")});
  const auto poisoned = thrown_by({});
  BOOST_REQUIRE(poisoned.has_value());
  BOOST_TEST((poisoned->owner() == 0 && poisoned->code() == ExitCode::numerics));
  BOOST_TEST(text_from({}) == before);
  BOOST_TEST(job.step(0).updated);
}

#ifndef __SANITIZE_ADDRESS__
// Steps 20 to 60: what a step needs it has by then.
BOOST_AUTO_TEST_CASE(a_step_in_the_steady_state_takes_no_memory_from_the_system) {
  set_up_runtime(1);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    if (!test::all_cases() && (precision == Precision::bf16) != (test::world().size() % 2 == 0)) continue;
    Job job(all_ranks(), "wide gpt2", precision, 1);
    std::int64_t step = 0;
    while (step < 20) job.step(step++);
    const std::int64_t before = minor_faults();
    {
      const NoMoreMemory limit;
      while (step < 60) job.step(step++);
    }
    const auto faults_a_step = static_cast<double>(minor_faults() - before) / 40;
    BOOST_TEST(faults_a_step <= 10);
  }
}
#endif

BOOST_AUTO_TEST_CASE(a_gradient_that_is_not_finite_on_one_rank_leaves_weights_and_moments_of_all_as_they_were) {
  Job job(all_ranks(), "gpt2", Precision::bf16, 1);
  job.step(0);
  std::vector<at::Tensor> before;
  for (const auto& unit : job.model.units()) {
    for (const at::Tensor& state : {unit->master(), unit->compute(), unit->state()[0], unit->state()[1]})
      before.push_back(state.clone());
  }
  const std::string last = std::to_string(test::world().size() - 1);
  for (const char* const phase : {"backward", "reduction", "norm"}) {
    job.session.configure(
        {.watchdog_s = 0, .injection = parse_injection(fmt::format("kind=nan,rank={},phase={},step=1", last, phase))});
    const StepOutcome outcome = job.step(1);
    BOOST_TEST(!outcome.updated, phase);
    BOOST_TEST(std::isfinite(outcome.loss), phase);
    BOOST_TEST(!std::isfinite(outcome.gradient_norm), phase);
    std::size_t at = 0;
    for (const auto& unit : job.model.units()) {
      for (const at::Tensor& state : {unit->master(), unit->compute(), unit->state()[0], unit->state()[1]}) {
        BOOST_TEST(at::equal(state, before[at++]), phase);
      }
    }
  }
  BOOST_TEST(job.step(1).updated);  // nothing of the poison stays
}

BOOST_AUTO_TEST_CASE(steps_that_were_skipped_do_not_count_in_the_bias_corrections) {
  Job straight(all_ranks(), "gpt2", Precision::fp32, 1);
  Job skipping(all_ranks(), "gpt2", Precision::fp32, 1);
  straight.step(0);
  const StepBatch batch{.step = 3, .micro_batches = skipping.part(0), .valid_tokens = 0};
  skipping.engine.run_step(batch,
                           {.step = 3, .valid_tokens = valid_tokens(0), .lr = 1e-3, .skipped = 3, .failure = nullptr});
  for (std::size_t i = 0; i < straight.model.units().size(); ++i) {
    BOOST_TEST(at::equal(straight.model.units()[i]->master(), skipping.model.units()[i]->master()));
  }
}

BOOST_AUTO_TEST_CASE(a_measured_step_has_the_times_of_every_action_in_its_order) {
  for (const std::string family : {"gpt2", "wide gpt2"}) {
    Job job(all_ranks(), family, Precision::fp32, 2);
    const std::vector<Action>& actions = job.programs.train.of(job.rank);
    const std::vector<Interval> times = job.measured_step(0);
    double free_s = 0;
    for (std::size_t i = 0; i < times.size(); ++i) {
      BOOST_TEST(times[i].action == static_cast<int>(i));
      BOOST_TEST((times[i].begin_s > 0 && times[i].end_s >= times[i].begin_s), to_text(job.programs.train, actions[i]));
      for (const int earlier : actions[i].waits)
        BOOST_TEST(times[i].begin_s >= times[static_cast<std::size_t>(earlier)].end_s);
      if (actions[i].lane != Lane::compute) continue;
      BOOST_TEST(times[i].begin_s >= free_s);  // one after the other
      free_s = times[i].end_s;
    }
    const WorkTimes work = work_times(job.programs.train, job.rank, times);
    double total_s = 0;
    for (const auto& [kind, seconds] : work) total_s += kind == "reduction" ? 0 : seconds;
    BOOST_TEST(total_s <= free_s - times.front().begin_s + 1e-9);  // kinds share out the compute lane's time
  }
}

/// Whether a step takes less from the first backward to the last reduction than all that happens in between would one
/// after the other.
bool overlaps(const std::vector<Action>& actions, const std::vector<Interval>& times) {
  double begin_s = std::numeric_limits<double>::max();
  double end_s = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].op == Op::backward) begin_s = std::min(begin_s, times[i].begin_s);
    if (actions[i].op == Op::all_reduce) end_s = std::max(end_s, times[i].end_s);
  }
  double sum_s = 0;
  for (const Interval& time : times)
    sum_s += std::max(0.0, std::min(time.end_s, end_s) - std::max(time.begin_s, begin_s));
  return end_s - begin_s < sum_s;
}

BOOST_AUTO_TEST_CASE(gradients_are_reduced_while_earlier_blocks_are_still_in_backward) {
  if (test::world().size() == 1) return;  // nothing to reduce
  Job job(all_ranks(), "wide gpt2", Precision::fp32, global_batch);
  std::int64_t ranks_that_overlap = 0;
  for (std::int64_t step = 0; step < 1000 && ranks_that_overlap == 0;
       ++step) {  // on a busy machine the lane's thread may get its turn late
    const std::int64_t mine = overlaps(job.programs.train.of(job.rank), job.measured_step(step)) ? 1 : 0;
    ranks_that_overlap = test::world().all_reduce(mine, Reduce::sum);
  }
  BOOST_TEST(ranks_that_overlap > 0);
}

BOOST_AUTO_TEST_SUITE_END()
