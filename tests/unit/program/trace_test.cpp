#include "program/trace.hpp"

#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(traces)

BOOST_AUTO_TEST_CASE(a_trace_is_compared_action_by_action_and_the_first_difference_is_told) {
  const StepProgram program = make_catalogue(make_mesh("world", {{"dp_replicate", 2}}), models::tied(), {}).train;
  const std::vector<TraceEntry> expected = expect_trace(program, 1);
  BOOST_TEST(expected.size() == program.of(1).size());
  BOOST_TEST(!difference(program, expected, expected).has_value());
  std::vector<TraceEntry> recorded = expected;
  recorded.pop_back();
  BOOST_TEST(difference(program, expected, recorded).value() ==
             "action 25: expected optimizer unit head, recorded nothing");
  recorded = expected;
  recorded[6].bytes = 8;
  BOOST_TEST(difference(program, expected, recorded).value() ==
             "action 6: expected all_reduce unit head over dp_replicate, 64 bytes, recorded all_reduce unit head over "
             "dp_replicate, 8 bytes");
  recorded = expected;
  recorded[0].micro_batch = 1;
  BOOST_TEST(difference(program, expected, recorded).value() ==
             "action 0: expected forward block embedding mb 0, recorded forward block embedding mb 1");
}

BOOST_AUTO_TEST_SUITE_END()
