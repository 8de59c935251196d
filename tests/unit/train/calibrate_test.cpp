#include "train/calibrate.hpp"

#include "base/json.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(calibrations)

BOOST_AUTO_TEST_CASE(the_median_does_not_follow_one_slow_step) {
  BOOST_TEST(median_of({3, 1, 90, 2, 4}) == 3);
  BOOST_TEST(median_of({4, 1, 3, 2}) == 2.5);
  BOOST_TEST(median_of({7}) == 7);
}

BOOST_AUTO_TEST_CASE(the_rows_have_the_spread_of_times_and_the_memory_of_each_rank) {
  constexpr std::int64_t mib = 1 << 20;
  const std::vector<Row> rows = calibration_rows({.data = "random tokens: data.path is not set",
                                                  .step_s = {2, 2.5, 2, 3, 2.25},
                                                  .warmup_steps = 1,
                                                  .tokens_per_s = 1200,
                                                  .mfu = 0.25,
                                                  .peak_bytes = {200 * mib, 300 * mib}});
  const Json json = to_json(rows)["measured"];
  BOOST_TEST(json["step_s"] == 2.25);
  BOOST_TEST(json["step_s_min"] == 2.0);
  BOOST_TEST(json["step_s_max"] == 3.0);
  BOOST_TEST(json["mfu"] == 0.25);
  BOOST_TEST(json["peak_memory_bytes"] == 300 * mib);
  BOOST_TEST(json["peak_memory_bytes_rank_0"] == 200 * mib);
  const std::string text = to_text(rows);
  BOOST_TEST(text.find("2.2 s, median of 5 steps after 1 step of warm-up") != std::string::npos, text);
  BOOST_TEST(text.find("3.0 s, spread 44.4 % of the median") != std::string::npos, text);
  BOOST_TEST(text.find("300 MiB, on rank 1") != std::string::npos, text);
  BOOST_TEST(text.find("25 %") != std::string::npos, text);
}

BOOST_AUTO_TEST_SUITE_END()
