#include "base/error.hpp"
#include "data/sample_order.hpp"
#include "program/batch_plan.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <set>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(sample_order)

SampleOrder order_of(std::int64_t samples, std::uint64_t seed, Shuffle shuffle = Shuffle::every_epoch) {
  return SampleOrder({.datasets = {samples}, .seed = seed, .shuffle = shuffle});
}

BOOST_AUTO_TEST_CASE(windows_share_their_border_token_and_use_every_label_that_fits) {
  for (std::int64_t length = 1; length <= 7; ++length) {
    for (std::int64_t tokens = length + 1; tokens <= 60; ++tokens) {
      const SampleWindows windows(tokens, length);
      std::set<std::int64_t> labels;
      for (std::int64_t i = 0; i < windows.count(); ++i) {
        BOOST_REQUIRE_LE(windows.begin(i) + length + 1, tokens);
        for (std::int64_t t = 1; t <= length; ++t) BOOST_REQUIRE(labels.insert(windows.begin(i) + t).second);
      }
      BOOST_REQUIRE_LT(tokens - 1 - static_cast<std::int64_t>(labels.size()), length);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_stream_shorter_than_a_window_is_refused_with_its_numbers) {
  BOOST_CHECK_EXCEPTION(SampleWindows(64, 64), Error, [](const Error& error) {
    return error.code() == ExitCode::input &&
           std::string(error.what()) == "the split has 64 tokens: too few for a sample of 64 tokens and its last label";
  });
}

BOOST_AUTO_TEST_CASE(every_sample_comes_once_an_epoch_in_an_order_of_its_own) {
  for (const std::int64_t samples : {1, 2, 3, 17, 100}) {
    const SampleOrder order = order_of(samples, 5);
    std::vector<std::vector<std::int64_t>> epochs;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::int64_t> windows;
      for (std::int64_t i = 0; i < samples; ++i) windows.push_back(order.sample_at({epoch, i}));
      const std::set<std::int64_t> distinct(windows.begin(), windows.end());
      BOOST_TEST(static_cast<std::int64_t>(distinct.size()) == samples);
      BOOST_TEST((*distinct.begin() == 0 && *distinct.rbegin() == samples - 1));
      epochs.push_back(windows);
    }
    if (samples >= 17) BOOST_TEST((epochs[0] != epochs[1] && epochs[1] != epochs[2] && epochs[0] != epochs[2]));
    if (samples >= 17) BOOST_TEST(order.sample_at({0, 3}) != order_of(samples, 6).sample_at({0, 3}));
  }
  const SampleOrder each = order_of(17, 5), once = order_of(17, 5, Shuffle::once);
  for (std::int64_t sample = 0; sample < 17; ++sample)
    for (const std::int64_t epoch : {0, 1, 9})
      BOOST_TEST(once.sample_at({epoch, sample}) == each.sample_at({0, sample}));
  BOOST_TEST(order_of(17, 5, Shuffle::never).sample_at({4, 11}) == 11);
}

BOOST_AUTO_TEST_CASE(positions_advance_over_epochs_as_if_sample_by_sample) {
  const SampleOrder order = order_of(7, 1);
  for (std::int64_t steps = 0; steps < 40; ++steps) {
    DataPosition walked;
    for (std::int64_t i = 0; i < steps; ++i) {
      if (++walked.sample == 7) walked = {walked.epoch + 1, 0};
    }
    BOOST_TEST((order.advance({0, 0}, steps) == walked));
  }
}

BOOST_AUTO_TEST_CASE(shares_are_contiguous_and_differ_by_at_most_one_the_first_ranks_having_more) {
  BOOST_TEST((share_of(7, 3, 0) == SampleRange{0, 3}));
  BOOST_TEST((share_of(7, 3, 1) == SampleRange{3, 2}));
  BOOST_TEST((share_of(7, 3, 2) == SampleRange{5, 2}));
  for (std::int64_t total = 0; total <= 30; ++total) {
    for (std::int64_t world = 1; world <= 9; ++world) {
      std::int64_t next = 0;
      for (std::int64_t rank = 0; rank < world; ++rank) {
        const SampleRange share = share_of(total, world, rank);
        BOOST_REQUIRE_EQUAL(share.begin, next);
        BOOST_REQUIRE(share.count == total / world || share.count == total / world + 1);
        if (rank > 0) BOOST_REQUIRE_LE(share.count, share_of(total, world, rank - 1).count);
        next += share.count;
      }
      BOOST_REQUIRE_EQUAL(next, total);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
