// The programs of data parallelism, spelled out: whatever is hung on the joints beside it, these stay as they are.
// Fields may be added; ops, subjects, micro-batches, order, waits and bytes may not change.
#include "program/memory_estimate.hpp"
#include "unit/program/models.hpp"

#include <fmt/ranges.h>
#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(data_parallel_programs)

using namespace lockstep;

namespace {

/// One line an action: "3 reduction all_reduce unit 2 over dp_replicate 128 after 2".
std::string lines_of(const StepProgram& program) {
  std::string text;
  for (const RankClass& ranks : program.classes) {
    text += fmt::format("ranks {}\n", fmt::join(ranks.ranks, " "));
    for (std::size_t i = 0; i < ranks.actions.size(); ++i) {
      const Action& action = ranks.actions[i];
      text += fmt::format("{} {} {}", i, name_of(action.lane), name_of(action.op));
      if (action.subject.kind != Subject::Kind::none)
        text += fmt::format(" {} {}", name_of(action.subject.kind), action.subject.index);
      if (action.micro_batch != no_micro_batch) text += fmt::format(" mb {}", action.micro_batch);
      if (!action.group.empty()) text += fmt::format(" over {}", fmt::join(action.group, "+"));
      if (action.bytes != 0) text += fmt::format(" {}", action.bytes);
      if (!action.waits.empty()) text += fmt::format(" after {}", fmt::join(action.waits, " "));
      text += '\n';
    }
  }
  return text;
}

Catalogue catalogue_of(int ranks, const ProgramOptions& options, const UnitTypes& types = {}, std::int64_t bucket = 0) {
  return make_catalogue(make_mesh("world", {{"dp_replicate", ranks}}), models::tied(types, bucket), options);
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_rank_with_one_micro_batch) {
  ProgramOptions options;
  options.eval_micro_batches = 1;
  options.update.heartbeat_bytes = 88;
  options.eval_reduction_bytes = 88;
  const Catalogue programs = catalogue_of(1, options);
  BOOST_TEST(lines_of(programs.train) == R"(ranks 0
0 compute forward block 0 mb 0
1 compute forward block 1 mb 0
2 compute forward block 2 mb 0
3 compute forward block 3 mb 0
4 compute backward block 3 mb 0
5 compute finish_gradient unit 3
6 compute gradient_norm unit 3
7 compute backward block 2 mb 0
8 compute finish_gradient unit 2
9 compute gradient_norm unit 2
10 compute backward block 1 mb 0
11 compute finish_gradient unit 1
12 compute gradient_norm unit 1
13 compute backward block 0 mb 0
14 compute finish_gradient unit 0
15 compute gradient_norm unit 0
16 reduction heartbeat over dp_replicate 88 after 15
17 compute clip after 16
18 compute optimizer unit 0
19 compute optimizer unit 1
20 compute optimizer unit 2
21 compute optimizer unit 3
)");
  BOOST_TEST(lines_of(programs.eval) == R"(ranks 0
0 compute forward block 0 mb 0
1 compute forward block 1 mb 0
2 compute forward block 2 mb 0
3 compute forward block 3 mb 0
4 reduction reduce_loss over dp_replicate 88 after 3
)");
}

BOOST_AUTO_TEST_CASE(a_pass_over_texts_is_one_forward_that_extends_caches_and_tokens_drawn_for_all_ranks) {
  ProgramOptions options;
  options.micro_batches = 2;
  options.draw_bytes = 96;
  const ModelPlan model = models::tied({});
  ModelPlan cached = model;
  cached.blocks[1].cache_bytes = cached.blocks[2].cache_bytes = 40;
  const Catalogue programs =
      make_catalogue(make_mesh("world", {{"dp_replicate", 3}}), model, options, TextPlans{cached, cached});
  for (const StepProgram* program : {&programs.prompt, &programs.token}) {
    BOOST_TEST(lines_of(*program) == R"(ranks 0 1 2
0 compute forward block 0 mb 0
1 compute forward block 1 mb 0
2 compute forward block 2 mb 0
3 compute forward block 3 mb 0
4 reduction draw_tokens over dp_replicate 96 after 3
)");
    const RankClass& ranks = program->classes.front();
    std::int64_t caches = 0;
    for (const Slot& slot : ranks.slots) caches += slot.kind == SlotKind::cache ? slot.bytes : 0;
    BOOST_TEST(caches == 80);
    BOOST_TEST(memory_of(ranks).bytes.at(SlotKind::cache) == 80);
    for (const int block : {1, 2}) {
      const std::vector<int>& writes = ranks.actions[static_cast<std::size_t>(block)].slots.writes;
      BOOST_REQUIRE(writes.size() == 1u);
      const Slot& slot = ranks.slots[static_cast<std::size_t>(writes.front())];
      BOOST_TEST((slot.kind == SlotKind::cache && slot.subject == block_subject(block)));
    }
  }
  BOOST_TEST(programs.all().size() == 3u);  // without an evaluation
}

BOOST_AUTO_TEST_CASE(three_ranks_with_two_micro_batches_recomputed_and_not_clipped) {
  ProgramOptions options;
  options.micro_batches = 2;
  options.eval_micro_batches = 2;
  options.recompute = RecomputePolicy::block;
  options.update = {false, 88};
  options.eval_reduction_bytes = 88;
  const Catalogue programs = catalogue_of(3, options, {DType::f32, DType::bf16, models::moments(DType::f32)});
  BOOST_TEST(lines_of(programs.train) == R"(ranks 0 1 2
0 compute forward block 0 mb 0
1 compute forward block 1 mb 0
2 compute forward block 2 mb 0
3 compute forward block 3 mb 0
4 compute backward block 3 mb 0
5 compute recompute block 2 mb 0
6 compute backward block 2 mb 0
7 compute recompute block 1 mb 0
8 compute backward block 1 mb 0
9 compute backward block 0 mb 0
10 compute forward block 0 mb 1
11 compute forward block 1 mb 1
12 compute forward block 2 mb 1
13 compute forward block 3 mb 1
14 compute backward block 3 mb 1
15 compute finish_gradient unit 3
16 reduction all_reduce unit 3 over dp_replicate 64 after 15
17 compute recompute block 2 mb 1
18 compute backward block 2 mb 1
19 compute finish_gradient unit 2
20 reduction all_reduce unit 2 over dp_replicate 128 after 19
21 compute recompute block 1 mb 1
22 compute backward block 1 mb 1
23 compute finish_gradient unit 1
24 reduction all_reduce unit 1 over dp_replicate 128 after 23
25 compute backward block 0 mb 1
26 compute finish_gradient unit 0
27 reduction all_reduce unit 0 over dp_replicate 256 after 26
28 compute gradient_norm unit 3 over dp_replicate after 16
29 compute gradient_norm unit 2 over dp_replicate after 20
30 compute gradient_norm unit 1 over dp_replicate after 24
31 compute gradient_norm unit 0 over dp_replicate after 27
32 reduction heartbeat over dp_replicate 88 after 31
33 compute optimizer unit 0 after 32
34 compute optimizer unit 1
35 compute optimizer unit 2
36 compute optimizer unit 3
)");
  BOOST_TEST(lines_of(programs.eval) == R"(ranks 0 1 2
0 compute forward block 0 mb 0
1 compute forward block 1 mb 0
2 compute forward block 2 mb 0
3 compute forward block 3 mb 0
4 compute forward block 0 mb 1
5 compute forward block 1 mb 1
6 compute forward block 2 mb 1
7 compute forward block 3 mb 1
8 reduction reduce_loss over dp_replicate 88 after 7
)");
}

BOOST_AUTO_TEST_CASE(cells_sum_gradients_within_themselves_and_average_their_weights_behind_the_updates) {
  ProgramOptions options;
  options.update.heartbeat_bytes = 88;
  options.local = {.axes = {"dp_replicate"}, .start_step = 0, .period = 2};
  const Catalogue programs =
      make_catalogue(make_mesh("world", {{"dp_replicate", 3}, {"dp_node", 2}}), models::tied({}), options);
  const std::string gradients = R"(ranks 0 1 2 3 4 5
0 compute forward block 0 mb 0
1 compute forward block 1 mb 0
2 compute forward block 2 mb 0
3 compute forward block 3 mb 0
4 compute backward block 3 mb 0
5 compute finish_gradient unit 3
6 reduction all_reduce unit 3 over dp_node 64 after 5
7 compute backward block 2 mb 0
8 compute finish_gradient unit 2
9 reduction all_reduce unit 2 over dp_node 128 after 8
10 compute backward block 1 mb 0
11 compute finish_gradient unit 1
12 reduction all_reduce unit 1 over dp_node 128 after 11
13 compute backward block 0 mb 0
14 compute finish_gradient unit 0
15 reduction all_reduce unit 0 over dp_node 256 after 14
16 compute gradient_norm unit 3 over dp_node after 6
17 compute gradient_norm unit 2 over dp_node after 9
18 compute gradient_norm unit 1 over dp_node after 12
19 compute gradient_norm unit 0 over dp_node after 15
20 reduction reduce_norm over dp_node 8 after 19
21 reduction heartbeat over dp_replicate+dp_node 88 after 19
22 compute clip after 21
23 compute optimizer unit 0
)";
  BOOST_TEST(lines_of(programs.local) == gradients + R"(24 compute optimizer unit 1
25 compute optimizer unit 2
26 compute optimizer unit 3
)");
  BOOST_TEST(lines_of(programs.averaging) ==
             gradients + R"(24 reduction average_weights unit 0 over dp_replicate 256 after 23
25 compute optimizer unit 1
26 reduction average_weights unit 1 over dp_replicate 128 after 25
27 compute optimizer unit 2
28 reduction average_weights unit 2 over dp_replicate 128 after 27
29 compute optimizer unit 3
30 reduction average_weights unit 3 over dp_replicate 64 after 29
31 compute finish_average unit 0 after 24
32 compute finish_average unit 1 after 26
33 compute finish_average unit 2 after 28
34 compute finish_average unit 3 after 30
)");
  BOOST_TEST(to_text(programs.local).find("separate weights along dp_replicate") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(three_ranks_that_update_each_unit_in_backward) {
  ProgramOptions options;
  options.update = {false, 88, true};
  BOOST_TEST(lines_of(catalogue_of(3, options).train) == R"(ranks 0 1 2
0 compute forward block 0 mb 0
1 compute forward block 1 mb 0
2 compute forward block 2 mb 0
3 compute forward block 3 mb 0
4 compute backward block 3 mb 0
5 compute finish_gradient unit 3
6 reduction all_reduce unit 3 over dp_replicate 64 after 5
7 compute backward block 2 mb 0
8 compute finish_gradient unit 2
9 reduction all_reduce unit 2 over dp_replicate 128 after 8
10 compute gradient_norm unit 3 over dp_replicate after 6
11 compute optimizer unit 3
12 compute backward block 1 mb 0
13 compute finish_gradient unit 1
14 reduction all_reduce unit 1 over dp_replicate 128 after 13
15 compute gradient_norm unit 2 over dp_replicate after 9
16 compute optimizer unit 2
17 compute backward block 0 mb 0
18 compute finish_gradient unit 0
19 reduction all_reduce unit 0 over dp_replicate 256 after 18
20 compute gradient_norm unit 1 over dp_replicate after 14
21 compute optimizer unit 1
22 compute gradient_norm unit 0 over dp_replicate after 19
23 compute optimizer unit 0
24 reduction heartbeat over dp_replicate 88 after 23
)");
}

BOOST_AUTO_TEST_CASE(four_ranks_with_units_of_several_blocks) {
  ProgramOptions options;
  options.update.heartbeat_bytes = 88;
  const Catalogue programs = catalogue_of(4, options, {DType::f64, DType::f64, models::moments(DType::f64)}, 1000);
  BOOST_TEST(lines_of(programs.train) == R"(ranks 0 1 2 3
0 compute forward block 0 mb 0
1 compute forward block 1 mb 0
2 compute forward block 2 mb 0
3 compute forward block 3 mb 0
4 compute backward block 3 mb 0
5 compute backward block 2 mb 0
6 compute backward block 1 mb 0
7 compute finish_gradient unit 1
8 reduction all_reduce unit 1 over dp_replicate 640 after 7
9 compute backward block 0 mb 0
10 compute finish_gradient unit 0
11 reduction all_reduce unit 0 over dp_replicate 512 after 10
12 compute gradient_norm unit 1 over dp_replicate after 8
13 compute gradient_norm unit 0 over dp_replicate after 11
14 reduction heartbeat over dp_replicate 88 after 13
15 compute clip after 14
16 compute optimizer unit 0
17 compute optimizer unit 1
)");
}

BOOST_AUTO_TEST_SUITE_END()
