#include "program/trace.hpp"

#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(traces)

BOOST_AUTO_TEST_CASE(a_trace_is_compared_entry_by_entry_and_the_first_difference_is_told) {
  const UnitTypes types{DType::f32, DType::bf16, models::moments(DType::f32)};
  const StepProgram program = make_catalogue(make_mesh("world", {{"dp_replicate", 2}}), models::tied(types), {}).train;
  const std::vector<TraceEntry> expected = expect_trace(program, 1, types);
  BOOST_TEST(!difference(program, expected, expected).has_value());
  const auto told = [&](const auto& change) {
    std::vector<TraceEntry> recorded = expected;
    change(recorded);
    return difference(program, expected, recorded).value_or("");
  };
  const auto issued = static_cast<std::size_t>(
      std::ranges::find(expected, TraceEntry::Event::issued, &TraceEntry::event) - expected.begin());
  BOOST_TEST(told([](auto& recorded) { recorded.pop_back(); }).ends_with("expected drained, recorded nothing"));
  BOOST_TEST(
      told([&](auto& recorded) { recorded[issued].bytes = 8; }) ==
      fmt::format("entry {}: expected issued all_reduce on lane reduction among ranks 0 1, fp32, 64 bytes, recorded "
                  "issued all_reduce on lane reduction among ranks 0 1, fp32, 8 bytes",
                  issued));
  BOOST_TEST(told([&](auto& recorded) { recorded[issued].members = {1}; }).find("among ranks 1, fp32") !=
             std::string::npos);
  BOOST_TEST(told([](auto& recorded) { recorded[0].micro_batch = 1; }) ==
             "entry 0: expected computed forward block embedding mb 0, recorded computed forward block embedding mb 1");
}

BOOST_AUTO_TEST_CASE(memory_that_a_collective_holds_is_released_when_it_is_waited_for) {
  const UnitTypes types{DType::f32, DType::f32, models::moments(DType::f32)};
  const Mesh mesh = make_mesh("world", {{"dp_shard", 2}});
  const StepProgram program = make_catalogue(mesh, models::tied(types, 0, {{"dp_shard"}, 2}), {}).train;
  const std::vector<TraceEntry> expected = expect_trace(program, 0, types);
  const auto position = [&](TraceEntry::Event event, std::string_view what) {
    return std::ranges::find_if(expected,
                                [&](const TraceEntry& entry) { return entry.event == event && entry.what == what; }) -
           expected.begin();
  };
  BOOST_TEST(position(TraceEntry::Event::acquired, "gathered") < position(TraceEntry::Event::issued, "all_gather"));
  BOOST_TEST(position(TraceEntry::Event::waited, "all_gather") < position(TraceEntry::Event::computed, "forward"));
  BOOST_TEST(position(TraceEntry::Event::issued, "reduce_scatter") <
             position(TraceEntry::Event::released, "local_gradient"));
}

BOOST_AUTO_TEST_SUITE_END()
