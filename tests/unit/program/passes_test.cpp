#include "program/passes.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <set>

using namespace lockstep;

namespace {

std::vector<std::string> words(const StepProgram& program) {
  std::vector<std::string> result;
  for (const Action& action : program.of(0)) result.push_back(to_text(program, action));
  return result;
}

void compare(const StepProgram& program, const std::vector<std::string>& expected) {
  const auto found = words(program);
  BOOST_TEST(found == expected, boost::test_tools::per_element());
}

const Mesh two = make_mesh("world", {{"dp_replicate", 2}});
const Mesh one = make_mesh("world", {{"dp_replicate", 1}});

}  // namespace

BOOST_AUTO_TEST_SUITE(passes)

BOOST_AUTO_TEST_CASE(a_stage_runs_forward_and_backward_one_micro_batch_after_the_other) {
  compare(schedule_training(one, {{.micro_batches = 2}}),
          {"forward stage 0 mb 0", "backward stage 0 mb 0", "forward stage 0 mb 1", "backward stage 0 mb 1"});
  compare(schedule_forward("eval", one, {{.micro_batches = 2}}), {"forward stage 0 mb 0", "forward stage 0 mb 1"});
  BOOST_CHECK_EXCEPTION(schedule_training(one, {{.micro_batches = 0}}), Error,
                        [](const Error& error) { return error.code() == ExitCode::usage; });
}

BOOST_AUTO_TEST_CASE(a_stage_becomes_its_blocks_and_backward_runs_them_in_reverse) {
  compare(expand(schedule_training(one, {{.micro_batches = 1}}), models::tied()),
          {"forward block embedding mb 0", "forward block layer.0 mb 0", "forward block layer.1 mb 0",
           "forward block head mb 0", "backward block head mb 0", "backward block layer.1 mb 0",
           "backward block layer.0 mb 0", "backward block embedding mb 0"});
}

BOOST_AUTO_TEST_CASE(only_recomputable_blocks_are_computed_again_right_before_their_backward) {
  const ModelPlan plan = models::tied();
  const StepProgram expanded = expand(schedule_training(one, {{.micro_batches = 1}}), plan);
  compare(recompute(expanded, plan, RecomputePolicy::block),
          {"forward block embedding mb 0", "forward block layer.0 mb 0", "forward block layer.1 mb 0",
           "forward block head mb 0", "backward block head mb 0", "recompute block layer.1 mb 0",
           "backward block layer.1 mb 0", "recompute block layer.0 mb 0", "backward block layer.0 mb 0",
           "backward block embedding mb 0"});
  BOOST_TEST((recompute(expanded, plan, RecomputePolicy::none) == expanded));
}

BOOST_AUTO_TEST_CASE(each_block_may_keep_values_of_its_own_which_live_until_its_backward) {
  ModelPlan plan = models::tied();
  for (const std::size_t block : {1, 2})
    for (std::size_t index = 0; index < KeepSet::count; ++index)
      plan.blocks[block].recomputations.push_back(
          {.kept_bytes = KeepSet::at(index).has(Keep::attention) ? 300 : 20, .workspace_bytes = 5, .flops = 4});
  RecomputePolicy policy;
  policy.blocks = {std::nullopt, KeepSet{Keep::attention}, KeepSet{}, std::nullopt};
  const StepProgram program = recompute(expand(schedule_training(one, {{.micro_batches = 1}}), plan), plan, policy);
  compare(program, {"forward block embedding mb 0", "forward block layer.0 mb 0", "forward block layer.1 mb 0",
                    "forward block head mb 0", "backward block head mb 0", "recompute block layer.1 mb 0",
                    "backward block layer.1 mb 0", "recompute block layer.0 mb 0 without attention",
                    "backward block layer.0 mb 0", "backward block embedding mb 0"});
  const StepProgram allocated = allocate(program, plan);
  const RankClass& ranks = allocated.class_of(0);
  const auto bytes = [&](const std::vector<int>& slots, SlotKind kind) {
    std::int64_t sum = 0;
    for (const int slot : slots)
      if (ranks.slots[static_cast<std::size_t>(slot)].kind == kind)
        sum += ranks.slots[static_cast<std::size_t>(slot)].bytes;
    return sum;
  };
  const auto at = [&](std::size_t position) -> const Slots& { return ranks.actions[position].slots; };
  BOOST_TEST(bytes(at(1).acquires, SlotKind::kept) == 300);
  BOOST_TEST(bytes(at(1).acquires, SlotKind::workspace) == 5);
  BOOST_TEST(bytes(at(2).acquires, SlotKind::kept) == 20);
  BOOST_TEST(bytes(at(7).writes, SlotKind::kept) == 300);
  BOOST_TEST(bytes(at(7).acquires, SlotKind::stash) == 1000 + 100 - 300);  // the rest, and the block's output
  BOOST_TEST(bytes(at(8).releases, SlotKind::kept) == 300);
  BOOST_TEST(bytes(at(8).releases, SlotKind::stash) == 800);
}

BOOST_AUTO_TEST_CASE(weights_are_gathered_once_for_a_repetition_and_its_backward) {
  const Mesh cut = make_mesh("world", {{"dp_shard", 2}});
  const ModelPlan plan = models::tied({DType::f32, DType::f32, {}}, 0, {{"dp_shard"}, 2});
  const auto gatherings = [&](const RecomputePolicy& policy) {
    ProgramOptions options;
    options.micro_batches = 2;
    options.shards = {true, true, Accumulate::shards, 1};
    options.recompute = policy;
    const StepProgram program = make_catalogue(cut, plan, options).train;
    return std::ranges::count(program.of(0), Op::unshard, &Action::op);
  };
  BOOST_TEST(gatherings(RecomputePolicy::none) > std::ssize(plan.units));
  BOOST_TEST(gatherings(RecomputePolicy::block) == gatherings(RecomputePolicy::none));
  BOOST_TEST(gatherings({1, {Keep::projections, Keep::mlp}}) == gatherings(RecomputePolicy::none));
}

BOOST_AUTO_TEST_CASE(every_second_and_every_third_recomputable_block_may_be_computed_again) {
  const ModelPlan plan = models::plan_of({{"in", 8, 4, 0, 1, 2, false},
                                          {"a", 8, 4, 0, 1, 2, true},
                                          {"b", 8, 4, 0, 1, 2, true},
                                          {"c", 8, 4, 0, 1, 2, true},
                                          {"d", 8, 4, 0, 1, 2, true},
                                          {"out", 8, 0, 0, 1, 2, false}},
                                         {{"w", {16}, {0}}});
  const auto blocks = [&](int every) {
    std::string names;
    const StepProgram program = recompute(expand(schedule_training(one, {{.micro_batches = 1}}), plan), plan, {every});
    for (const Action& action : program.of(0))
      if (action.op == Op::recompute) names += plan.blocks[static_cast<std::size_t>(action.subject.index)].name;
    return names;
  };
  BOOST_TEST(blocks(1) == "dcba");
  BOOST_TEST(blocks(2) == "ca");
  BOOST_TEST(blocks(3) == "da");
  BOOST_TEST(blocks(5) == "a");
}

BOOST_AUTO_TEST_CASE(a_gradient_is_reduced_as_soon_as_the_last_micro_batch_completes_it_and_a_tied_one_last) {
  const ModelPlan plan = models::tied();
  const StepProgram program = reduce_gradients(expand(schedule_training(two, {{.micro_batches = 2}}), plan), plan,
                                               {"dp_replicate", "dp_shard"}, {});
  const auto all = words(program);
  const std::vector<std::string> tail(all.begin() + 12, all.end());
  const std::vector<std::string> expected{"backward block head mb 1",
                                          "finish_gradient unit head",
                                          "all_reduce unit head over dp_replicate, 64 B",
                                          "backward block layer.1 mb 1",
                                          "finish_gradient unit layer.1",
                                          "all_reduce unit layer.1 over dp_replicate, 128 B",
                                          "backward block layer.0 mb 1",
                                          "finish_gradient unit layer.0",
                                          "all_reduce unit layer.0 over dp_replicate, 128 B",
                                          "backward block embedding mb 1",
                                          "finish_gradient unit embedding",
                                          "all_reduce unit embedding over dp_replicate, 256 B"};
  BOOST_TEST(tail == expected, boost::test_tools::per_element());
  BOOST_TEST(program.of(0)[14].waits == Waits{13}, boost::test_tools::per_element());
  BOOST_TEST((program.of(0)[14].lane == Lane::reduction));
}

BOOST_AUTO_TEST_CASE(one_rank_has_nothing_to_reduce_but_finishes_its_gradients) {
  const ModelPlan plan = models::plan_of({{"only", 8, 0, 0, 1, 2, false}}, {{"w", {16}, {0}}});
  compare(reduce_gradients(expand(schedule_training(one, {{.micro_batches = 1}}), plan), plan, {"dp_replicate"}, {}),
          {"forward block only mb 0", "backward block only mb 0", "finish_gradient unit only"});
}

BOOST_AUTO_TEST_CASE(an_update_counts_decides_and_then_steps_each_unit) {
  const ModelPlan plan = models::plan_of({{"only", 8, 0, 0, 1, 2, false}}, {{"w", {16}, {0}}},
                                         {DType::f32, DType::bf16, models::moments(DType::f32)});
  const StepProgram reduced =
      reduce_gradients(expand(schedule_training(two, {{.micro_batches = 1}}), plan), plan, {"dp_replicate"}, {});
  compare(update(reduced, plan, {true, 48}),
          {"forward block only mb 0", "backward block only mb 0", "finish_gradient unit only",
           "all_reduce unit only over dp_replicate, 64 B", "gradient_norm unit only over dp_replicate",
           "heartbeat over dp_replicate, 48 B", "clip", "optimizer unit only"});
  const StepProgram plain = update(reduced, plan, {false, 48});
  compare(plain, {"forward block only mb 0", "backward block only mb 0", "finish_gradient unit only",
                  "all_reduce unit only over dp_replicate, 64 B", "gradient_norm unit only over dp_replicate",
                  "heartbeat over dp_replicate, 48 B", "optimizer unit only"});
  BOOST_TEST(plain.of(1)[4].waits == Waits{3}, boost::test_tools::per_element());
  BOOST_TEST(plain.of(1)[5].waits == Waits{4}, boost::test_tools::per_element());
  BOOST_TEST(plain.of(1)[6].waits == Waits{5}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_norm_that_no_reduction_precedes_is_taken_as_soon_as_its_gradient_is_complete) {
  const ModelPlan plan = models::tied();
  const StepProgram alone =
      reduce_gradients(expand(schedule_training(one, {{.micro_batches = 1}}), plan), plan, {"dp_replicate"}, {});
  const auto all = words(update(alone, plan, {false, 48}));
  const std::vector<std::string> tail(all.begin() + 4, all.begin() + 10);
  const std::vector<std::string> expected{"backward block head mb 0",     "finish_gradient unit head",
                                          "gradient_norm unit head",      "backward block layer.1 mb 0",
                                          "finish_gradient unit layer.1", "gradient_norm unit layer.1"};
  BOOST_TEST(tail == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(buckets_join_whole_blocks_from_the_last_backwards) {
  const auto units = [](std::int64_t bucket_bytes) {
    std::vector<std::string> names;
    for (const UnitPlan& unit : models::tied({}, bucket_bytes).units) names.push_back(unit.name);
    return names;
  };
  BOOST_TEST(units(0) == (std::vector<std::string>{"embedding", "layer.0", "layer.1", "head"}),
             boost::test_tools::per_element());
  BOOST_TEST(units(200) == (std::vector<std::string>{"embedding", "layer.0", "layer.1..head"}),
             boost::test_tools::per_element());
  BOOST_TEST(units(1 << 20) == (std::vector<std::string>{"embedding..head"}), boost::test_tools::per_element());
}

// Blocks 0 to 5 in stages [0, 1], [2, 3] and [4, 5]; block 5 reads the matrix of block 0 as well, and vectors of their
// own kind are in blocks 1, 2, 3 and 5.
BOOST_AUTO_TEST_CASE(buckets_end_where_stages_end_and_a_tied_matrix_keeps_to_its_block) {
  const std::vector<std::string> blocks{"0", "1", "2", "3", "4", "5"};
  std::vector<ParameterPlan> parameters{{"tied", {4}, {0, 5}}};
  for (int block = 1; block < 6; ++block) parameters.push_back({"w", {4}, {block}});
  for (const int block : {1, 2, 3, 5}) {
    parameters.push_back({"v", {4}, {block}});
    parameters.back().update = 1;
  }
  const UnitTypes types{DType::f32, DType::f32, {{}, {}}};
  const auto names = [&](const Buckets& buckets) {
    std::vector<std::string> made;
    for (const UnitPlan& unit : make_units(blocks, parameters, types, buckets)) made.push_back(unit.name);
    return made;
  };
  BOOST_TEST(names({1 << 20, {0, 2, 4}}) ==
                 (std::vector<std::string>{"0", "1", "1, update 1", "2..3", "2..3, update 1", "4..5", "5, update 1"}),
             boost::test_tools::per_element());
  BOOST_TEST(names({1 << 20}) == (std::vector<std::string>{"0..5", "1..5, update 1"}),
             boost::test_tools::per_element());
}

// An embedding of 29 tokens with positions, and a head of as many: rows of 5 numbers, in memory for 32 tokens.
BOOST_AUTO_TEST_CASE(a_matrix_over_tokens_ends_its_unit_and_has_padding_behind_it_in_memory_alone) {
  const std::vector<std::string> blocks{"embedding", "head"};
  const auto units = [&](std::int64_t multiple, const UnitTypes& types, std::int64_t bucket, const Sharding& sharding) {
    std::vector<ParameterPlan> parameters{
        {"tokens", {29, 5}, {0}}, {"positions", {13, 5}, {0}}, {"norm", {5}, {1}}, {"head", {29, 5}, {1}}};
    parameters[0].row_multiple = parameters[3].row_multiple = multiple;
    return make_units(blocks, parameters, types, {bucket}, sharding);
  };
  const UnitTypes wide{DType::f32, DType::f32, {{}}}, narrow{DType::f32, DType::bf16, {{}}};
  constexpr std::int64_t behind = 32 * 5 - 160;  // of 29 rows, 145 numbers, which end on a border of 16
  constexpr std::int64_t behind_of_64 = 64 * 5 - 160;
  static_assert(behind == 0);
  for (const std::int64_t multiple : {1, 32, 64}) {
    const std::vector<UnitPlan> made = units(multiple, wide, 0, {});
    BOOST_TEST(made.size() == 2u);
    BOOST_TEST(made[0].parameters == (std::vector<int>{1, 0}), boost::test_tools::per_element());
    BOOST_TEST(made[1].parameters == (std::vector<int>{2, 3}), boost::test_tools::per_element());
    for (const UnitPlan& unit : made) {
      const std::int64_t padding = multiple == 64 ? behind_of_64 : 0;
      BOOST_TEST(unit.padding == padding);
      BOOST_TEST(unit.master_bytes == unit.elements * 4);
      BOOST_TEST(unit.reduce_bytes == unit.elements * 4);
      BOOST_TEST(unit.master_memory() == (unit.elements + padding) * 4);
      BOOST_TEST(unit.compute_memory() == 0);
      BOOST_TEST(unit.gradient_memory() == (unit.elements + padding) * 4);
    }
  }
  const UnitPlan copied = units(64, narrow, 0, {})[1];
  BOOST_TEST(copied.master_memory() == copied.elements * 4);
  BOOST_TEST(copied.compute_memory() == (copied.elements + behind_of_64) * 2);
  const UnitPlan sharded = units(64, narrow, 0, {.axes = {"dp_shard"}, .shards = 2})[1];
  BOOST_TEST(sharded.master_memory() == sharded.shard_elements * 4);
  BOOST_TEST(sharded.compute_memory() == sharded.shard_elements * 2);
  BOOST_TEST(sharded.gradient_memory() == sharded.shard_elements * 4);
  BOOST_TEST(sharded.gathered_memory() == (sharded.elements + behind_of_64) * 2);
  BOOST_TEST(sharded.local_gradient_memory() == (sharded.elements + behind_of_64) * 4);
  BOOST_TEST(units(1, wide, 1 << 20, {}).size() == 1u);
  BOOST_TEST(units(64, wide, 1 << 20, {}).size() == 2u);  // one of both would need padding in its middle
}

BOOST_AUTO_TEST_CASE(units_hold_every_parameter_once_and_know_every_block_that_adds_to_them) {
  std::mt19937 engine(3);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::string> blocks(static_cast<std::size_t>(std::uniform_int_distribution<int>(1, 6)(engine)));
    std::vector<ParameterPlan> parameters;
    const auto any_block = [&] {
      return std::uniform_int_distribution<int>(0, static_cast<int>(blocks.size()) - 1)(engine);
    };
    for (int i = std::uniform_int_distribution<int>(0, 12)(engine); i > 0; --i)
      parameters.push_back({"p", {i, 7}, {any_block(), any_block()}});
    const std::int64_t bucket = std::uniform_int_distribution<int>(0, 2000)(engine);
    std::multiset<int> seen;
    for (const UnitPlan& unit :
         make_units(blocks, parameters, {DType::f64, DType::f64, models::moments(DType::f64)}, {bucket})) {
      std::set<int> adding;
      std::int64_t bytes = 0;
      for (const int index : unit.parameters) {
        const ParameterPlan& parameter = parameters[static_cast<std::size_t>(index)];
        seen.insert(index);
        adding.insert(parameter.blocks.begin(), parameter.blocks.end());
        bytes += (elements(parameter.shape) * 8 + 63) / 64 * 64;
      }
      BOOST_REQUIRE((std::set<int>(unit.blocks.begin(), unit.blocks.end()) == adding));
      BOOST_REQUIRE_EQUAL(unit.master_bytes, bytes);
      BOOST_REQUIRE_EQUAL(unit.optimizer_bytes, 2 * bytes);
      BOOST_REQUIRE_EQUAL(unit.compute_bytes, 0);
    }
    BOOST_REQUIRE_EQUAL(seen.size(), parameters.size());
    for (std::size_t i = 0; i < parameters.size(); ++i) BOOST_REQUIRE_EQUAL(seen.count(static_cast<int>(i)), 1u);
  }
}

BOOST_AUTO_TEST_CASE(the_printed_program_reads_as_a_table) {
  ProgramOptions options;
  options.update.heartbeat_bytes = 48;
  options.eval_micro_batches = 1;
  options.eval_reduction_bytes = 16;
  const Catalogue programs = make_catalogue(
      two, models::plan_of({{"in", 8, 4, 0, 1, 2, false}, {"out", 8, 0, 2, 1, 2, false}}, {{"w", {16}, {0}}}), options);
  const std::string text = to_text(programs.eval, 1);
  BOOST_TEST(text.find(", hash ") != std::string::npos);
  BOOST_TEST(text.substr(text.find('\n') + 1) ==
             "rank 1: 3 actions, 256 B held for the whole run\n"
             "    #  lane       action                               step bytes  waits for\n"
             "    0  compute    forward block in mb 0                       4 B\n"
             "    1  compute    forward block out mb 0                      4 B\n"
             "    2  reduction  reduce_loss over dp_replicate, 16 B         0 B  1\n");
  BOOST_TEST(to_text(programs.train).find("program train: 1 micro-batch, 2 ranks (dp_replicate 2), hash ") == 0u);
  BOOST_TEST(to_text(programs.train).find("each of ranks 0-1: ") != std::string::npos);
  BOOST_CHECK_EXCEPTION(to_text(programs.eval, 2), Error, [](const Error& error) {
    return error.code() == ExitCode::usage &&
           std::string(error.what()) == "program eval has no rank 2: its ranks are 0 to 1";
  });
}

BOOST_AUTO_TEST_CASE(equal_programs_have_equal_hashes_and_a_difference_is_found_and_named) {
  std::mt19937 engine(4);
  const models::Case made = models::random_case(engine);
  const StepProgram program = make_catalogue(made.mesh, made.plan, made.options).train;
  const StepProgram again = make_catalogue(made.mesh, made.plan, made.options).train;
  BOOST_TEST((hash_of(program) == hash_of(again)));
  BOOST_TEST(!difference(program, again).has_value());
  for (std::size_t i = 0; i < program.of(0).size(); ++i) {
    StepProgram other = program;
    other.classes.front().actions[i].lane =
        other.classes.front().actions[i].lane == Lane::compute ? Lane::reduction : Lane::compute;
    BOOST_TEST((hash_of(program) != hash_of(other)));
    BOOST_TEST(difference(program, other).value().find(fmt::format("action {} ", i)) != std::string::npos);
    other = program;
    other.classes.front().actions.resize(i);
    BOOST_TEST(difference(program, other).value().find("nothing in the other") != std::string::npos);
  }
  BOOST_TEST(to_json(program)["classes"][0]["actions"].size() == program.of(0).size());
}

BOOST_AUTO_TEST_SUITE_END()
