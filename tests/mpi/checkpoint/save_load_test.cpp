#include "base/error.hpp"
#include "checkpoint/load_checkpoint.hpp"
#include "checkpoint/resume.hpp"
#include "checkpoint/save.hpp"
#include "comm/failure.hpp"
#include "harness/mpi_test.hpp"
#include "harness/shared_folder.hpp"
#include "harness/test_job.hpp"
#include "store/checkpoint_verify.hpp"

BOOST_AUTO_TEST_SUITE(checkpoint)

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// The first `count` ranks; null on the others. Collective over the world.
std::unique_ptr<Communicator> first_ranks(int count) {
  const bool mine = world().rank() < count;
  auto part = world().split(mine ? 0 : 1, "part");
  if (!mine) part.reset();
  return part;
}

Job replica(const Communicator& ranks) { return lockstep::test::replica(ranks.size(), ranks.rank()); }

}  // namespace

LOCKSTEP_MPI_TEST(what_any_number_of_ranks_saves_any_other_loads_with_equal_digests, at_least(1)) {
  const SharedFolder folder;
  std::string digests;
  for (int writers = 1; writers <= world().size(); ++writers) {
    const Path run = folder.path / fmt::format("run-{}", writers);
    if (const auto ranks = first_ranks(writers)) {
      Job job = replica(*ranks);
      job.advance_to(5);
      save(*ranks, job.components(), job.request(run));
    }
    world().barrier();
    for (int readers = 1; readers <= world().size(); ++readers) {
      const auto ranks = first_ranks(readers);
      if (!ranks) continue;
      Job job = replica(*ranks);
      const Resumed resumed = resume(*ranks, job.world(), job.components(), {.run = run});
      BOOST_TEST(job.wrong_bytes(5) == 0);
      digests += to_hex(resumed.loaded.state_digest) + " ";
    }
  }
  for (std::size_t at = 33; at < digests.size(); at += 33) BOOST_TEST(digests.substr(at, 33) == digests.substr(0, 33));
}

LOCKSTEP_MPI_TEST(a_failing_writer_fails_all_ranks_with_its_error_and_the_old_checkpoint_stays, at_least(1)) {
  const SharedFolder folder;
  Job job = replica(world());
  job.advance_to(1);
  save(world(), job.components(), job.request(folder.path));
  const int victim = world().size() - 1;
  job.advance_to(2);
  SaveRequest request = job.request(folder.path);
  request.enter = [&](Phase phase) {
    if (phase == Phase::save_write && world().rank() == victim)
      fail(ExitCode::storage, "cannot write: no space left on device");
  };
  std::string message;
  try {
    save(world(), job.components(), request);
  } catch (const AgreedError& error) {
    message = error.what();
    BOOST_TEST(error.owner() == victim);
  }
  BOOST_TEST(
      message.find("writing the checkpoint of step 2: cannot write: no space left on device") != std::string::npos,
      message);
  const Resumed resumed = resume(world(), job.world(), job.components(), {.run = folder.path});
  BOOST_TEST(resumed.checkpoint->step == 1);
  BOOST_TEST(job.wrong_bytes(1) == 0);
}

LOCKSTEP_MPI_TEST(one_bit_of_one_replica_is_found_before_anything_is_current, at_least(2)) {
  const SharedFolder folder;
  Job job = replica(world());
  job.advance_to(1);
  if (world().rank() == 1) job.buffer(1)[3] ^= std::byte{1};
  std::string message;
  try {
    save(world(), job.components(), job.request(folder.path));
  } catch (const AgreedError& error) {
    message = error.what();
  }
  BOOST_TEST(message.find("replicas differ in model/h.0/bias") != std::string::npos, message);
  if (world().size() > 2) BOOST_TEST(message.find("rank 1 against") != std::string::npos, message);
  BOOST_TEST(list_checkpoints(folder.path).empty());
}

BOOST_AUTO_TEST_SUITE_END()
