#include "config/run_length.hpp"

#include "base/error.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(run_lengths)

using namespace lockstep;

namespace {

TrainConfig of_epochs(double epochs) {
  TrainConfig config;
  config.train.epochs = epochs;
  return config;
}

}  // namespace

// Steps are counted one by one until the samples of the epochs have been seen.
BOOST_AUTO_TEST_CASE(epochs_are_as_many_steps_as_begin_in_them) {
  for (std::int64_t tenths = 1; tenths <= 40; ++tenths)
    for (std::int64_t samples = 1; samples <= 30; ++samples)
      for (std::int64_t batch = 1; batch <= 9; ++batch) {
        std::int64_t steps = 0;
        while (10 * steps * batch < tenths * samples) ++steps;
        BOOST_REQUIRE_EQUAL(steps_of(of_epochs(static_cast<double>(tenths) / 10), batch, samples), steps);
      }
  TrainConfig config;
  config.train.max_steps = 7;
  BOOST_TEST(steps_of(config, 5, 100) == 7);
  BOOST_CHECK_EXCEPTION(steps_of(of_epochs(1e6), 1, 1'000'000), Error, [](const Error& error) {
    return std::string(error.what()).find("train.epochs 1000000") == 0 && error.code() == ExitCode::usage;
  });
}

BOOST_AUTO_TEST_CASE(ratios_are_parts_of_the_run_rounded_up) {
  TrainConfig config;
  BOOST_CHECK((length_of(config, 40) == RunLength{40, 0, 40, 0}));
  config.schedule.warmup_steps = 3;
  config.schedule.decay_steps = 30;
  BOOST_CHECK((length_of(config, 40) == RunLength{40, 3, 30, 0}));
  config.schedule = {};
  config.schedule.warmup_ratio = 0.1;
  config.schedule.decay_ratio = 0.8;
  BOOST_CHECK((length_of(config, 40) == RunLength{40, 4, 32, 0}));
  BOOST_CHECK((length_of(config, 41) == RunLength{41, 5, 33, 0}));
  BOOST_TEST(contradiction_of(config.schedule, length_of(config, 41)).empty());
  config.schedule.warmup_ratio = 0.9;
  BOOST_TEST(contradiction_of(config.schedule, length_of(config, 40)) ==
             "warm-up takes 36 steps, but the decay ends at step 32");
  config.schedule.name = ScheduleName::constant;
  BOOST_TEST(contradiction_of(config.schedule, length_of(config, 40)).empty());
}

BOOST_AUTO_TEST_CASE(a_batch_is_said_in_one_way) {
  TrainConfig config;
  config.train.micro_batch = 3;
  BOOST_TEST(!configured_samples_per_rank(config));
  config.train.accumulation = 4;
  BOOST_TEST(configured_samples_per_rank(config).value() == 12);
  config.parallel.micro_batches = 2;
  BOOST_TEST(configured_samples_per_rank(config).value() == 24);
  config.train.global_batch = 24;
  BOOST_TEST(!configured_samples_per_rank(config));
}

BOOST_AUTO_TEST_CASE(what_a_run_resolved_is_read_back_and_nothing_else_is) {
  for (const std::optional<std::int64_t> said : {std::optional<std::int64_t>(), std::optional<std::int64_t>(6)}) {
    ResolvedRun run{12, said, {100, 5, 80, 7}};
    BOOST_CHECK((parse_resolved(to_text(run), "here") == run));
    run.pad_to_multiple_of = 4;
    BOOST_CHECK((parse_resolved(to_text(run), "here") == run));
  }
  for (const char* const text : {"{}", "[]", "3", "{\"global_batch\": 1.5}", "{\"global_batch\": 1}", "no"})
    BOOST_CHECK_EXCEPTION(parse_resolved(text, "here"), Error,
                          [](const Error& error) { return error.code() == ExitCode::input; });
}

BOOST_AUTO_TEST_SUITE_END()
