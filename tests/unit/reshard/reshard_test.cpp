#include "reshard/reshard.hpp"

#include "base/json.hpp"
#include "checkpoint/load_checkpoint.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(reshard_)

namespace {

/// A run of two ranks with checkpoints at steps 10 and 20.
struct SavedRun : TemporaryFolder {
  SavedRun() {
    on_ranks(2, [&](Communicator& ranks) {
      Job job = replica(2, ranks.rank());
      for (const std::int64_t step : {10, 20}) {
        job.advance_to(step);
        save(ranks, job.components(), job.request(path / "run"));
      }
    });
  }
  Json answer(const ReshardConfig& config, bool dry_run) const {
    Session session(solo_communicator());
    Log log(Log::Settings{});
    CommonOptions common;
    common.json = true;
    common.dry_run = dry_run;
    const Path file = path / "answer.json";
    const int fd = ::open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    BOOST_REQUIRE(fd >= 0);
    Output output(common, {}, log, fd);
    BOOST_TEST(checkpoint_reshard(config, session, output) == 0);
    output.close();
    ::close(fd);
    return parse_json(read_file(file), "answer");
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(the_newest_checkpoint_of_a_run_is_cut_anew_with_the_same_state, SavedRun) {
  ReshardConfig config;
  config.checkpoints = {(path / "run").string()};
  config.to = ReshardTarget{3};
  config.output = (path / "copy").string();

  const Json planned = answer(config, true);
  BOOST_TEST(!std::filesystem::exists(config.output));  // a dry run writes nothing

  const Json done = answer(config, false);
  BOOST_TEST(done["files"] == planned["files"]);
  BOOST_TEST(done["bytes"] == planned["bytes"]);
  BOOST_TEST(done["digest_before"] == done["digest_after"]);

  const auto ranks = solo_communicator();
  Job job = replica(1, 0);
  load(*ranks, job.world(), CheckpointReader(config.output), job.components());
  BOOST_TEST(job.wrong_bytes(20) == 0);
}

BOOST_FIXTURE_TEST_CASE(what_stands_at_the_output_is_left_alone, SavedRun) {
  ReshardConfig config;
  config.checkpoints = {(path / "run").string()};
  config.output = (path / "copy").string();
  make_folder(config.output);
  publish_file(path / "copy/mine", "kept");
  Session session(solo_communicator());
  Log log(Log::Settings{});
  Output output({}, {}, log);
  BOOST_CHECK_EXCEPTION(checkpoint_reshard(config, session, output), Error,
                        [](const Error& error) { return error.code() == ExitCode::usage; });
  BOOST_TEST(list_folder(config.output) == std::vector<Path>{path / "copy/mine"});
  BOOST_TEST(read_file(path / "copy/mine") == "kept");
}

BOOST_AUTO_TEST_SUITE_END()
