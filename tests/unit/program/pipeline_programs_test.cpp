// Programs of pipelines: spelled out, damaged, timed. That they are right in any order of events is played in
// verify_test.cpp.
#include "base/error.hpp"
#include "program/memory_estimate.hpp"
#include "program/players.hpp"
#include "program/simulate.hpp"
#include "program/verify.hpp"
#include "unit/program/models.hpp"

#include <fmt/ranges.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>

BOOST_AUTO_TEST_SUITE(pipeline_programs)

using namespace lockstep;

namespace {

/// "3 send_forward: send_forward boundary 2 mb 0 at pp+1, 100 B after 2".
std::string lines_of(const StepProgram& program) {
  std::string text;
  for (const RankClass& ranks : program.classes) {
    text += fmt::format("ranks {}\n", fmt::join(ranks.ranks, " "));
    for (std::size_t i = 0; i < ranks.actions.size(); ++i) {
      const Action& action = ranks.actions[i];
      text += fmt::format("{} {}: {}{}{}\n", i, name_of(action.lane), to_text(program, action),
                          action.waits.empty() ? "" : " after ", fmt::join(action.waits, " "));
    }
  }
  return text;
}

/// Embedding, layers and a head, each with a parameter of its own.
ModelPlan layered(int layers) {
  std::vector<BlockPlan> blocks{{"embedding", 10, 100, 0, 1, 2, false, 0, 0, 0, 0}};
  std::vector<ParameterPlan> parameters{{"wte", {16, 4}, {0}}};
  for (int layer = 0; layer < layers; ++layer) {
    blocks.push_back({fmt::format("layer.{}", layer), 1000, 100, 7, 10, 20, true, 0, 0, 30, 10});
    parameters.push_back({fmt::format("w{}", layer), {8, 4}, {layer + 1}});
  }
  blocks.push_back({"head", 500, 0, 3, 5, 10, false, 0, 0, 20, 5});
  parameters.push_back({"head", {16, 4}, {layers + 1}});
  return models::plan_of(blocks, parameters);
}

Mesh mesh_of(int pp, int replicas = 1) { return make_mesh("world", {{"pp", pp}, {"dp_replicate", replicas}}); }

ProgramOptions options_of(PipelineSchedule schedule, int chunks, int micro_batches) {
  ProgramOptions options;
  options.pipeline.schedule = schedule;
  options.pipeline.chunks = chunks;
  options.micro_batches = micro_batches;
  options.update.heartbeat_bytes = 88;
  options.eval_reduction_bytes = 88;
  return options;
}

/// Two ranks, two micro-batches of 1f1b.
struct Right {
  ModelPlan plan = layered(2);
  ProgramOptions options = options_of(PipelineSchedule::one_f_one_b, 1, 2);
  StepProgram train = make_catalogue(mesh_of(2), plan, options).train;

  std::vector<Action>& actions(std::size_t rank) { return train.classes[rank].actions; }
  int position(std::size_t rank, Op op, int index, MicroBatch mb) {
    const auto found = std::ranges::find_if(actions(rank), [&](const Action& action) {
      return action.op == op && action.subject.index == index && action.micro_batch == mb;
    });
    BOOST_REQUIRE(found != actions(rank).end());
    return static_cast<int>(found - actions(rank).begin());
  }
  Action& at(std::size_t rank, Op op, int index, MicroBatch mb) {
    return actions(rank)[static_cast<std::size_t>(position(rank, op, index, mb))];
  }
  /// Puts an action right behind a later one; waits follow.
  void delay(std::size_t rank, int from, int behind) {
    std::vector<Action>& list = actions(rank);
    std::rotate(list.begin() + from, list.begin() + from + 1, list.begin() + behind + 1);
    for (Action& action : list)
      for (int& wait : action.waits)
        if (wait > from && wait <= behind)
          --wait;
        else if (wait == from)
          wait = behind;
  }
  std::string fault() const {
    const auto found = find_fault(train, plan, ProgramPhase::training, options);
    return found ? to_text(train, *found) : "";
  }
};

/// Only blocks take time: 1 forward, 1 each half of a backward.
double cost(const StepProgram&, const Action& action) {
  switch (action.op) {
    case Op::forward:
    case Op::backward_input:
    case Op::backward_weight: return 1;
    case Op::backward: return 2;
    default: return 0;
  }
}

/// The idle time of the compute lane up to the end of the step.
double bubble_of(PipelineSchedule schedule, int ranks, int chunks, int micro_batches) {
  const ProgramOptions options = options_of(schedule, chunks, micro_batches);
  const Timeline timeline = simulate(make_catalogue(mesh_of(ranks), models::even(ranks * chunks), options).train, cost);
  double bubble = 0;
  for (const RankTimeline& times : timeline.ranks) bubble = std::max(bubble, timeline.end_s - times.busy_s[0]);
  return bubble;
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_ranks_of_1f1b_receive_a_pass_ahead_and_send_beside_what_follows) {
  ProgramOptions options = options_of(PipelineSchedule::one_f_one_b, 1, 2);
  options.eval_micro_batches = 2;
  const Catalogue programs = make_catalogue(mesh_of(2), layered(2), options);
  BOOST_TEST(lines_of(programs.train) == R"(ranks 0
0 compute: forward block embedding mb 0
1 compute: forward block layer.0 mb 0
2 send_forward: send_forward boundary 2 mb 0 at pp+1, 100 B after 1
3 receive: receive_backward boundary 2 mb 0 at pp+1, 100 B after 1
4 compute: forward block embedding mb 1
5 compute: forward block layer.0 mb 1
6 send_forward: send_forward boundary 2 mb 1 at pp+1, 100 B after 5
7 receive: receive_backward boundary 2 mb 1 at pp+1, 100 B after 5
8 compute: backward block layer.0 mb 0 after 2 3
9 compute: backward block embedding mb 0
10 compute: backward block layer.0 mb 1 after 6 7
11 compute: finish_gradient unit layer.0
12 compute: gradient_norm unit layer.0
13 compute: backward block embedding mb 1
14 compute: finish_gradient unit embedding
15 compute: gradient_norm unit embedding
16 reduction: heartbeat over pp+dp_replicate, 88 B after 15
17 compute: clip after 16
18 compute: optimizer unit embedding
19 compute: optimizer unit layer.0
ranks 1
0 receive: receive_forward boundary 2 mb 0 at pp-1, 100 B
1 compute: forward block layer.1 mb 0 after 0
2 compute: forward block head mb 0
3 receive: receive_forward boundary 2 mb 1 at pp-1, 100 B after 2
4 compute: backward block head mb 0
5 compute: backward block layer.1 mb 0
6 send_backward: send_backward boundary 2 mb 0 at pp-1, 100 B after 5
7 compute: forward block layer.1 mb 1 after 3
8 compute: forward block head mb 1
9 compute: backward block head mb 1
10 compute: finish_gradient unit head
11 compute: gradient_norm unit head
12 compute: backward block layer.1 mb 1
13 compute: finish_gradient unit layer.1
14 compute: gradient_norm unit layer.1
15 send_backward: send_backward boundary 2 mb 1 at pp-1, 100 B after 12
16 reduction: heartbeat over pp+dp_replicate, 88 B after 14
17 compute: clip after 16
18 compute: optimizer unit layer.1
19 compute: optimizer unit head
)");
  BOOST_TEST(lines_of(programs.eval) == R"(ranks 0
0 compute: forward block embedding mb 0
1 compute: forward block layer.0 mb 0
2 send_forward: send_forward boundary 2 mb 0 at pp+1, 100 B after 1
3 compute: forward block embedding mb 1
4 compute: forward block layer.0 mb 1
5 send_forward: send_forward boundary 2 mb 1 at pp+1, 100 B after 4
6 reduction: reduce_loss over pp+dp_replicate, 88 B after 4
ranks 1
0 receive: receive_forward boundary 2 mb 0 at pp-1, 100 B
1 receive: receive_forward boundary 2 mb 1 at pp-1, 100 B
2 compute: forward block layer.1 mb 0 after 0
3 compute: forward block head mb 0
4 compute: forward block layer.1 mb 1 after 1
5 compute: forward block head mb 1
6 reduction: reduce_loss over pp+dp_replicate, 88 B after 5
)");
}

BOOST_AUTO_TEST_CASE(ranks_of_one_pipeline_coordinate_are_one_class) {
  const StepProgram program =
      make_catalogue(mesh_of(2, 3), layered(2), options_of(PipelineSchedule::gpipe, 1, 2)).train;
  BOOST_REQUIRE_EQUAL(program.classes.size(), 2u);
  BOOST_TEST((program.classes[0].ranks == std::vector<Rank>{0, 1, 2}));
  BOOST_TEST((program.classes[1].ranks == std::vector<Rank>{3, 4, 5}));
  BOOST_TEST(WalkParticipants(program).count() == 2u);
}

BOOST_AUTO_TEST_CASE(the_cost_of_proving_follows_classes_not_ranks) {
  const StepProgram program =
      make_catalogue(mesh_of(4, 5000), layered(6), options_of(PipelineSchedule::interleaved_1f1b, 2, 8)).train;
  BOOST_TEST(WalkParticipants(program).count() == 4u);
  BOOST_TEST(simulate(program, cost).ranks.size() == 4u);
}

BOOST_FIXTURE_TEST_CASE(a_rank_apart_from_its_class_is_walked_with_all_others, Right) {
  train = make_catalogue(mesh_of(2, 2), plan, options).train;
  RankClass alone = train.classes[1];
  train.classes[1].ranks = {2};
  alone.ranks = {3};
  train.classes.push_back(alone);
  BOOST_TEST(WalkParticipants(train).count() == 4u);
  BOOST_TEST(fault() == "");
  delay(2, position(2, Op::send_backward, 2, 0), position(2, Op::send_backward, 2, 1));
  BOOST_TEST(
      fault() ==
      "program train, rank 1, action 3 (receive_backward boundary 2 mb 0 at pp+1, 100 B): waits for ever for "
      "action 15 of rank 3, which is at action 14 (send_backward boundary 2 mb 1 at pp-1, 100 B)");  // not rank 0
}

BOOST_FIXTURE_TEST_CASE(a_dropped_receive_is_named, Right) {
  const int gone = position(1, Op::receive_forward, 2, 1);
  actions(1).erase(actions(1).begin() + gone);
  for (Action& action : actions(1)) {
    std::erase(action.waits, gone);
    for (int& wait : action.waits) wait -= wait > gone;
  }
  BOOST_TEST(fault() == "program train, rank 1: never does receive_forward boundary 2 mb 1");
}

BOOST_FIXTURE_TEST_CASE(swapped_sends_would_leave_both_ranks_waiting, Right) {
  delay(1, position(1, Op::send_backward, 2, 0), position(1, Op::send_backward, 2, 1));
  BOOST_TEST(fault() ==
             "program train, rank 0, action 3 (receive_backward boundary 2 mb 0 at pp+1, 100 B): waits for ever for "
             "action 15 of rank 1, which is at action 14 (send_backward boundary 2 mb 1 at pp-1, 100 B)");
}

BOOST_FIXTURE_TEST_CASE(a_forward_must_wait_for_its_receive, Right) {
  at(1, Op::forward, 2, 1).waits.clear();
  BOOST_TEST(fault() ==
             "program train, rank 1, action 7 (forward block layer.1 mb 1): may start before action 3 (receive_forward "
             "boundary 2 mb 1 at pp-1, 100 B) has ended");
}

BOOST_FIXTURE_TEST_CASE(what_was_received_must_live_until_its_backward, Right) {
  Slots& forward = at(1, Op::forward, 2, 0).slots;
  Slots& backward = at(1, Op::backward, 2, 0).slots;
  const int received = at(1, Op::receive_forward, 2, 0).slots.acquires.front();
  std::erase(forward.reads, received);
  forward.releases.push_back(received);
  std::erase(backward.releases, received);
  backward.reads.push_back(received);
  BOOST_TEST(fault() ==
             "program train, rank 1, action 5 (backward block layer.1 mb 0): may use boundary of boundary 2 mb 0 after "
             "action 1 releases it");
}

BOOST_FIXTURE_TEST_CASE(what_is_being_sent_must_live_until_it_is_received, Right) {
  at(0, Op::backward, 1, 0).waits.erase(at(0, Op::backward, 1, 0).waits.begin());
  BOOST_TEST(fault() ==
             "program train, rank 0, action 2 (send_forward boundary 2 mb 0 at pp+1, 100 B): may use boundary of "
             "boundary 2 mb 0 after action 8 releases it");
}

BOOST_FIXTURE_TEST_CASE(a_transfer_with_another_rank_than_the_one_that_holds_the_block_is_named, Right) {
  train = make_catalogue(mesh_of(3), plan, options).train;
  at(1, Op::send_forward, 3, 0).offset = -1;
  BOOST_TEST(fault() ==
             "program train, rank 1, action 3 (send_forward boundary 3 mb 0 at pp-1, 100 B): must exchange with pp 2, "
             "which holds block head");
  at(1, Op::send_forward, 3, 0).offset = 2;
  BOOST_TEST(fault() ==
             "program train, rank 1, action 3 (send_forward boundary 3 mb 0 at pp+2, 100 B): its peer lies outside the "
             "axis pp");
}

BOOST_AUTO_TEST_CASE(in_a_v_what_goes_up_must_not_wait_for_what_comes_down) {
  const ModelPlan plan = models::even(8);
  const ProgramOptions options = options_of(PipelineSchedule::zbv, 2, 8);
  StepProgram program = make_catalogue(mesh_of(4), plan, options).train;
  for (RankClass& ranks : program.classes)
    for (Action& action : ranks.actions) {
      for (Lane* lane : {&action.lane, &action.peer_lane}) {
        if (*lane == Lane::send_forward_up) *lane = Lane::send_forward;
        if (*lane == Lane::send_backward_up) *lane = Lane::send_backward;
      }
    }
  const auto fault = find_fault(program, plan, ProgramPhase::training, options);
  BOOST_REQUIRE(fault.has_value());
  BOOST_TEST(to_text(program, *fault) ==
             "program train, rank 1, action 21 (send_forward boundary 2 mb 5 at pp+1, 1 B): waits for ever for action "
             "34 of rank 2, which is at action 29 (receive_backward boundary 6 mb 1 at pp-1, 1 B)");
}

namespace {

/// Whether all ranks come to the end of their lists if each does its collectives and transfers one at a time, in the
/// order of its list: played rank by rank.
bool ends_one_at_a_time(const StepProgram& program) {
  struct Played {
    const std::vector<Action>* actions;
    std::vector<bool> ended;
    std::array<int, 2> next{0, 0};  // positions: of computation, of communication
  };
  const auto communicates = [](const Action& action) { return is_collective(action.op) || is_transfer(action.op); };
  std::vector<Played> ranks;
  for (Rank rank = 0; rank < world_size(program.mesh); ++rank)
    ranks.push_back({&program.of(rank), std::vector<bool>(program.of(rank).size(), false)});
  const auto next = [&](Rank rank, bool of) -> const Action* {
    Played& played = ranks[static_cast<std::size_t>(rank)];
    int& at = played.next[of ? 1 : 0];
    while (at < std::ssize(*played.actions) && communicates((*played.actions)[static_cast<std::size_t>(at)]) != of)
      ++at;
    if (at == std::ssize(*played.actions)) return nullptr;
    const Action& action = (*played.actions)[static_cast<std::size_t>(at)];
    return std::ranges::all_of(action.waits, [&](int wait) { return played.ended[static_cast<std::size_t>(wait)]; })
               ? &action
               : nullptr;
  };
  const auto end = [&](Rank rank, bool of) {
    Played& played = ranks[static_cast<std::size_t>(rank)];
    played.ended[static_cast<std::size_t>(played.next[of ? 1 : 0]++)] = true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (Rank rank = 0; rank < std::ssize(ranks); ++rank) {
      for (; next(rank, false); moved = true) end(rank, false);
      const Action* mine = next(rank, true);
      if (!mine) continue;
      std::vector<Rank> group{rank, rank};
      if (is_transfer(mine->op))
        group[1] = *peer_of(program.mesh, rank, *mine);
      else
        group = group_along(program.mesh, rank, mine->group);
      const bool meet = std::ranges::all_of(group, [&](Rank member) {
        const Action* theirs = next(member, true);
        return theirs && theirs->subject == mine->subject && theirs->micro_batch == mine->micro_batch &&
               (member == rank || theirs->op == (is_transfer(mine->op) ? counterpart_of(mine->op) : mine->op));
      });
      if (!meet) continue;
      std::ranges::sort(group);
      group.erase(std::ranges::unique(group).begin(), group.end());
      for (const Rank member : group) end(member, true);
      moved = true;
    }
  }
  return std::ranges::all_of(
      ranks, [](const Played& played) { return std::ranges::find(played.ended, false) == played.ended.end(); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(whether_communication_may_be_issued_one_at_a_time_is_what_a_play_of_it_shows) {
  int safe = 0, unsafe = 0;
  for (const PipelineSchedule schedule : pipeline_schedules)
    for (const int ranks : {1, 2, 3, 4})
      for (const int replicas : {1, 2})
        for (const int micro_batches : {1, 2, 4, 12}) {
          const bool several = schedule != PipelineSchedule::gpipe && schedule != PipelineSchedule::one_f_one_b;
          const int chunks = several ? 2 : 1;
          if (micro_batches % std::max(1, micro_batches / ranks) != 0) continue;
          const StepProgram program =
              make_catalogue(mesh_of(ranks, replicas), models::even(8), options_of(schedule, chunks, micro_batches))
                  .train;
          const auto stall = find_serial_stall(program);
          BOOST_TEST(!stall.has_value() == ends_one_at_a_time(program),
                     name_of(schedule) << " " << ranks << " " << micro_batches << " "
                                       << (stall ? to_text(program, *stall) : "safe"));
          (stall ? unsafe : safe) += 1;
          if (ranks == 1 && schedule != PipelineSchedule::zbv) BOOST_TEST(!stall);  // no transfers
        }
  BOOST_TEST(safe > 0);
  BOOST_TEST(unsafe > 0);
}

/// What each rank computes, in order: it is what no order of communication may change.
std::vector<std::vector<std::string>> computations_of(const StepProgram& program) {
  std::vector<std::vector<std::string>> all;
  for (const RankClass& ranks : program.classes) {
    std::vector<std::string>& own = all.emplace_back();
    for (const Action& action : ranks.actions)
      if (action.lane == Lane::compute) own.push_back(to_text(program, action));
  }
  return all;
}

BOOST_AUTO_TEST_CASE(communication_of_any_program_can_be_ordered_for_one_queue) {
  int moved = 0;
  for (const PipelineSchedule schedule : pipeline_schedules)
    for (const int ranks : {1, 2, 3, 4})
      for (const int replicas : {1, 2})
        for (const int micro_batches : {1, 2, 4, 12}) {
          const bool several = schedule != PipelineSchedule::gpipe && schedule != PipelineSchedule::one_f_one_b;
          const int chunks = several ? 2 : 1;
          if (micro_batches % std::max(1, micro_batches / ranks) != 0) continue;
          ProgramOptions options = options_of(schedule, chunks, micro_batches);
          const Mesh mesh = mesh_of(ranks, replicas);
          const StepProgram lanes = make_catalogue(mesh, models::even(8), options).train;
          options.one_queue = true;
          const StepProgram queued = make_catalogue(mesh, models::even(8), options).train;  // verified there
          BOOST_TEST(ends_one_at_a_time(queued), name_of(schedule) << " " << ranks << " " << micro_batches);
          BOOST_TEST(computations_of(queued) == computations_of(lanes));
          if (!find_serial_stall(lanes)) BOOST_TEST((queued == lanes));
          if (queued != lanes) ++moved;
        }
  BOOST_TEST(moved > 0);
}

BOOST_AUTO_TEST_CASE(random_programs_can_be_ordered_for_one_queue) {
  std::mt19937 engine(6);
  for (int i = 0; i < 200; ++i) {
    models::Case made = models::random_case(engine);
    made.options.one_queue = true;
    const Catalogue programs = make_catalogue(made.mesh, made.plan, made.options);
    for (const StepProgram* program : programs.all()) BOOST_TEST(!find_serial_stall(*program).has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_program_that_would_wait_in_one_queue_is_a_fault_where_there_is_one) {
  ProgramOptions options = options_of(PipelineSchedule::one_f_one_b, 1, 4);
  const StepProgram lanes = make_catalogue(mesh_of(3), models::even(8), options).train;
  BOOST_REQUIRE(find_serial_stall(lanes).has_value());
  BOOST_TEST(!find_fault(lanes, models::even(8), ProgramPhase::training, options).has_value());
  options.one_queue = true;
  BOOST_TEST(find_fault(lanes, models::even(8), ProgramPhase::training, options).has_value());
}

BOOST_FIXTURE_TEST_CASE(a_receive_that_is_issued_before_its_turn_needs_a_lane_of_its_own, Right) {
  const auto stall = find_serial_stall(train);
  BOOST_REQUIRE(stall.has_value());
  BOOST_TEST(to_text(train, *stall) ==
             "program train, rank 0, action 3 (receive_backward boundary 2 mb 0 at pp+1, 100 B): waits for ever for "
             "action 6 of rank 1, which is at action 3 (receive_forward boundary 2 mb 1 at pp-1, 100 B)");
  // Issued after what its sender waits for, it needs none.
  delay(0, position(0, Op::receive_backward, 2, 0), position(0, Op::send_forward, 2, 1));
  BOOST_TEST(fault() == "");
  BOOST_TEST(!find_serial_stall(train).has_value());
  BOOST_TEST(ends_one_at_a_time(train));
}

BOOST_AUTO_TEST_CASE(collectives_alone_can_always_be_issued_one_at_a_time) {
  std::mt19937 engine(5);
  for (int i = 0; i < 100; ++i) {
    const models::Case made = models::random_case(engine);
    BOOST_TEST(!find_serial_stall(make_catalogue(made.mesh, made.plan, made.options).train).has_value());
  }
}

BOOST_AUTO_TEST_CASE(programs_idle_as_their_schedules_do) {
  BOOST_TEST(bubble_of(PipelineSchedule::gpipe, 4, 1, 6) == 3 * 3);
  BOOST_TEST(bubble_of(PipelineSchedule::one_f_one_b, 4, 1, 6) == 3 * 3);
  BOOST_TEST(bubble_of(PipelineSchedule::interleaved_1f1b, 4, 2, 8) == 3 * 3);
  BOOST_TEST(bubble_of(PipelineSchedule::interleaved_zero_bubble, 4, 2, 8) == 3);
  BOOST_TEST(bubble_of(PipelineSchedule::zbv, 4, 2, 8) == 3);
}

BOOST_AUTO_TEST_CASE(ranks_of_1f1b_keep_the_micro_batches_of_the_ranks_behind) {
  const StepProgram program =
      make_catalogue(mesh_of(4), models::even(8), options_of(PipelineSchedule::one_f_one_b, 1, 6)).train;
  for (int rank = 0; rank < 4; ++rank)
    BOOST_TEST(memory_of(program.class_of(rank)).bytes.at(SlotKind::stash) == (4 - rank) * 2 * 1000);
}

BOOST_AUTO_TEST_CASE(a_step_of_several_passes_goes_through_the_schedule_as_often) {
  ProgramOptions options = options_of(PipelineSchedule::gpipe, 1, 4);
  options.pipeline.passes = 2;
  const StepProgram program = make_catalogue(mesh_of(2), models::even(2), options).train;
  std::string order;
  for (const Action& action : program.of(0))
    if (action.subject.kind == Subject::Kind::block)
      order += fmt::format("{}{} ", action.op == Op::forward ? 'F' : 'B', action.micro_batch);
  BOOST_TEST(order == "F0 F1 B0 B1 F2 F3 B2 B3 ");
  options.pipeline.passes = 3;
  BOOST_CHECK_EXCEPTION(make_catalogue(mesh_of(2), models::even(2), options), Error, [](const Error& error) {
    BOOST_TEST(error.what() == "cannot run 4 micro-batches in 3 passes through the pipeline: 4 mod 3 is not 0");
    return error.code() == ExitCode::usage;
  });
}

BOOST_AUTO_TEST_CASE(ranks_with_a_tied_weight_tell_each_other_its_gradient_and_count_its_norm_once) {
  const StepProgram program =
      make_catalogue(mesh_of(2), models::tied(), options_of(PipelineSchedule::gpipe, 1, 2)).train;
  const auto count = [&](Rank rank, Op op) {
    return std::ranges::count_if(
        program.of(rank), [&](const Action& action) { return action.op == op && action.subject == unit_subject(0); });
  };
  for (const Rank rank : {0, 1}) {
    for (const Op op : {Op::send_gradient, Op::receive_gradient, Op::add_gradient, Op::optimizer})
      BOOST_TEST(count(rank, op) == 1);
    BOOST_TEST(count(rank, Op::gradient_norm) == (rank == 0 ? 1 : 0));
  }
  const StepProgram in_v = make_catalogue(mesh_of(2), models::tied(), options_of(PipelineSchedule::zbv, 2, 3)).train;
  BOOST_TEST(std::ranges::none_of(in_v.of(0), [](const Action& action) { return action.op == Op::send_gradient; }));
}

BOOST_AUTO_TEST_CASE(a_unit_of_neighbouring_blocks_on_two_ranks_is_a_bug_of_the_plan) {
  const auto buckets = models::tied({DType::f32, DType::f32, models::moments(DType::f32)}, 1 << 20);
  BOOST_CHECK_EXCEPTION(make_catalogue(mesh_of(2), buckets, options_of(PipelineSchedule::gpipe, 1, 2)), Error,
                        [](const Error& error) {
                          return error.code() == ExitCode::bug &&
                                 std::string(error.what()).find("are on one pipeline rank") != std::string::npos;
                        });
}

BOOST_AUTO_TEST_SUITE_END()
