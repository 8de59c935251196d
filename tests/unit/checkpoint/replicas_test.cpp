// Ranks that should hold the same, compared and repaired apart from a save.
#include "checkpoint/replicas.hpp"

#include "base/error.hpp"
#include "checkpoint/load_checkpoint.hpp"
#include "checkpoint/save.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "store/run_directory.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(replicas)

namespace {

struct Repaired {
  std::vector<std::string> told;          // by rank: what was repaired, or the error
  std::vector<std::int64_t> wrong_bytes;  // by rank, afterwards
  bool failed = false;
};

using Damage = std::function<void(Job&, Rank)>;

/// Ranks after step 3, damaged and repaired.
Repaired repair(const World& world, const std::function<Job(Rank)>& make, const Damage& damage,
                const Damage& look = {}) {
  const auto size = static_cast<std::size_t>(world_size(world.mesh));
  Repaired result{std::vector<std::string>(size), std::vector<std::int64_t>(size)};
  on_ranks(static_cast<int>(size), [&](Communicator& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    Job job = make(ranks.rank());
    job.advance_to(3);
    damage(job, ranks.rank());
    try {
      result.told[rank] = repair_replicas(ranks, world, job.components(), {}, [] {}).value_or("nothing");
    } catch (const Error& error) {
      if (error.code() != ExitCode::verdict) throw;
      result.told[rank] = error.what();
      if (rank == 0) result.failed = true;
    }
    result.wrong_bytes[rank] = job.wrong_bytes(3);
    if (look) look(job, ranks.rank());
  });
  for (const std::string& told : result.told) BOOST_TEST(told == result.told.front());
  return result;
}

Repaired repair_replica(int ranks, const Damage& damage) {
  return repair(single_axis_world(ranks), [&](Rank rank) { return replica(ranks, rank); }, damage);
}

}  // namespace

BOOST_AUTO_TEST_CASE(replicas_that_are_equal_are_left_as_they_are) {
  const Repaired result = repair_replica(3, [](Job&, Rank) {});
  BOOST_TEST(result.told.front() == "nothing");
  BOOST_TEST((result.wrong_bytes == std::vector<std::int64_t>{0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(the_minority_takes_over_what_most_hold) {
  for (const Rank wrong : {0, 1, 2}) {
    const Repaired result = repair_replica(3, [&](Job& job, Rank rank) {
      if (rank != wrong) return;
      job.buffer(0)[333] ^= std::byte{16};
      job.buffer(1)[2] ^= std::byte{1};
    });
    BOOST_TEST(!result.failed);
    BOOST_TEST(result.told.front().starts_with(
                   fmt::format("replicas differ in model/wte.weight [0:37, 0:8]: rank {} against ", wrong)),
               result.told.front());
    BOOST_TEST(result.told.front().ends_with(
                   fmt::format("; rank {} copied the state of the majority from rank {}", wrong, wrong == 0 ? 1 : 0)),
               result.told.front());
    BOOST_TEST((result.wrong_bytes == std::vector<std::int64_t>{0, 0, 0}));
  }
}

// Another rank is wrong in each tensor, and two of five in one.
BOOST_AUTO_TEST_CASE(each_box_goes_by_a_majority_of_its_own) {
  const Repaired result = repair_replica(5, [](Job& job, Rank rank) {
    if (rank == 0) job.buffer(0)[0] ^= std::byte{1};
    if (rank == 1 || rank == 4) job.buffer(1)[static_cast<std::size_t>(rank)] ^= std::byte{1};
    if (rank == 3) job.step = 17;
  });
  BOOST_TEST(!result.failed, result.told.front());
  BOOST_TEST(result.told.front().find("the values of component 'trainer', declared global: rank 3 against ranks 0-2,4: "
                                      "step is 17 against 3") != std::string::npos,
             result.told.front());
  BOOST_TEST(result.told.front().ends_with("; ranks 0-1,3-4 copied the state of the majority from ranks 0-1"),
             result.told.front());
  BOOST_TEST((result.wrong_bytes == std::vector<std::int64_t>{0, 0, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(without_a_majority_nothing_is_changed_on_any_rank) {
  const Repaired two = repair_replica(2, [](Job& job, Rank rank) {
    if (rank == 1) job.buffer(0)[8] ^= std::byte{1};
  });
  BOOST_TEST(two.failed);
  BOOST_TEST(two.told.front().ends_with("; not repaired: with 2 replicas there is no majority"), two.told.front());
  BOOST_TEST((two.wrong_bytes == std::vector<std::int64_t>{0, 1}));
  // One tensor could be repaired, the other not.
  const Repaired four = repair_replica(4, [](Job& job, Rank rank) {
    if (rank == 1) job.buffer(0)[8] ^= std::byte{1};
    if (rank >= 2) job.buffer(1)[0] ^= std::byte{1};
  });
  BOOST_TEST(four.failed);
  BOOST_TEST(four.told.front().ends_with("; not repaired: of 4 replicas at most 2 agree"), four.told.front());
  BOOST_TEST((four.wrong_bytes == std::vector<std::int64_t>{0, 1, 1, 1}));
}

// Bits of any replicas flip, often the same ones; the oracle counts whole buffers.
BOOST_AUTO_TEST_CASE(either_every_buffer_has_a_majority_that_all_hold_then_or_nothing_changes) {
  int repaired = 0, refused = 0;
  for (std::uint64_t round = 0; round < 60; ++round) {
    const RandomStream random(round, "flips");
    const int size = 3 + static_cast<int>(random.bits(0) % 4);
    const auto ranks = static_cast<std::size_t>(size);
    constexpr std::size_t buffers = 3;
    using State = std::vector<std::vector<std::byte>>;
    std::vector<State> before(ranks), after(ranks);
    const Repaired result = repair(
        single_axis_world(size), [&](Rank rank) { return replica(size, rank); },
        [&](Job& job, Rank rank) {
          for (std::uint64_t flip = 0; flip < 1 + round % 5; ++flip) {
            if (static_cast<Rank>(random.bits(10 * flip + 1) % ranks) != rank) continue;
            std::vector<std::byte>& buffer = job.buffer(random.bits(10 * flip + 2) % buffers);
            buffer[random.bits(10 * flip + 3) % 2] ^= std::byte{1};
          }
          for (std::size_t i = 0; i < buffers; ++i) before[static_cast<std::size_t>(rank)].push_back(job.buffer(i));
        },
        [&](Job& job, Rank rank) {
          for (std::size_t i = 0; i < buffers; ++i) after[static_cast<std::size_t>(rank)].push_back(job.buffer(i));
        });
    State wanted;
    for (std::size_t i = 0; i < buffers; ++i) {
      for (const State& candidate : before) {
        const auto same = std::ranges::count_if(before, [&](const State& state) { return state[i] == candidate[i]; });
        if (2 * static_cast<std::size_t>(same) <= ranks) continue;
        wanted.push_back(candidate[i]);
        break;
      }
    }
    BOOST_TEST(result.failed == (wanted.size() < buffers));
    for (std::size_t rank = 0; rank < ranks; ++rank)
      BOOST_TEST((after[rank] == (result.failed ? before[rank] : wanted)), "round " << round);
    ++(result.failed ? refused : repaired);
  }
  BOOST_TEST(repaired > 10);
  BOOST_TEST(refused > 10);
}

BOOST_AUTO_TEST_CASE(a_rank_that_fails_beforehand_fails_all_and_nothing_is_changed) {
  const World world = single_axis_world(3);
  std::vector<std::int64_t> wrong(3);
  const auto problems = attempt_on_ranks(3, [&](Communicator& ranks) {
    Job job = replica(3, ranks.rank());
    job.advance_to(3);
    if (ranks.rank() == 1) job.buffer(0)[8] ^= std::byte{1};
    try {
      repair_replicas(ranks, world, job.components(), {}, [&] {
        if (ranks.rank() == 2) fail(ExitCode::storage, "a disk is gone");
      });
    } catch (const Error&) {
      wrong[static_cast<std::size_t>(ranks.rank())] = job.wrong_bytes(3);
      throw;
    }
  });
  for (const auto& problem : problems)
    BOOST_CHECK_EXCEPTION(std::rethrow_exception(problem), Error, [](const Error& error) {
      return error.code() == ExitCode::storage && std::string(error.what()).find("a disk is gone") != std::string::npos;
    });
  BOOST_TEST((wrong == std::vector<std::int64_t>{0, 1, 0}));
}

BOOST_AUTO_TEST_CASE(a_rank_with_another_amount_of_global_state_is_not_repaired) {
  const World world = single_axis_world(3);
  for (const std::exception_ptr& problem : attempt_on_ranks(3, [&](Communicator& ranks) {
         std::vector<std::byte> bytes(ranks.rank() == 1 ? 4 : 8), other(2, std::byte(ranks.rank() == 1 ? 1 : 0));
         Component component{.key = "part", .pattern = Pattern::global, .collect = {}};
         component.collect = [&] {
           StateTree tree;
           tree.add("other", replicated({2}, DType::u8, world.mesh), other);
           tree.add("x", replicated({static_cast<std::int64_t>(bytes.size())}, DType::u8, world.mesh), bytes);
           return tree;
         };
         std::string told;
         try {
           repair_replicas(ranks, world, {component}, {}, [] {});
         } catch (const Error& error) {
           told = error.what();
         }
         if (told.find("replicas differ in part/x: this rank has 4 bytes, most others 8") == std::string::npos)
           fail(ExitCode::bug, "{}", told);
         if (other[0] != std::byte(ranks.rank() == 1 ? 1 : 0)) fail(ExitCode::bug, "half of it was repaired");
       })) {
    BOOST_TEST(!problem);
    if (problem) std::rethrow_exception(problem);
  }
}

BOOST_AUTO_TEST_CASE(shards_are_repaired_within_the_ranks_that_hold_them) {
  const World world{make_mesh("world", {{"dp_replicate", 3}, {"dp_shard", 2}}), {}};
  const auto make = [&](Rank rank) {
    return Job(world, rank, sharded_model(world.mesh), Pattern::per_group, {"dp_replicate"});
  };
  const Repaired result = repair(world, make, [](Job& job, Rank rank) {
    if (rank == 1 || rank == 4) job.buffer(0)[40] ^= std::byte{4};  // one of each shard
  });
  BOOST_TEST(!result.failed, result.told.front());
  BOOST_TEST(result.told.front().ends_with("; ranks 1,4 copied the state of the majority from ranks 0,3"),
             result.told.front());
  for (const std::int64_t wrong : result.wrong_bytes) BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(values_that_nobody_takes_back_are_not_called_repaired) {
  const World world = single_axis_world(3);
  on_ranks(3, [&](Communicator& ranks) {
    Component component{.key = "part", .collect = {}};
    component.collect = [&] {
      StateTree tree;
      tree.set("n", ranks.rank() == 1 ? 2 : 1);
      return tree;
    };
    std::string told;
    try {
      repair_replicas(ranks, world, {component}, {}, [] {});
    } catch (const Error& error) {
      told = error.what();
    }
    if (!told.ends_with("rank 1 against ranks 0,2: n is 2 against 1; they still differ after the repair"))
      fail(ExitCode::bug, "{}", told);
  });
}

// What the lowest rank of a cell holds is what a save without comparison has of it.
BOOST_FIXTURE_TEST_CASE(what_differs_is_told_and_one_replica_is_saved_whole, TemporaryFolder) {
  on_ranks(3, [&](Communicator& ranks) {
    Job job = replica(3, ranks.rank());
    job.advance_to(3);
    if (ranks.rank() != 0) job.buffer(0)[333] ^= std::byte{16};
    if (ranks.rank() == 2) job.step = 4;
    std::vector<Component> components = job.components();
    const std::optional<std::string> told = compare_replicas(ranks, job.world(), components, {}, [] {});
    if (!told || told->find("; and in other tensors: 1 box") == std::string::npos)
      fail(ExitCode::bug, "{}", told.value_or("nothing"));
    job.step = 3;
    for (Component& component : components) component.validation = Validation::none;
    save(ranks, components, job.request(path));
  });
  on_ranks(1, [&](Communicator& ranks) {
    Job job = replica(1, 0);
    load(ranks, job.world(), CheckpointReader(checkpoint_folder(path, 3)), job.components());
    if (job.wrong_bytes(3) != 0) fail(ExitCode::bug, "it is not the state of rank 0");
  });
}

BOOST_AUTO_TEST_SUITE_END()
