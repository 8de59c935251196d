// Blocks that ranks share: what these hold. What they compute: compositions_test.cpp.
#include "composition_job.hpp"
#include "harness/share.hpp"
#include "tensor/live_memory.hpp"
#include "tensor/runtime.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>

BOOST_AUTO_TEST_SUITE(shared_blocks)

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_CASE(ranks_that_share_blocks_hold_what_the_plan_says_and_about_half_of_what_one_holds) {
  if (test::world().size() != 2) return;
  set_up_runtime(1);  // counts what tensors take
  Share share(2);
  for (const Precision precision : {Precision::bf16, Precision::fp32}) {
    if (!share.takes()) continue;
    std::int64_t alone = 0;
    for (const auto& [tensor, sequence] : {std::pair{1, false}, {2, false}, {2, true}}) {
      const Composition how{.replicas = 2 / tensor,
                            .micro_batch = global_batch / 2,
                            .family = "large llama",
                            .tensor = tensor,
                            .sequence = sequence};
      const std::int64_t before = live_bytes();
      Job job(all_ranks(), how, precision, 0.5);
      reset_peak_live_bytes();
      job.step(0);
      const std::int64_t planned = job.peak(Arena::device).peak_bytes, counted = peak_live_bytes() - before;
      const std::string text = fmt::format("{}: {} bytes planned, {} counted", how.text(), planned, counted);
      BOOST_TEST(std::abs(planned - counted) < counted / 20, text);
      if (tensor == 1)
        alone = counted;
      else
        BOOST_TEST(counted < alone * 55 / 100, text);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
