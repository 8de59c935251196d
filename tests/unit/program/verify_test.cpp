#include "program/verify.hpp"

#include "base/error.hpp"
#include "harness/share.hpp"
#include "unit/program/brute_force.hpp"
#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace lockstep;
using models::Case;

namespace {

/// Lets the waits of a list follow its actions: new_position[i] is where action i went, −1 if it is gone.
void follow(std::vector<Action>& actions, const std::vector<int>& new_position) {
  for (Action& action : actions) {
    for (int& wait : action.waits) wait = new_position[static_cast<std::size_t>(wait)];
    std::erase(action.waits, -1);
  }
}

class Mutator {
 public:
  explicit Mutator(std::mt19937& engine) : engine_(engine) {}

  /// Damages the list of one class, or of one rank after giving it a class of its own.
  StepProgram mutate(StepProgram program) {
    if (roll(0, 2) == 0) split_off_a_rank(program);
    RankClass& ranks = program.classes[roll(0, program.classes.size() - 1)];
    switch (roll(0, 6)) {
      case 0: remove(ranks.actions); break;
      case 1: duplicate(ranks.actions); break;
      case 2: swap(ranks.actions); break;
      case 3: forget_a_wait(ranks.actions); break;
      case 4: forget_a_slot(ranks.actions); break;
      case 5: move(ranks.actions); break;
      case 6: change_what_ranks_share(ranks.actions); break;
    }
    return program;
  }

 private:
  std::size_t roll(std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(engine_);
  }
  std::size_t any(const std::vector<Action>& actions) { return roll(0, actions.size() - 1); }

  void split_off_a_rank(StepProgram& program) {
    RankClass& all = program.classes.front();
    if (all.ranks.size() < 2) return;
    RankClass alone = all;
    const auto chosen = static_cast<std::ptrdiff_t>(roll(0, all.ranks.size() - 1));
    alone.ranks = {all.ranks[static_cast<std::size_t>(chosen)]};
    all.ranks.erase(all.ranks.begin() + chosen);
    program.classes.push_back(alone);
  }

  void remove(std::vector<Action>& actions) {
    const std::size_t gone = any(actions);
    std::vector<int> where;
    for (std::size_t i = 0; i < actions.size(); ++i) where.push_back(i == gone ? -1 : static_cast<int>(i - (i > gone)));
    follow(actions, where);
    actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(gone));
  }

  void duplicate(std::vector<Action>& actions) {
    const Action copy = actions[any(actions)];
    const std::size_t at = any(actions);
    std::vector<int> where;
    for (std::size_t i = 0; i < actions.size(); ++i) where.push_back(static_cast<int>(i + (i >= at)));
    actions.push_back(copy);
    follow(actions, where);
    std::rotate(actions.begin() + static_cast<std::ptrdiff_t>(at), actions.end() - 1, actions.end());
  }

  void swap(std::vector<Action>& actions) {
    const std::size_t a = any(actions);
    const std::size_t b = roll(0, 1) == 0 ? any(actions) : std::min(a + 1, actions.size() - 1);
    std::vector<int> where;
    for (std::size_t i = 0; i < actions.size(); ++i) where.push_back(static_cast<int>(i == a ? b : i == b ? a : i));
    follow(actions, where);
    std::swap(actions[a], actions[b]);
  }

  void move(std::vector<Action>& actions) {
    std::vector<std::size_t> old(actions.size());  // old position by new position
    for (std::size_t i = 0; i < old.size(); ++i) old[i] = i;
    const std::size_t from = any(actions);
    const std::size_t to = any(actions);
    old.erase(old.begin() + static_cast<std::ptrdiff_t>(from));
    old.insert(old.begin() + static_cast<std::ptrdiff_t>(to), from);
    std::vector<int> where(actions.size());
    std::vector<Action> moved;
    for (std::size_t i = 0; i < old.size(); ++i) {
      where[old[i]] = static_cast<int>(i);
      moved.push_back(actions[old[i]]);
    }
    follow(moved, where);
    actions = moved;
  }

  void forget_a_wait(std::vector<Action>& actions) {
    std::vector<Action*> waiting;
    for (Action& action : actions)
      if (!action.waits.empty()) waiting.push_back(&action);
    if (!waiting.empty()) waiting[roll(0, waiting.size() - 1)]->waits.clear();
  }

  void forget_a_slot(std::vector<Action>& actions) {
    Slots& slots = actions[any(actions)].slots;
    std::vector<int>* const lists[] = {&slots.acquires, &slots.reads, &slots.writes, &slots.releases};
    std::vector<int>& list = *lists[roll(0, 3)];
    if (!list.empty()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(roll(0, list.size() - 1)));
  }

  void change_what_ranks_share(std::vector<Action>& actions) {
    for (Action& action : actions) {
      if ((!is_collective(action.op) && !is_transfer(action.op)) || roll(0, 4) != 0) continue;
      if (roll(0, 1) == 0)
        action.bytes += 8;
      else if (is_transfer(action.op))
        action.offset = -action.offset;
      else
        action.group.pop_back();
      return;
    }
  }

  std::mt19937& engine_;
};

struct Right {
  Mesh mesh = make_mesh("world", {{"dp_replicate", 2}});
  ModelPlan plan = models::tied({DType::f32, DType::bf16, models::moments(DType::f32)});
  ProgramOptions options;
  StepProgram train;
  Right() {
    options.micro_batches = 2;
    options.recompute = RecomputePolicy::block;
    train = make_catalogue(mesh, plan, options).train;
  }
  std::vector<Action>& actions() { return train.classes.front().actions; }
  int position(Op op, int index, MicroBatch mb = no_micro_batch) {
    for (std::size_t i = 0; i < actions().size(); ++i)
      if (actions()[i].op == op && actions()[i].subject.index == index && actions()[i].micro_batch == mb)
        return static_cast<int>(i);
    return -1;
  }
  Action& at(Op op, int index, MicroBatch mb = no_micro_batch) {
    return actions().at(static_cast<std::size_t>(position(op, index, mb)));
  }
  std::string fault() const {
    const auto found = find_fault(train, plan, ProgramPhase::training, options);
    return found ? to_text(train, *found) : "";
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(verification)

BOOST_AUTO_TEST_CASE(programs_of_random_models_pass_and_play_right_in_every_order_tried) {
  std::mt19937 engine(1);
  for (int trial = 0; trial < 235; ++trial) {
    const Case made = trial < 200 ? models::random_case(engine) : models::random_pipeline(engine);
    const Catalogue programs = make_catalogue(made.mesh, made.plan, made.options);  // throws if a program does not pass
    const auto judged = [&](const StepProgram& program, ProgramPhase phase) {
      const auto reason = brute_force::wrong(program, made.plan, phase, made.options, 3);
      if (reason) BOOST_FAIL(*reason << "\n" << to_text(program));
    };
    judged(programs.of(made.options.training_step), ProgramPhase::training);
    if (made.options.eval_micro_batches > 0) judged(programs.eval, ProgramPhase::evaluation);
  }
}

BOOST_AUTO_TEST_CASE(every_mutation_that_plays_wrong_is_rejected) {
  std::mt19937 engine(2);
  Mutator mutator(engine);
  const int trials = test::all_cases() ? 6000 : 1200, pipelines = test::all_cases() ? 250 : 50;
  int wrong = 0;
  int harmless = 0;
  int harmless_but_rejected = 0;
  for (int trial = 0; trial < trials + pipelines; ++trial) {
    const Case made = trial < trials ? models::random_case(engine) : models::random_pipeline(engine);
    const Catalogue programs = make_catalogue(made.mesh, made.plan, made.options);
    const bool trains = made.options.eval_micro_batches == 0 || trial % 4 != 0;
    const ProgramPhase phase = trains ? ProgramPhase::training : ProgramPhase::evaluation;
    const StepProgram mutated = mutator.mutate(trains ? programs.of(made.options.training_step) : programs.eval);
    const auto fault = find_fault(mutated, made.plan, phase, made.options);
    if (fault) BOOST_REQUIRE(!to_text(mutated, *fault).empty());
    const auto reason = brute_force::wrong(mutated, made.plan, phase, made.options, fault ? 1 : 4);
    if (reason) {
      ++wrong;
      if (!fault) BOOST_FAIL("accepted, but " << *reason << "\n" << to_text(mutated));
    } else {
      ++harmless;
      harmless_but_rejected += fault.has_value();
    }
  }
  BOOST_TEST(wrong > trials / 3);
  BOOST_TEST(harmless - harmless_but_rejected >
             trials / 30);  // the verifier does not simply reject what is not as the passes made it
}

BOOST_FIXTURE_TEST_CASE(a_reduction_that_does_not_wait_for_its_gradient_is_named, Right) {
  at(Op::all_reduce, 3).waits.clear();
  BOOST_TEST(fault() ==
             "program train, rank 0, action 16 (all_reduce unit head over dp_replicate, 64 B): "
             "may start before action 15 (finish_gradient unit head) has ended");
}

BOOST_FIXTURE_TEST_CASE(a_token_is_not_drawn_before_the_logits_are_there, Right) {
  StepProgram token = make_catalogue(mesh, plan, options, TextPlans{plan, plan}).token;
  const auto found = [&] {
    const auto what = find_fault(token, plan, ProgramPhase::token, options);
    return what ? to_text(token, *what) : "";
  };
  BOOST_TEST(found() == "");
  std::vector<Action>& list = token.classes.front().actions;
  const Waits waits = std::exchange(list.back().waits, {});
  BOOST_TEST(found() ==
             "program token, rank 0, action 4 (draw_tokens over dp_replicate): may start before action 3 (forward "
             "block head mb 0) has ended");
  list.back().waits = waits;
  list.back().group.clear();
  BOOST_TEST(found().find("must be over dp_replicate") != std::string::npos);
  list.pop_back();
  BOOST_TEST(found() == "program token, rank 0: never does draw_tokens");
}

BOOST_FIXTURE_TEST_CASE(a_dropped_stash_must_be_computed_again, Right) {
  const int gone = position(Op::recompute, 2, 1);
  actions().erase(actions().begin() + gone);
  for (Action& action : actions())
    for (int& wait : action.waits) wait -= wait > gone;
  BOOST_TEST(fault() == "program train, rank 0: never does recompute block layer.1 mb 1");
}

BOOST_FIXTURE_TEST_CASE(a_block_must_be_recomputed_before_its_backward_reads_the_stash, Right) {
  const auto first = static_cast<std::size_t>(position(Op::recompute, 2, 0));
  std::swap(actions()[first], actions()[first + 1]);
  BOOST_TEST(fault() ==
             "program train, rank 0, action 5 (backward block layer.1 mb 0): "
             "may start before action 6 (recompute block layer.1 mb 0) has ended");
}

BOOST_FIXTURE_TEST_CASE(what_a_block_keeps_for_its_repetition_is_what_was_asked_for_and_read_by_it, Right) {
  for (const std::size_t block : {1, 2}) plan.blocks[block].recomputations.resize(KeepSet::count, {.kept_bytes = 50});
  options.recompute.keeps = {Keep::projections, Keep::mlp};
  train = make_catalogue(mesh, plan, options).train;
  BOOST_TEST(fault() == "");
  const StepProgram right = train;
  train.keeps.clear();
  BOOST_TEST(fault() == "program train, rank 0: keeps other activations of recomputed blocks than the options ask for");
  train = right;
  std::erase_if(actions()[static_cast<std::size_t>(position(Op::recompute, 2, 0))].slots.writes, [&](int slot) {
    return train.classes.front().slots[static_cast<std::size_t>(slot)].kind == SlotKind::kept;
  });
  BOOST_TEST(fault().find("(recompute block layer.1 mb 0 without matmul): must use kept of block layer.1 mb 0") !=
             std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(an_action_that_the_options_do_not_ask_for_is_rejected, Right) {
  options.update.clips = false;
  BOOST_TEST(fault() == "program train, rank 0, action 33 (clip): does not belong to this step");
}

BOOST_FIXTURE_TEST_CASE(two_lanes_must_not_touch_the_same_memory_at_once, Right) {
  const std::vector<int> gradient =
      at(Op::all_reduce, 2).slots.writes;  // of layer.1, whose backward runs beside the head's reduction
  Slots& slots = at(Op::all_reduce, 3).slots;
  const Slots right = slots;
  slots.reads = gradient;
  const std::string expected =
      "program train, rank 0, action 18 (backward block layer.1 mb 1): "
      "may run at the same time as action 16, which also uses gradient of unit layer.1";
  BOOST_TEST(fault() == expected);
  slots = right;
  slots.writes.push_back(gradient.front());
  BOOST_TEST(fault() == expected);
}

BOOST_FIXTURE_TEST_CASE(weights_that_were_updated_in_backward_are_not_used_again, Right) {
  options.update = {.clips = false, .heartbeat_bytes = 0, .in_backward = true};
  train = make_catalogue(mesh, plan, options).train;
  BOOST_TEST(fault() == "");
  const StepProgram right = train;
  const std::vector<int> weights = at(Op::backward, 3, 1).slots.reads;  // of the head and of the embedding
  at(Op::backward, 0, 1).slots.reads.push_back(weights.back());
  BOOST_TEST(fault() ==
             "program train, rank 0, action 29 (backward block embedding mb 1): "
             "uses compute_copy of unit head, which action 22 has updated");
  train = right;
  const int update = position(Op::optimizer, 3), norm = position(Op::gradient_norm, 3);
  std::swap(actions()[static_cast<std::size_t>(update)].subject, actions()[static_cast<std::size_t>(norm)].subject);
  std::swap(actions()[static_cast<std::size_t>(update)], actions()[static_cast<std::size_t>(norm)]);
  BOOST_TEST(fault().find("may start before action") != std::string::npos, fault());
}

BOOST_FIXTURE_TEST_CASE(every_trained_weight_is_averaged_once_over_the_cells_after_the_heartbeat, Right) {
  mesh = make_mesh("world", {{"dp_replicate", 2}, {"dp_node", 2}});
  options.local = {.axes = {"dp_replicate"}, .start_step = 4, .period = 3};
  options.training_step = TrainingStep::averaging;
  const Catalogue programs = make_catalogue(mesh, plan, options);
  for (const std::int64_t step : {0, 3}) BOOST_TEST(programs.pick(step, ProgramPhase::training).name == "train");
  for (const std::int64_t step : {4, 7}) BOOST_TEST(programs.pick(step, ProgramPhase::training).name == "average");
  for (const std::int64_t step : {5, 6, 8}) BOOST_TEST(programs.pick(step, ProgramPhase::training).name == "local");
  const StepProgram right = train = programs.averaging;
  BOOST_TEST(fault() == "");
  const auto without = [&](Op op) {
    train = right;
    actions().erase(actions().begin() + position(op, 2));  // nothing waits for what is behind it but its own mean
    for (Action& action : actions())
      for (int& wait : action.waits) wait = std::min(wait, static_cast<int>(actions().size()) - 1);
    return fault();
  };
  BOOST_TEST(without(Op::finish_average) == "program average, rank 0: never does finish_average unit layer.1");
  train = right;
  at(Op::average_weights, 2).group = {"dp_node"};
  BOOST_TEST(fault().find("must be over dp_replicate") != std::string::npos, fault());
  train = right;
  at(Op::average_weights, 2).subject = unit_subject(1);
  BOOST_TEST(fault().find("repeats action") != std::string::npos, fault());
  train = right;
  at(Op::average_weights, 2).bytes /= 2;
  BOOST_TEST(fault().find("instead of") != std::string::npos, fault());
  train = right;
  at(Op::average_weights, 2).waits.clear();
  BOOST_TEST(fault().find("may start before action") != std::string::npos, fault());
  train = right;
  at(Op::finish_average, 2).waits.clear();
  BOOST_TEST(fault().find("may start before action") != std::string::npos, fault());
  train = right;
  at(Op::all_reduce, 2).group = {"dp_replicate", "dp_node"};  // gradients of other cells
  BOOST_TEST(fault().find("must be over dp_node") != std::string::npos, fault());
  train = right;
  at(Op::reduce_norm, 0).group = {"dp_replicate"};
  BOOST_TEST(fault().find("must be over dp_node") != std::string::npos, fault());
  train = right;
  train.apart.clear();
  BOOST_TEST(fault().find("has separate weights along") != std::string::npos, fault());
  train = programs.local;
  BOOST_TEST(fault() == "program local, rank 0: never does average_weights unit embedding");
  options.training_step = TrainingStep::local;
  BOOST_TEST(fault() == "");
  train = right;
  BOOST_TEST(fault().find("does not belong to this step") != std::string::npos, fault());
}

BOOST_AUTO_TEST_CASE(a_gradient_that_is_used_up_in_backward_takes_memory_for_two_units_only) {
  std::vector<BlockPlan> blocks;
  std::vector<ParameterPlan> parameters;
  for (int block = 0; block < 10; ++block) {
    blocks.push_back({fmt::format("block.{}", block), 10, block == 9 ? 0 : 1, 0, 1, 2, false});
    parameters.push_back({fmt::format("w{}", block), {1000}, {block}});
  }
  const auto gradients = [&](int shards, int micro_batches, bool in_backward) {
    const Sharding cut = shards > 1 ? Sharding{{"dp_shard"}, shards} : Sharding{};
    const ModelPlan ten = models::plan_of(blocks, parameters, {DType::f32, DType::f32, {}}, 0, cut);
    ProgramOptions options;
    options.micro_batches = micro_batches;
    options.update = {.clips = false, .heartbeat_bytes = 88, .in_backward = in_backward};
    const StepProgram program =
        make_catalogue(make_mesh("world", {{"dp_replicate", 1}, {"dp_shard", shards}}), ten, options).train;
    std::int64_t live = 0, most = 0;
    const RankClass& ranks = program.classes.front();
    const auto is_gradient = [&](int slot) {
      const SlotKind kind = ranks.slots[static_cast<std::size_t>(slot)].kind;
      return kind == SlotKind::gradient || kind == SlotKind::step_gradient;
    };
    for (const Slot& slot : ranks.slots) live += slot.kind == SlotKind::gradient ? slot.bytes : 0;
    for (const Action& action : ranks.actions) {
      for (const int slot : action.slots.acquires) live += is_gradient(slot) ? ranks.slots[slot].bytes : 0;
      most = std::max(most, live);
      for (const int slot : action.slots.releases) live -= is_gradient(slot) ? ranks.slots[slot].bytes : 0;
    }
    return most / (4032 / shards);  // bytes of a unit
  };
  BOOST_TEST(gradients(1, 1, false) == 10);
  BOOST_TEST(gradients(1, 1, true) == 1);   // nothing to reduce: updated at once
  BOOST_TEST(gradients(2, 1, true) == 2);   // one is reduced while the next is computed
  BOOST_TEST(gradients(1, 3, true) == 10);  // from the first micro-batch to the last
}

BOOST_FIXTURE_TEST_CASE(an_action_that_leaves_out_memory_it_needs_is_named_with_it, Right) {
  at(Op::forward, 1, 0).slots.reads = at(Op::forward, 0, 0).slots.reads;
  BOOST_TEST(fault() ==
             "program train, rank 0, action 1 (forward block layer.0 mb 0): must use compute_copy of unit layer.0");
}

BOOST_FIXTURE_TEST_CASE(memory_that_is_never_released_is_named_where_it_is_acquired, Right) {
  at(Op::backward, 3, 0).slots.releases.clear();
  BOOST_TEST(fault() ==
             "program train, rank 0, action 2 (forward block layer.1 mb 0): "
             "acquires boundary of boundary 3 mb 0, which nothing releases");
}

BOOST_FIXTURE_TEST_CASE(ranks_that_reduce_in_another_order_are_caught_before_they_hang, Right) {
  RankClass other = train.classes.front();
  other.ranks = {1};
  train.classes.front().ranks = {0};
  const auto of_unit = [&](int unit) {
    return std::find_if(other.actions.begin(), other.actions.end(),
                        [&](const Action& a) { return a.op == Op::all_reduce && a.subject.index == unit; });
  };
  // The earlier reduction goes right behind the later one; each is still after its gradient.
  const auto early = of_unit(3) - other.actions.begin();
  const auto late = of_unit(2) - other.actions.begin();
  std::rotate(other.actions.begin() + early, other.actions.begin() + early + 1, other.actions.begin() + late + 1);
  const auto moved = [&](int position) {
    if (position == early) return static_cast<int>(late);
    if (position == late) return static_cast<int>(late) - 1;
    return position > early && position < late ? position - 1 : position;
  };
  for (Action& action : other.actions)
    for (int& wait : action.waits) wait = moved(wait);
  train.classes.push_back(other);
  BOOST_TEST(fault() ==
             "program train, rank 1, action 19 (all_reduce unit layer.1 over dp_replicate, 128 B): "
             "meets action 16 of rank 0: all_reduce unit head over dp_replicate, 64 B");
}

BOOST_FIXTURE_TEST_CASE(a_rank_that_leaves_out_a_reduction_would_leave_the_others_waiting, Right) {
  RankClass other = train.classes.front();
  other.ranks = {1};
  train.classes.front().ranks = {0};
  other.actions.erase(other.actions.begin() + position(Op::heartbeat, 0), other.actions.end());
  train.classes.push_back(other);
  BOOST_TEST(fault() == "program train, rank 1: never does heartbeat");
}

BOOST_FIXTURE_TEST_CASE(a_peak_above_the_limit_is_a_matter_of_resources_not_a_bug, Right) {
  options.memory_limit_bytes = 1;
  BOOST_CHECK_EXCEPTION(make_catalogue(mesh, plan, options), Error, [](const Error& error) {
    return error.code() == ExitCode::resources &&
           std::string(error.what()).find("KiB, the limit is 1 B") != std::string::npos && !error.hint().empty();
  });
}

BOOST_FIXTURE_TEST_CASE(a_program_that_lacks_a_rank_is_rejected, Right) {
  train.classes.front().ranks = {0};
  BOOST_TEST(fault() == "program train, rank 1: has 0 lists of actions");
}

BOOST_AUTO_TEST_SUITE_END()
