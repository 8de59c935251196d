// Saves that go on beside the caller: what it does to its state meanwhile changes nothing of them.
#include "base/error.hpp"
#include "checkpoint/load_checkpoint.hpp"
#include "checkpoint/save.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "store/checkpoint_verify.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <thread>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(background_save)

namespace {

// As a loop does between its steps.
SaveReport wait_in_steps(Saver& saver) {
  while (true) {
    if (const std::optional<SaveReport> report = saver.advance(false)) return *report;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Two tensors of several pieces beside the small ones.
std::vector<Tensor> large_model(const Mesh& mesh) {
  std::vector<Tensor> tensors = replicated_model(mesh);
  tensors.push_back({"large", replicated({300, 100}, DType::f32, mesh)});
  tensors.push_back({"other", replicated({70, 1001}, DType::bf16, mesh)});
  return tensors;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(the_state_may_change_as_soon_as_it_is_copied, TemporaryFolder) {
  for (const std::uint64_t memory : {std::uint64_t{0}, std::uint64_t{200'000}}) {  // at once, and in waves
    for (const bool waits : {false, true}) {
      const Path run = path / fmt::format("{}-{}", memory, waits);
      std::vector<int> waves(3);
      on_ranks(3, [&](Communicator& ranks) {
        const World world = single_axis_world(3);
        Saver saver(ranks);
        Job job(world, ranks.rank(), large_model(world.mesh));
        for (const std::int64_t step : {1, 2, 3}) {
          job.advance_to(step);
          auto components = job.components();
          components.push_back(job.rng_component());
          SaveRequest request = job.request(run);
          request.retention.keep_last = 9;
          saver.begin(components, request, memory);
          job.advance_to(99);
          if (!saver.under_way()) fail(ExitCode::bug, "the save is over");
          const SaveReport report = waits ? *saver.advance(true) : wait_in_steps(saver);
          if (saver.under_way() || report.step != step) fail(ExitCode::bug, "the save is not over");
          waves[static_cast<std::size_t>(ranks.rank())] = saver.waves();
          job.step = step;
          job.advance_to(step);
          request.run = path / "reference";
          const SaveReport reference = save(ranks, components, request);
          if (report.state_digest != reference.state_digest) fail(ExitCode::bug, "another state was saved");
        }
      });
      for (const int count : waves) BOOST_TEST((count > 1) == (memory > 0));
      for (const std::int64_t step : {1, 2, 3})
        BOOST_TEST(verify_checkpoint(checkpoint_folder(run, step), VerifyLevel::fingerprints).defects.empty());
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_failure_on_one_rank_in_any_stage_is_told_to_all_and_leaves_the_checkpoint_before,
                        TemporaryFolder) {
  const std::vector<Phase> phases{Phase::save_plan, Phase::save_stage, Phase::save_write, Phase::save_seal,
                                  Phase::save_commit};
  on_ranks(3, [&](Communicator& ranks) {
    const World world = single_axis_world(3);
    Saver saver(ranks);
    std::int64_t step = 0;
    for (int victim = 0; victim < 3; ++victim) {
      for (const Phase phase : phases) {
        Job job(world, ranks.rank(), large_model(world.mesh));
        for (const bool fails : {true, false}) {
          job.advance_to(++step);
          SaveRequest request = job.request(path);
          request.enter = [&](Phase entered) {
            if (fails && entered == phase && ranks.rank() == victim)
              fail(ExitCode::storage, "no space left on device in {}", name_of(phase));
          };
          std::string told;
          try {
            saver.begin(job.components(), request, 0);
            job.advance_to(99);
            saver.advance(true);
          } catch (const Error& error) {
            told = error.what();
          }
          job.step = step;
          const bool right = fails ? told.find(fmt::format("rank {}", victim)) != std::string::npos &&
                                         told.find(name_of(phase)) != std::string::npos
                                   : told.empty();
          if (!right || saver.under_way()) fail(ExitCode::bug, "step {}: '{}'", step, told);
        }
      }
    }
  });
  for (const CheckpointEntry& entry : list_checkpoints(path)) {
    BOOST_TEST(entry.step % 2 == 0);
    BOOST_TEST(verify_checkpoint(entry.path, VerifyLevel::fingerprints).defects.empty());
  }
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints_folder(path)))
    BOOST_TEST(!entry.path().filename().string().starts_with(".stage-"));
}

BOOST_FIXTURE_TEST_CASE(replicas_that_differ_are_found_in_the_background_too, TemporaryFolder) {
  const auto problems = attempt_on_ranks(3, [&](Communicator& ranks) {
    const World world = single_axis_world(3);
    Saver saver(ranks);
    Job job(world, ranks.rank(), large_model(world.mesh));
    job.advance_to(1);
    if (ranks.rank() == 2) job.buffer(0)[5] ^= std::byte{1};
    saver.begin(job.components(), job.request(path), 0);
    job.advance_to(2);
    saver.advance(true);
  });
  for (const auto& problem : problems) {
    BOOST_REQUIRE(problem);
    BOOST_CHECK_EXCEPTION(std::rethrow_exception(problem), Error, [](const Error& error) {
      return error.code() == ExitCode::verdict &&
             std::string(error.what()).find("model/wte.weight") != std::string::npos;
    });
  }
  BOOST_TEST(list_checkpoints(path).empty());
}

// What a job leaves that ends amid a save: the threads end, and nothing is current that is not whole.
BOOST_FIXTURE_TEST_CASE(a_saver_that_goes_amid_a_save_leaves_nothing_current, TemporaryFolder) {
  on_ranks(2, [&](Communicator& ranks) {
    const World world = single_axis_world(2);
    Job job(world, ranks.rank(), large_model(world.mesh));
    job.advance_to(1);
    Saver saver(ranks);
    saver.begin(job.components(), job.request(path), 0);
  });
  BOOST_TEST(list_checkpoints(path).empty());
}

BOOST_AUTO_TEST_SUITE_END()
