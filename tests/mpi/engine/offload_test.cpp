// Memory of the host in all ways to divide a step: the bits of a job that has all in the memory of the device.
#include "composition_job.hpp"
#include "harness/share.hpp"
#include "tensor/live_memory.hpp"
#include "tensor/runtime.hpp"

#include <ATen/ops/equal.h>
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(offload)

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_CASE(what_lies_in_host_memory_gives_the_bits_of_what_does_not) {
  const int ranks = test::world().size();
  std::vector<Composition> ways{{.replicas = ranks, .micro_batch = global_batch}};
  for (int zero = 1; zero <= 3 && ranks > 1; ++zero) {
    ways.push_back({.shards = ranks, .zero = zero, .prefetch = zero - 1, .micro_batch = global_batch});
    ways.push_back(
        {.shards = ranks, .zero = zero, .accumulate = Accumulate::shards, .micro_batch = 1, .family = "llama"});
    if (ranks % 2 == 0) ways.push_back({.replicas = 2, .shards = ranks / 2, .zero = zero, .micro_batch = 1});
  }
  if (ranks == 4) {
    ways.push_back({.replicas = 2, .shards = 2, .accumulate = Accumulate::sums, .micro_batch = 1});
    ways.push_back({.shards = 4, .inner = 2, .micro_batch = 1});
    ways.push_back({.shards = 4, .micro_batch = 2, .family = "gpt2 in parts", .reduce = DType::bf16});
  }
  if (ranks == 2) ways.push_back({.replicas = 2, .local = {.axes = {"dp_replicate"}, .start_step = 1, .period = 1}});
  for (const Composition& one : pipelines())
    if (one.ranks() == ranks) ways.push_back(one);
  Share share(8);
  bool bf16 = false;
  std::int64_t gone = 0;  // of what blocks keep
  for (const Composition& how : ways) {
    if (!share.takes()) continue;
    bf16 = !bf16;
    const Precision precision = bf16 ? Precision::bf16 : Precision::fp64;
    std::vector<Composition> offloaded;
    for (const OffloadOptions& offload :
         {OffloadOptions{.optimizer = true}, OffloadOptions{.shards = true}, OffloadOptions{.activations = true},
          OffloadOptions{.shards = true, .activations = true}}) {
      if (offload.shards && how.shards == 1) continue;
      offloaded.push_back(how);
      offloaded.back().offload = offload;
      offloaded.push_back(offloaded.back());
      offloaded.back().in_backward = true;
    }
    Job plain(all_ranks(), how, precision, std::nullopt);
    std::vector<StepOutcome> want;
    for (std::int64_t step = 0; step < 2; ++step) want.push_back(plain.step(step));
    const double loss = plain.evaluate(3).loss_sum;
    for (const Composition& own : offloaded) {
      const std::int64_t host_before = live_bytes(Arena::host);
      Job job(all_ranks(), own, precision, std::nullopt);
      for (std::int64_t step = 0; step < 2; ++step) {
        const StepOutcome got = job.step(step);
        BOOST_TEST(got.loss == want[static_cast<std::size_t>(step)].loss, own.text());
        BOOST_TEST(got.gradient_norm == want[static_cast<std::size_t>(step)].gradient_norm, own.text());
        const auto fault = job.trace_fault(step);
        BOOST_TEST(!fault.has_value(), own.text() << ": " << fault.value_or(""));
      }
      BOOST_TEST(job.evaluate(3).loss_sum == loss, own.text());
      if (own.offload.optimizer || own.offload.shards)
        BOOST_TEST(job.planned(Arena::device, SlotKind::optimizer_state) == 0, own.text());
      if (own.offload.activations && how.recompute == RecomputePolicy::none)
        gone += job.peak(Arena::host).bytes[SlotKind::host_stash];
      BOOST_TEST(live_bytes(Arena::host) - host_before == job.planned(Arena::host), own.text());
      if (own.offload.shards)
        for (const SlotKind kind : {SlotKind::master, SlotKind::compute_copy, SlotKind::gradient})
          BOOST_TEST(job.planned(Arena::device, kind) == 0, own.text());
      for (std::size_t i = 0; i < plain.model().units().size(); ++i) {
        const Unit &one = *plain.model().units()[i], &other = *job.model().units()[i];
        BOOST_TEST(at::equal(other.master(), one.master()), own.text());
        BOOST_TEST(at::equal(other.compute(), one.compute()), own.text());
        if (!own.in_backward && one.is_trained()) BOOST_TEST(at::equal(other.gradient(), one.gradient()), own.text());
        for (std::size_t kept = 0; kept < one.state().size(); ++kept)
          BOOST_TEST(at::equal(other.state()[kept], one.state()[kept]), own.text());
      }
    }
  }
  BOOST_TEST(gone > 0);
}

BOOST_AUTO_TEST_CASE(what_a_step_holds_at_most_in_each_arena_is_what_its_plan_says) {
  const int ranks = test::world().size();
  if (ranks != 2) return;
  set_up_runtime(1);  // counts what tensors take
  Share share(4);
  for (const bool in_backward : {true, false}) {
    for (const Precision precision : {Precision::bf16, Precision::fp32}) {
      if (!share.takes()) continue;
      Composition how{.shards = ranks, .micro_batch = global_batch, .family = "large llama"};
      how.in_backward = in_backward;
      std::int64_t kept = 0;
      for (const bool shards : {false, true}) {
        how.offload.shards = shards;
        const std::int64_t device_before = live_bytes(), host_before = live_bytes(Arena::host);
        Job job(all_ranks(), how, precision, std::nullopt);
        reset_peak_live_bytes();
        job.step(0);
        const std::int64_t planned = job.peak(Arena::device).peak_bytes, counted = peak_live_bytes() - device_before;
        const std::string text = fmt::format("{}: {} bytes planned, {} counted", how.text(), planned, counted);
        BOOST_TEST(std::abs(planned - counted) < counted / 20, text);
        BOOST_TEST(peak_live_bytes(Arena::host) - host_before == job.peak(Arena::host).peak_bytes, text);
        if (shards) BOOST_TEST(counted < kept - kept / 4, text);
        kept = counted;
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
