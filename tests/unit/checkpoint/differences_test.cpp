// What a save says of ranks that should hold the same and do not.
#include "base/error.hpp"
#include "checkpoint/difference.hpp"
#include "checkpoint/save.hpp"
#include "checkpoint/sides.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/run_directory.hpp"

#include <boost/test/unit_test.hpp>

#include <bit>
#include <cmath>
#include <limits>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(differences)

namespace {

std::string difference_of(const char* one, const char* other) {
  return first_difference(parse_json(one, "one"), parse_json(other, "other"));
}

template <class Value>
std::string elements_of(DType dtype, const Box& box, std::vector<Value> one, std::vector<Value> other) {
  ElementDifferences found(dtype);
  found.add(box, 0, std::as_bytes(std::span(one)), std::as_bytes(std::span(other)));
  return found.text();
}

/// What all ranks say, each with its own component, and that nothing was saved.
std::string verdict(const Path& run, const World& world, const std::function<Component(Rank)>& make) {
  const int size = world_size(world.mesh);
  std::vector<std::string> messages(static_cast<std::size_t>(size));
  for (const std::exception_ptr& problem : attempt_on_ranks(size, [&](Communicator& ranks) {
         try {
           save(ranks, {make(ranks.rank())}, {run, 1, world});
         } catch (const Error& error) {
           if (error.code() != ExitCode::verdict) throw;  // the checks of the tests are for one thread
           messages[static_cast<std::size_t>(ranks.rank())] = error.what();
         }
       }))
    BOOST_REQUIRE(!problem);
  for (const std::string& message : messages) BOOST_TEST(message == messages.front());
  BOOST_TEST(list_checkpoints(run).empty());
  return messages.front();
}

Component of_values(Pattern pattern, const std::string& name, const char* json,
                    const std::vector<AxisName>& equal_along = {}) {
  Component component{.key = "part", .pattern = pattern, .equal_along = equal_along, .collect = {}};
  component.collect = [name, value = std::string(json)] {
    StateTree tree;
    tree.set(name, parse_json(value, "a value"));
    return tree;
  };
  return component;
}

template <class Value>
Component of_tensor(Pattern pattern, const World& world, DType dtype, const Shape& shape, std::vector<Value> values) {
  Component component{.key = "part", .pattern = pattern, .collect = {}};
  auto held = std::make_shared<std::vector<Value>>(std::move(values));
  component.collect = [=] {
    StateTree tree;
    tree.add("x", replicated(shape, dtype, world.mesh), std::as_writable_bytes(std::span(*held)));
    return tree;
  };
  return component;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_value_that_differs_is_named_by_its_path) {
  BOOST_TEST(difference_of(R"({"a": 1, "b": [1, {"c": 2}]})", R"({"a": 1, "b": [1, {"c": 2}]})") == "");
  BOOST_TEST(difference_of(R"({"a": 1, "b": [1, {"c": 2}]})", R"({"a": 1, "b": [1, {"c": 3}]})") ==
             "b[1].c is 2 against 3");
  BOOST_TEST(difference_of(R"({"a": [1, 2]})", R"({"a": [1]})") == "a[1] is 2 against nothing");
  BOOST_TEST(difference_of(R"({"a": {}})", R"({"a": {"b": null}})") == "a.b is nothing against null");
  BOOST_TEST(difference_of(R"({"a": 1})", R"({"a": "1"})") == R"(a is 1 against "1")");
  BOOST_TEST(difference_of(R"({"a": 1})", R"({"a": 1.0})") == "a is 1 against 1.0");
  BOOST_TEST(difference_of(R"({"a": {"b": 1}})", R"({"a": [1]})") == R"(a is {"b":1} against [1])");
}

BOOST_AUTO_TEST_CASE(elements_that_differ_are_counted_with_the_first_place_and_the_largest_distance) {
  const Box box{{10, 4}, {2, 3}};
  BOOST_TEST(elements_of<float>(DType::f32, box, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}) == "no element");
  BOOST_TEST(elements_of<float>(DType::f32, box, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4.5F, 5, 2}) ==
             "2 of 6 elements, the first at (11, 4): 4 against 4.5, by at most 4");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  BOOST_TEST(elements_of<float>(DType::f32, box, {1, 2, 3, 4, 5, 6}, {1, 2, nan, 4, 5, 6.25F}) ==
             "2 of 6 elements, the first at (10, 6): 3 against nan, by at most 0.25, 1 of them NaN on one side");
  BOOST_TEST(elements_of<float>(DType::f32, box, {1, 2, 3, 4, 5, nan}, {1, 2, 3, 4, 5, 0}) ==
             "1 of 6 elements, the first at (11, 6): nan against 0, 1 of them NaN on one side");
  BOOST_TEST(elements_of<float>(DType::f32, {{0}, {1}}, {0.0F}, {-0.0F}) ==
             "1 of 1 element, the first at (0): 0 against -0, by at most 0");
  BOOST_TEST(elements_of<std::uint16_t>(DType::bf16, {{3}, {2}}, {0x3f80, 0x4000}, {0x3f80, 0x4001}) ==
             "1 of 2 elements, the first at (4): 2 against 2.015625, by at most 0.015625");
  constexpr std::int64_t large = (std::int64_t{1} << 53) + 1;  // which no double has
  BOOST_TEST(elements_of<std::int64_t>(DType::i64, {{}, {}}, {large}, {large - 1}) ==
             "1 of 1 element, the first at (): 9007199254740993 against 9007199254740992, by at most 1");
  BOOST_TEST(elements_of<std::int64_t>(DType::i64, {{}, {}}, {-1}, {2}) ==
             "1 of 1 element, the first at (): -1 against 2, by at most 3");
}

BOOST_AUTO_TEST_CASE(the_larger_side_is_held_right_and_half_is_no_majority) {
  const std::vector<std::string> seen{"b", "a", "", "a", "c", "b"};
  const Sides sides = sides_of(seen);
  BOOST_TEST((sides == Sides{{0, 5}, {1, 3}, {4}}));
  BOOST_TEST(to_text(sides) == "ranks 1,3 and rank 4 against ranks 0,5");
  BOOST_TEST(!has_majority(sides));
  BOOST_TEST(!has_majority({{0}, {1}}));
  BOOST_TEST(!has_majority({{0, 1}, {2, 3}}));
  BOOST_TEST(has_majority({{1, 2}, {0}}));
  BOOST_TEST(has_majority({{0, 1, 2}, {3}, {4}}));
  BOOST_TEST(!has_majority({{0, 1}, {2}, {3}}));
}

BOOST_FIXTURE_TEST_CASE(a_value_that_differs_on_one_rank_is_named_by_its_path, TemporaryFolder) {
  const World world = single_axis_world(3);
  BOOST_TEST(verdict(path, world,
                     [](Rank rank) {
                       return of_values(
                           Pattern::replicated, "schedule",
                           rank == 2 ? R"({"last_lr": [0.5, 0.25, 0.1]})" : R"({"last_lr": [0.5, 0.25, 0.2]})");
                     }) ==
             "replicas differ in the values of component 'part', declared replicated: rank 2 against ranks 0-1: "
             "schedule.last_lr[2] is 0.1 against 0.2");
  // Shorter by a digit, of which the spaces behind the text know nothing.
  BOOST_TEST(
      verdict(path, world, [](Rank rank) { return of_values(Pattern::replicated, "n", rank == 0 ? "9" : "10"); }) ==
      "replicas differ in the values of component 'part', declared replicated: rank 0 against ranks 1-2: n is 9 "
      "against 10");
}

BOOST_FIXTURE_TEST_CASE(what_is_declared_global_must_be_equal_on_all_ranks, TemporaryFolder) {
  const World world = single_axis_world(3);
  BOOST_TEST(
      verdict(path, world, [](Rank rank) { return of_values(Pattern::global, "seed", rank == 1 ? "17" : "16"); }) ==
      "replicas differ in the values of component 'part', declared global: rank 1 against ranks 0,2: seed is 17 "
      "against 16");
  BOOST_TEST(verdict(path, world,
                     [&](Rank rank) {
                       return of_tensor<std::uint8_t>(Pattern::global, world, DType::u8, {3},
                                                      {1, static_cast<std::uint8_t>(rank), 3});
                     }) ==
             "replicas differ in part/x, declared global: rank 1 and rank 2 against rank 0: 1 of 3 elements, the first "
             "at (1): 1 against 0, by at most 1");
}

BOOST_FIXTURE_TEST_CASE(one_bit_of_a_tensor_is_named_by_its_element, TemporaryFolder) {
  const World world = single_axis_world(3);
  BOOST_TEST(verdict(path, world,
                     [&](Rank rank) {
                       std::vector<float> values(24, 1.0F);
                       if (rank == 0)
                         values[17] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(1.0F) ^ (1U << 22));
                       return of_tensor(Pattern::replicated, world, DType::f32, {4, 6}, values);
                     }) ==
             "replicas differ in part/x [0:4, 0:6]: rank 0 against ranks 1-2: 1 of 24 elements, the first at (2, 5): "
             "1.5 against 1, by at most 0.5");
  BOOST_TEST(verdict(path, world,
                     [&](Rank rank) {
                       std::vector<std::uint16_t> values(5, 0x3f80);
                       if (rank == 2) values[4] ^= 1;
                       return of_tensor(Pattern::replicated, world, DType::bf16, {5}, values);
                     }) ==
             "replicas differ in part/x [0:5]: rank 2 against ranks 0-1: 1 of 5 elements, the first at (4): 1.0078125 "
             "against 1, by at most 0.0078125");
  // State of each rank that was declared to be that of all.
  BOOST_TEST(verdict(path, world,
                     [&](Rank rank) {
                       return of_tensor<std::int32_t>(Pattern::replicated, world, DType::i32, {2}, {10 * rank, 7});
                     }) ==
             "replicas differ in part/x [0:2]: rank 1 and rank 2 against rank 0: 1 of 2 elements, the first at (0): 10 "
             "against 0, by at most 10");
}

BOOST_FIXTURE_TEST_CASE(elements_are_counted_over_all_pieces_of_a_tensor, TemporaryFolder) {
  const World world = single_axis_world(2);
  const Shape shape{6000, 1000};  // 24 MB: pieces of more than 1 MiB
  const std::string message = verdict(path, world, [&](Rank rank) {
    std::vector<float> values(6'000'000, 2.0F);
    for (const std::size_t at : {1'234'567U, 1'234'568U, 5'999'999U})
      if (rank == 1) values[at] = at == 5'999'999U ? -6.0F : 3.0F;
    return of_tensor(Pattern::replicated, world, DType::f32, shape, std::move(values));
  });
  BOOST_TEST(message.starts_with("replicas differ in part/x (2 pieces): rank 1 against rank 0: 3 of "), message);
  BOOST_TEST(message.ends_with(" elements, the first at (1234, 567): 3 against 2, by at most 8"), message);
}

BOOST_FIXTURE_TEST_CASE(groups_of_one_name_are_cells_of_their_own, TemporaryFolder) {
  const World world{make_mesh("world", {{"tp", 2}, {"dp_replicate", 3}}), {}};
  const auto group = [&](Rank rank, Rank other) {
    const int tp = coordinate(world.mesh, rank, "tp");
    return of_values(Pattern::per_group, "state", fmt::format("[{}, {}]", tp, rank == other ? 1 : 0).c_str(),
                     {"dp_replicate"});
  };
  for (Rank other = 0; other < 6; ++other) {
    const int tp = coordinate(world.mesh, other, "tp");
    std::vector<std::string> rest;
    for (Rank rank = 0; rank < 6; ++rank)
      if (rank != other && coordinate(world.mesh, rank, "tp") == tp) rest.push_back(fmt::format("{}", rank));
    const std::string message = verdict(path, world, [&](Rank rank) { return group(rank, other); });
    BOOST_TEST(message.starts_with(fmt::format(
                   "replicas differ in the values of component 'part', declared per_group, in cell tp={}: rank {} ", tp,
                   other)),
               message);
    BOOST_TEST(message.ends_with(": state[1] is 1 against 0"), message);
    for (const std::string& rank : rest) BOOST_TEST(message.find(rank) != std::string::npos);
  }
}

BOOST_FIXTURE_TEST_CASE(a_save_in_the_background_tells_of_its_copy_and_not_of_what_the_state_has_become,
                        TemporaryFolder) {
  const World world = single_axis_world(2);
  const auto told = [&](std::uint64_t memory) {
    std::string message;
    for (const std::exception_ptr& problem : attempt_on_ranks(2, [&](Communicator& ranks) {
           std::vector<float> first(40'000, 1.0F), second(40'000, 1.0F);
           if (ranks.rank() == 1) first[5] = 3.0F;
           Component component{.key = "part", .collect = {}};
           component.collect = [&] {
             StateTree tree;
             tree.add("a", replicated({40'000}, DType::f32, world.mesh), std::as_writable_bytes(std::span(first)));
             tree.add("b", replicated({40'000}, DType::f32, world.mesh), std::as_writable_bytes(std::span(second)));
             return tree;
           };
           Saver saver(ranks);
           try {
             saver.begin({component}, {path, 1, world}, memory);
             first.assign(first.size(), 7.0F);
             saver.advance(true);
           } catch (const Error& error) {
             if (ranks.rank() == 0) message = error.what();
           }
         }))
      BOOST_REQUIRE(!problem);
    BOOST_TEST(list_checkpoints(path).empty());
    return message;
  };
  BOOST_TEST(told(0) ==
             "replicas differ in part/a [0:40000]: rank 1 against rank 0: 1 of 40000 elements, the first at (5): 3 "
             "against 1, by at most 2");
  BOOST_TEST(told(160'000) ==
             "replicas differ in part/a [0:40000]: rank 1 against rank 0 (the compared bytes are no longer available)");
}

BOOST_FIXTURE_TEST_CASE(values_that_are_not_compared_may_have_any_length, TemporaryFolder) {
  const World world = single_axis_world(3);
  on_ranks(3, [&](Communicator& ranks) {
    Component component =
        of_values(Pattern::replicated, "text",
                  ("\"" + std::string(static_cast<std::size_t>(300 * ranks.rank()), 'x') + "\"").c_str());
    component.validation = Validation::none;
    save(ranks, {component}, {path, 1, world});
  });
  const std::string text = CheckpointReader(checkpoint_folder(path, 1)).values_text("part", "all");
  BOOST_TEST((parse_json(text, "values") == Json{{"text", ""}}));
}

BOOST_AUTO_TEST_SUITE_END()
