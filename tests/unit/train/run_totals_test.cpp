#include "train/run_totals.hpp"

#include "base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(run_totals)

namespace {

Manifest manifest_with(const std::string& text) {
  Manifest manifest;
  manifest.documents = {{"config.yaml", "model: tiny"}, {run_totals_document, text}};
  return manifest;
}

const RunTotals some{.wall_s = 12.25,
                     .samples = 24,
                     .losses = 5,
                     .loss_sum = 0.1,
                     .timed = {.steps = 4, .samples = 16, .tokens = 128, .seconds = 2.5, .peak_flops = 1e12}};

}  // namespace

BOOST_AUTO_TEST_CASE(a_checkpoint_gives_back_the_totals_that_it_was_given) {
  BOOST_TEST((run_totals_of(manifest_with(document_of(some))) == some));
  RunTotals without_peak = some;
  without_peak.timed.peak_flops.reset();
  BOOST_TEST((run_totals_of(manifest_with(document_of(without_peak))) == without_peak));
  BOOST_TEST(!run_totals_of(Manifest()).has_value());
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_leaves_the_other_totals) {
  RunTotals infinite = some;
  infinite.loss_sum = std::numeric_limits<double>::infinity();
  const auto read = run_totals_of(manifest_with(document_of(infinite)));
  BOOST_TEST(std::isnan(read->loss_sum));
  BOOST_TEST(read->samples == 24);
}

BOOST_AUTO_TEST_CASE(a_document_of_other_making_is_refused) {
  for (const std::string text : {"", "[]", "{}", R"({"wall_s": 1})"}) {
    BOOST_CHECK_EXCEPTION(run_totals_of(manifest_with(text)), Error,
                          [](const Error& error) { return error.code() == ExitCode::input; });
  }
  std::string fraction = document_of(some);
  fraction.replace(fraction.find("24"), 2, "24.5");
  BOOST_CHECK_THROW(run_totals_of(manifest_with(fraction)), Error);
}

BOOST_AUTO_TEST_CASE(totals_of_two_starts_add_up_and_the_peak_is_known_if_both_are) {
  const RunTotals twice = some + some;
  BOOST_TEST(
      (twice == RunTotals{.wall_s = 24.5,
                          .samples = 48,
                          .losses = 10,
                          .loss_sum = 0.2,
                          .timed = {.steps = 8, .samples = 32, .tokens = 256, .seconds = 5, .peak_flops = 2e12}}));
  BOOST_TEST((some + RunTotals() == some && RunTotals() + some == some));
  RunTotals unknown = some;
  unknown.timed.peak_flops.reset();
  BOOST_TEST(!(some + unknown).timed.peak_flops.has_value());
}

BOOST_AUTO_TEST_SUITE_END()
