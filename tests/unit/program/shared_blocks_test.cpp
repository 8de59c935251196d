// Programs whose blocks several ranks share: what these tell each other within a block is part of the program.
#include "program/simulate.hpp"
#include "program/verify.hpp"
#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <string>

BOOST_AUTO_TEST_SUITE(shared_blocks)

using namespace lockstep;

namespace {

const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}, {"tp", 2}});
constexpr BlockExchange::Kind sum = BlockExchange::Kind::all_reduce;

ModelPlan shared_plan() {
  ModelPlan plan = models::plan_of(
      {{"embedding", 10, 100, 0, 1, 2, false},
       {"layer.0", 1000, 100, 7, 10, 20, true},
       {"head", 500, 0, 3, 5, 10, false}},
      {{"wte", {8, 4}, {0}}, {"w0", {8, 4}, {1}}, {"norm", {16}, {1}, true, "", {"tp"}}, {"head", {8, 4}, {2}}});
  plan.blocks[1].exchanges = {{{sum, {"tp"}, DType::f32, 8, 0, 10}, {sum, {"tp"}, DType::f32, 8, 0, 10}},
                              {{sum, {"tp"}, DType::f32, 4, 0, 10}}};
  return plan;
}

ProgramOptions shared_options() {
  ProgramOptions options;
  options.micro_batches = 2;
  options.update = {true, 48};
  options.recompute = RecomputePolicy::block;
  return options;
}

/// What is said of the training program where `mutate` changed the list of this rank alone.
std::string fault_of(Rank changed, const std::function<void(std::vector<Action>&)>& mutate, const Mesh& ranks = mesh,
                     const ModelPlan& plan = shared_plan(), const ProgramOptions& options = shared_options()) {
  StepProgram program = make_catalogue(ranks, plan, options).of(options.training_step);
  RankClass alone = program.classes.front();
  std::erase(program.classes.front().ranks, changed);
  alone.ranks = {changed};
  mutate(alone.actions);
  program.classes.push_back(alone);
  const auto fault = find_fault(program, plan, ProgramPhase::training, options);
  return fault ? to_text(program, *fault) : "";
}

Action& first(std::vector<Action>& actions, Op op, int block, MicroBatch micro_batch) {
  return *std::ranges::find_if(actions, [&](const Action& action) {
    return action.op == op && action.subject == block_subject(block) && action.micro_batch == micro_batch;
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(passes_of_a_shared_block_say_with_whom_and_how_much) {
  const StepProgram program = make_catalogue(mesh, shared_plan(), shared_options()).train;
  BOOST_TEST(program.classes.size() == 1u);
  std::vector<Action> actions = program.of(0);
  for (const Op op : {Op::forward, Op::recompute, Op::backward}) {
    const Action& action = first(actions, op, 1, 1);
    BOOST_TEST(action.group == std::vector<AxisName>{"tp"}, boost::test_tools::per_element());
    BOOST_TEST(action.bytes == (op == Op::backward ? 40 : 160));
    BOOST_TEST(exchanges_of(program, action).size() == (op == Op::backward ? 1u : 2u));
    BOOST_TEST(first(actions, Op::forward, 0, 1).group.empty());
  }
  const std::string text = to_text(program, 0);
  BOOST_TEST(text.find("forward block layer.0 mb 0 over tp, 160 B") != std::string::npos);
  BOOST_TEST(text.find("block        all_reduce over tp, 80 B\n") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(a_norm_is_shared_by_those_that_hold_the_gradient_alike) {
  const StepProgram program = make_catalogue(mesh, shared_plan(), shared_options()).train;
  for (const Action& action : program.of(0)) {
    if (action.op != Op::gradient_norm) continue;
    const std::string& unit = program.unit_names[static_cast<std::size_t>(action.subject.index)];
    const std::vector<AxisName> want =
        unit == "layer.0, alike" ? std::vector<AxisName>{"dp_replicate", "tp"} : std::vector<AxisName>{"dp_replicate"};
    BOOST_TEST(action.group == want, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_says_something_else_within_a_block_or_to_others_is_found) {
  BOOST_TEST(fault_of(1, [](std::vector<Action>&) {}) == "");
  const auto told = [](const std::string& text, const std::string& words) {
    BOOST_TEST(text.find(words) != std::string::npos, text << " lacks " << words);
    BOOST_TEST(text.find("rank 1") != std::string::npos, text);
  };
  told(fault_of(1, [](std::vector<Action>& list) { first(list, Op::forward, 1, 0).group = {}; }),
       "has a payload, but communicates nothing");
  told(fault_of(1, [](std::vector<Action>& list) { first(list, Op::forward, 1, 0).group = {"dp_replicate"}; }),
       "must be over tp");
  told(fault_of(1, [](std::vector<Action>& list) { first(list, Op::backward, 1, 1).bytes -= 4; }),
       "carries 36 bytes instead of 40");
  told(fault_of(1,
                [](std::vector<Action>& list) {
                  std::swap(first(list, Op::forward, 1, 0).micro_batch, first(list, Op::forward, 1, 1).micro_batch);
                }),
       "forward block layer.0");
}

// Ranks that share rows: along ulysses, in a ring, and along tp with sequence parallelism.
BOOST_AUTO_TEST_CASE(so_is_one_that_exchanges_rows_heads_or_keys_otherwise) {
  using Exchange = BlockExchange::Kind;
  struct Kind {
    AxisName axis;
    Exchange forward, backward;
  };
  for (const auto& [axis, forward, backward] : {Kind{"ulysses", Exchange::all_to_all, Exchange::all_to_all},
                                                {"ring", Exchange::shift, Exchange::shift},
                                                {"tp", Exchange::all_gather, Exchange::reduce_scatter}}) {
    const Mesh shared = make_mesh("world", {{"dp_replicate", 2}, {axis, 2}});
    ModelPlan plan = shared_plan();
    plan.blocks[1].exchanges = {{{forward, {axis}, DType::f32, 8, 0, 10}, {forward, {axis}, DType::f32, 4, 0, 10}},
                                {{backward, {axis}, DType::f32, 4, 0, 10}}};
    if (axis != "tp")
      for (UnitPlan& unit : plan.units) unit.summed = unit.alike = {};
    const auto fault = [&](const std::function<void(std::vector<Action>&)>& mutate) {
      return fault_of(1, mutate, shared, plan);
    };
    const auto told = [&](const std::string& text, const std::string& words) {
      BOOST_TEST(text.find(words) != std::string::npos, axis << ": " << text << " lacks " << words);
    };
    BOOST_TEST(fault([](std::vector<Action>&) {}) == "");
    told(fault([](std::vector<Action>& list) { first(list, Op::forward, 1, 0).group = {"dp_replicate"}; }),
         "must be over " + axis);
    told(fault([](std::vector<Action>& list) { first(list, Op::recompute, 1, 1).group.clear(); }),
         "has a payload, but communicates nothing");
    told(fault([](std::vector<Action>& list) { first(list, Op::backward, 1, 1).bytes -= 4; }),
         "carries 36 bytes instead of 40");
    told(fault([](std::vector<Action>& list) { std::erase(list, first(list, Op::recompute, 1, 0)); }), "rank 1");
  }
}

namespace {

/// Four ranks, of which two neighbours have all experts between them.
Mesh mesh_of_experts(bool sharded) {
  Mesh ranks = make_mesh("world", {{sharded ? "dp_shard" : "dp_replicate", 4}});
  divide_experts(ranks, 2, false, sharded);
  return ranks;
}

ModelPlan plan_of_experts(bool sharded) {
  Sharding sharding = sharded ? Sharding{{"dp_shard"}, 4} : Sharding{};
  sharding.blocks.experts = {.ranks = 2, .shards = sharded ? 2 : 1, .capacity = 1};
  ModelPlan plan = models::plan_of({{"embedding", 10, 100, 0, 1, 2, false},
                                    {"layer.0", 1000, 100, 7, 10, 20, true},
                                    {"head", 500, 0, 3, 5, 10, false}},
                                   {{"wte", {8, 4}, {0}},
                                    {"norm", {16}, {1}},
                                    {.name = "up", .shape = {8, 4}, .blocks = {1}, .of_experts = true},
                                    {"head", {8, 4}, {2}}},
                                   {DType::f32, DType::f32, models::moments(DType::f32)}, 0, sharding);
  const auto of_rows = [](std::int64_t repeats) {
    return BlockExchange{BlockExchange::Kind::all_to_all, {"ep"}, DType::f32, 8, 0, 10, 1, false, false, true, repeats};
  };
  const BlockExchange table{BlockExchange::Kind::all_gather, {"ep"}, DType::f64, 32, 0, 1, 1, true};
  plan.blocks[1].exchanges = {{table, of_rows(0), of_rows(0), of_rows(1), of_rows(1)},
                              {of_rows(0), of_rows(0), of_rows(1), of_rows(1), of_rows(1)}};
  return plan;
}

}  // namespace

BOOST_AUTO_TEST_CASE(so_is_one_that_sends_rows_to_experts_otherwise_or_reduces_these_over_axes_of_data) {
  for (const bool sharded : {false, true}) {
    const Mesh ranks = mesh_of_experts(sharded);
    const ModelPlan plan = plan_of_experts(sharded);
    const auto number = [&](std::string_view name) {
      return static_cast<int>(std::ranges::find(plan.units, name, &UnitPlan::name) - plan.units.begin());
    };
    const Subject of_experts = unit_subject(number("layer.0, experts"));
    const auto reduction = [&](std::vector<Action>& list) -> Action& {
      return *std::ranges::find_if(list, [&](const Action& action) {
        return action.op == (sharded ? Op::reduce_scatter : Op::all_reduce) && action.subject == of_experts;
      });
    };
    const auto norm = [&](std::vector<Action>& list) -> Action& {
      return *std::ranges::find_if(
          list, [&](const Action& action) { return action.op == Op::gradient_norm && action.subject == of_experts; });
    };
    const AxisName data = sharded ? "dp_shard" : "dp_replicate", same = sharded ? "ep_shard" : "ep_replicate";
    const std::vector<AxisName> holders = sharded ? std::vector<AxisName>{} : std::vector<AxisName>{same};
    const auto told = [&](const std::string& words, const std::function<void(std::vector<Action>&)>& mutate) {
      const std::string text = fault_of(1, mutate, ranks, plan);
      BOOST_TEST(text.find(words) != std::string::npos, same << ": " << text << " lacks " << words);
      BOOST_TEST(text.find("rank 1") != std::string::npos, text);
    };
    BOOST_TEST(fault_of(1, [](std::vector<Action>&) {}, ranks, plan) == "");
    const StepProgram program = make_catalogue(ranks, plan, shared_options()).train;
    std::vector<Action> right = program.of(0);
    BOOST_TEST(reduction(right).group == std::vector<AxisName>{same}, boost::test_tools::per_element());
    BOOST_TEST(norm(right).group == holders, boost::test_tools::per_element());
    for (const Op op : {Op::forward, Op::recompute, Op::backward}) {
      const std::int64_t due = op == Op::backward ? 5 * 80 : 32 + 4 * 80;
      told("must be over ep_replicate+ep_shard+ep",
           [&](std::vector<Action>& list) { first(list, op, 1, 0).group = {data}; });
      told("has a payload, but communicates nothing",
           [&](std::vector<Action>& list) { first(list, op, 1, 1).group.clear(); });
      told(fmt::format("carries {} bytes instead of {}", due - 80, due),  // of a round less
           [&](std::vector<Action>& list) { first(list, op, 1, 1).bytes -= 80; });
      told("", [&](std::vector<Action>& list) { std::erase(list, first(list, op, 1, 0)); });
    }
    const std::string over = "must be over " + same;
    told(over, [&](std::vector<Action>& list) { reduction(list).group = {data}; });
    told(over, [&](std::vector<Action>& list) { reduction(list).group = {"ep"}; });
    told(over, [&](std::vector<Action>& list) { reduction(list).group = {same, "ep"}; });
    told("", [&](std::vector<Action>& list) { std::erase(list, reduction(list)); });
    const std::string counted = sharded ? "must not have a group" : over;
    told(counted, [&](std::vector<Action>& list) { norm(list).group = {data}; });
    told(counted, [&](std::vector<Action>& list) { norm(list).group = {"ep"}; });
    if (!sharded) told(counted, [&](std::vector<Action>& list) { norm(list).group.clear(); });
    if (sharded) told("", [&](std::vector<Action>& list) { norm(list).group = {same}; });
  }
}

// A mistake that all ranks make alike.
BOOST_AUTO_TEST_CASE(a_program_that_reduces_or_counts_experts_as_other_weights_is_found_though_all_ranks_agree) {
  for (const bool sharded : {false, true}) {
    const Mesh ranks = mesh_of_experts(sharded);
    const ModelPlan plan = plan_of_experts(sharded);
    const std::vector<AxisName> data{sharded ? "dp_shard" : "dp_replicate"};
    for (const Op op : {sharded ? Op::reduce_scatter : Op::all_reduce, Op::gradient_norm}) {
      StepProgram program = make_catalogue(ranks, plan, shared_options()).train;
      BOOST_TEST(!find_fault(program, plan, ProgramPhase::training, shared_options()).has_value());
      for (RankClass& ranks_alike : program.classes)
        for (Action& action : ranks_alike.actions)
          if (action.op == op &&
              program.unit_names[static_cast<std::size_t>(action.subject.index)].ends_with("experts"))
            action.group = data;
      const auto fault = find_fault(program, plan, ProgramPhase::training, shared_options());
      BOOST_TEST((fault && (fault->reason.starts_with("must be over ") || fault->reason == "must not have a group")),
                 (fault ? fault->reason : "nothing"));
    }
  }
}

BOOST_AUTO_TEST_CASE(cells_whose_ranks_share_blocks_sum_norms_among_these_and_average_what_each_has) {
  ProgramOptions options = shared_options();
  options.local = {.axes = {"dp_replicate"}, .start_step = 0, .period = 2};
  options.training_step = TrainingStep::averaging;
  const StepProgram program = make_catalogue(mesh, shared_plan(), options).averaging;
  int averages = 0;
  for (const Action& action : program.of(0)) {
    BOOST_TEST((action.op != Op::all_reduce), to_text(program, action));  // no gradient has another rank's part
    if (action.op == Op::average_weights) {
      ++averages;
      BOOST_TEST(action.group == std::vector<AxisName>{"dp_replicate"}, boost::test_tools::per_element());
    }
    const bool alike = action.op == Op::gradient_norm &&
                       program.unit_names[static_cast<std::size_t>(action.subject.index)] == "layer.0, alike";
    if (action.op == Op::reduce_norm || alike)
      BOOST_TEST(action.group == std::vector<AxisName>{"tp"}, boost::test_tools::per_element());
    else if (action.op == Op::gradient_norm)
      BOOST_TEST(action.group.empty(), to_text(program, action));
  }
  BOOST_TEST(averages == std::ssize(program.unit_names));
  const auto told = [&](const std::function<void(Action&)>& change, Op op, const std::string& words) {
    const std::string text = fault_of(
        1, [&](std::vector<Action>& list) { change(*std::ranges::find(list, op, &Action::op)); }, mesh, shared_plan(),
        options);
    BOOST_TEST(text.find(words) != std::string::npos, text << " lacks " << words);
  };
  BOOST_TEST(fault_of(1, [](std::vector<Action>&) {}, mesh, shared_plan(), options) == "");
  told([](Action& norm) { norm.group = {"dp_replicate"}; }, Op::reduce_norm, "must be over tp");
  told([](Action& sum) { sum.group = {"dp_replicate", "tp"}; }, Op::average_weights, "must be over dp_replicate");
  told([](Action& sum) { sum.group = {"tp"}; }, Op::average_weights, "must be over dp_replicate");
}

BOOST_AUTO_TEST_CASE(what_is_said_within_a_block_takes_its_time) {
  const ModelPlan plan = shared_plan();
  const StepProgram program = make_catalogue(mesh, plan, shared_options()).train;
  const Hardware hardware{.flops_per_s = 10, .link_bytes_per_s = 80, .latency_s = 0.25};
  const CostOf cost = analytic_costs(plan, hardware);
  std::vector<Action> actions = program.of(0);
  // FLOPs, then twice 2 messages of half the bytes.
  BOOST_TEST(cost(program, first(actions, Op::forward, 1, 0)) == 10 / 10. + 2 * 2 * (0.25 + 40 / 80.),
             boost::test_tools::tolerance(1e-12));
  BOOST_TEST(cost(program, first(actions, Op::backward, 1, 0)) == 20 / 10. + 2 * (0.25 + 20 / 80.),
             boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_SUITE_END()
