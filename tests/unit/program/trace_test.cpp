#include "program/trace.hpp"

#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(traces)

namespace {

using Event = TraceEntry::Event;

/// One exchange: said, and waited for.
std::vector<TraceEntry> exchanged(std::string_view what, std::int64_t bytes, std::int64_t repeats = -1) {
  TraceEntry said{.event = Event::issued, .what = what, .lane = Lane::block, .members = {0, 1}, .bytes = bytes};
  said.at_most = repeats >= 0;
  said.repeats = std::max<std::int64_t>(0, repeats);
  TraceEntry waited = said;
  waited.event = Event::waited;
  return {said, waited};
}
constexpr std::string_view of_rows = "all_to_all_v";

std::vector<TraceEntry> joined(const std::vector<std::vector<TraceEntry>>& parts) {
  std::vector<TraceEntry> all;
  for (const std::vector<TraceEntry>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// The same as one rank recorded it that handed over so many bytes.
std::vector<TraceEntry> there_and_back(std::int64_t there, std::int64_t back) {
  return joined({exchanged(of_rows, there), exchanged(of_rows, back)});
}

/// Rows go to experts and back, in up to two further rounds too; then something else is said.
std::vector<TraceEntry> to_experts_and_back(const std::vector<TraceEntry>& after) {
  return joined({exchanged("all_gather", 64),
                 exchanged(of_rows, 80, 0),
                 exchanged(of_rows, 160, 0),
                 exchanged(of_rows, 80, 2),
                 exchanged(of_rows, 160, 2),
                 after,
                 {{.event = Event::drained, .what = {}}}});
}

}  // namespace

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

BOOST_AUTO_TEST_CASE(rows_that_go_to_experts_may_be_fewer_and_in_fewer_rounds_than_expected_but_not_more_nor_others) {
  const StepProgram program =
      make_catalogue(make_mesh("world", {{"dp_replicate", 2}}), models::tied(), ProgramOptions{}).train;
  const std::vector<TraceEntry> table = exchanged("all_gather", 64), end{{.event = Event::drained, .what = {}}};
  const auto told = [&](const std::vector<std::vector<TraceEntry>>& rounds) {
    return difference(program, to_experts_and_back({}), joined({table, joined(rounds), end})).value_or("");
  };
  for (const auto& sound : std::vector<std::vector<std::vector<TraceEntry>>>{
           {there_and_back(80, 160)},
           {there_and_back(0, 0)},
           {there_and_back(72, 8)},
           {there_and_back(80, 160), there_and_back(80, 160)},
           {there_and_back(8, 160), there_and_back(0, 8)},
           {there_and_back(8, 8), there_and_back(0, 160), there_and_back(80, 0)}})
    BOOST_TEST(told(sound) == "");
  const std::string gathered = "entry 2: expected issued all_to_all_v on lane block among ranks 0 1, uint8, at most 80";
  BOOST_TEST(told({}).starts_with(gathered), told({}));
  BOOST_TEST(told({exchanged(of_rows, 8)}).starts_with("entry 4: expected issued all_to_all_v"));
  for (const auto& [there, back, entry] : {std::tuple{81, 160, 2}, {80, 161, 4}}) {
    BOOST_TEST(told({there_and_back(there, back)}).starts_with(fmt::format("entry {}: ", entry)),
               told({there_and_back(there, back)}));
    const std::string further = told({there_and_back(80, 160), there_and_back(there, back)});
    BOOST_TEST(further.starts_with(fmt::format("entry {}: ", entry + 4)), further);
  }
  BOOST_TEST(told({there_and_back(8, 8), there_and_back(8, 8), there_and_back(8, 8), there_and_back(8, 8)}) ==
             "entry 14: expected drained, recorded issued all_to_all_v on lane block among ranks 0 1, uint8, 8 bytes");
  const std::string cut_short = told({there_and_back(8, 8), exchanged(of_rows, 8)});
  BOOST_TEST(cut_short.starts_with("entry 8: "), cut_short);
  std::vector<TraceEntry> unheard = there_and_back(8, 8);
  unheard.pop_back();  // nobody waited
  BOOST_TEST(told({there_and_back(8, 8), unheard}).starts_with("entry 9: "), told({there_and_back(8, 8), unheard}));
  const std::vector<std::function<void(TraceEntry&)>> otherwise{
      [](TraceEntry& entry) { entry.members = {0, 2}; }, [](TraceEntry& entry) { entry.dtype = DType::f32; },
      [](TraceEntry& entry) { entry.lane = Lane::reduction; }, [](TraceEntry& entry) { entry.what = "all_gather"; }};
  for (const auto& change : otherwise)
    for (const std::size_t first : {0, 1}) {
      std::vector<std::vector<TraceEntry>> rounds{there_and_back(8, 8), there_and_back(8, 8)};
      change(rounds[first].front());
      BOOST_TEST(told(rounds).starts_with(fmt::format("entry {}: ", 2 + 4 * first)), told(rounds));
    }
}

BOOST_AUTO_TEST_CASE(what_follows_rounds_and_looks_like_one_is_not_taken_for_one) {
  const StepProgram program =
      make_catalogue(make_mesh("world", {{"dp_replicate", 2}}), models::tied(), ProgramOptions{}).train;
  const auto agrees = [&](const std::vector<TraceEntry>& after, const std::vector<TraceEntry>& recorded) {
    return !difference(program, to_experts_and_back(after),
                       joined({exchanged("all_gather", 64), recorded, {{.event = Event::drained, .what = {}}}}))
                .has_value();
  };
  // What backward of another layer says first, and of heads: bytes that also a round may have.
  const std::vector<TraceEntry> next = joined({exchanged(of_rows, 80, 0), exchanged(of_rows, 160, 0)}),
                                heads = there_and_back(80, 80);
  for (int further = 0; further <= 2; ++further) {
    std::vector<TraceEntry> rounds;
    for (int i = 0; i <= further; ++i) rounds = joined({rounds, there_and_back(8, 16)});
    BOOST_TEST(agrees(next, joined({rounds, there_and_back(80, 160)})));
    BOOST_TEST(agrees(heads, joined({rounds, heads})));
    BOOST_TEST(agrees(heads, joined({rounds, there_and_back(80, 40)})) == false);
  }
  const auto times = [](int count, std::vector<TraceEntry> of) {
    std::vector<TraceEntry> all;
    for (int i = 0; i < count; ++i) all = joined({all, of});
    return all;
  };
  BOOST_TEST(!agrees(next, times(1, there_and_back(8, 16))));  // the first round; nothing after it
  for (const int count : {2, 3, 4}) BOOST_TEST(agrees(next, times(count, there_and_back(8, 16))));
  BOOST_TEST(!agrees(next, times(5, there_and_back(8, 16))));
  // Rounds, what looks like one, and the rounds of that.
  const std::vector<TraceEntry> rounds_too = joined({next, exchanged(of_rows, 80, 1), exchanged(of_rows, 160, 1)});
  for (const int count : {2, 3, 4, 5}) BOOST_TEST(agrees(rounds_too, times(count, there_and_back(8, 16))));
  for (const int count : {1, 6}) BOOST_TEST(!agrees(rounds_too, times(count, there_and_back(8, 16))));
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
