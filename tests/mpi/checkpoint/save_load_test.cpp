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

/// A matrix of which each rank has columns, and one that all of them hold: in pieces of a megabyte.
Job wide_job(const Communicator& ranks) {
  const Mesh mesh = make_mesh("world", {{"dp_replicate", 1}, {"tp", ranks.size()}});
  const Shape shape{1500, 1001};
  return {{mesh, {}},
          ranks.rank(),
          {{"columns", {shape, DType::bf16, mesh, {{{"tp"}, 1}}, {}}}, {"whole", replicated(shape, DType::bf16, mesh)}},
          Pattern::per_group,
          {"dp_replicate"}};
}

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

LOCKSTEP_MPI_TEST(ranks_that_share_the_reading_get_all_of_it_and_one_that_fails_ends_the_load_for_all, at_least(1)) {
  const SharedFolder folder;
  if (world().rank() == 0) {
    const auto alone = solo_communicator();
    Job job = wide_job(*alone);
    job.advance_to(5);
    save(*alone, job.components(), job.request(folder.path));
  }
  world().barrier();
  const Path checkpoint = checkpoint_folder(folder.path, 5);
  const CheckpointReader reader(checkpoint);
  const auto load_it = [&] {
    Job job = wide_job(world());
    const LoadReport report = load(world(), job.world(), reader, job.components(), 2);
    BOOST_TEST(job.wrong_bytes(5) == 0);
    return report;
  };
  const std::int64_t stored = 2 * 1500 * 1001 * 2;
  BOOST_TEST(world().all_reduce(static_cast<std::int64_t>(load_it().read), Reduce::sum) < stored + stored / 20);

  const std::vector<const IndexedPiece*> pieces = reader.pieces_of(reader.number_of("model/columns"));
  const IndexedPiece& piece = *pieces.at(pieces.size() / 2);
  const Path part = checkpoint / reader.manifest().files[piece.file].path;
  const auto flip = [&] {
    world().barrier();
    if (world().rank() == 0) {
      std::string content = read_file(part);
      content[piece.record.offset + 10] = static_cast<char>(content[piece.record.offset + 10] ^ 1);
      publish_file(part, content);
    }
    world().barrier();
  };
  flip();
  std::string message;
  try {
    load_it();
  } catch (const AgreedError& error) {
    message = error.what();
    BOOST_TEST((error.code() == ExitCode::input));
  }
  BOOST_TEST(message.find(part.string() + " is damaged: model/columns ") != std::string::npos, message);
  flip();
  load_it();
}

BOOST_AUTO_TEST_SUITE_END()
