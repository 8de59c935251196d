#include "base/error.hpp"
#include "checkpoint/resume.hpp"
#include "checkpoint/save.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "store/checkpoint_verify.hpp"

#include <sys/wait.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <csignal>
#include <set>

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct SavedRun : TemporaryFolder {
  SavedRun() {
    on_ranks(2, [&](Communicator& ranks) {
      Job job = replica(2, ranks.rank());
      for (const std::int64_t step : {10, 20, 30}) {
        job.advance_to(step);
        SaveRequest request = job.request(path);
        request.retention.keep_last = 9;
        request.metrics = {{"validation_loss", step == 20 ? 1.0 : 2.0}};
        save(ranks, job.components(), request);
      }
    });
  }
  Path newest() const { return checkpoint_folder(path, 30); }
  // The step that a job of one rank goes on from, and whether what it loaded is right.
  std::int64_t resumed_step(const Wanted& wanted = {}) {
    const auto ranks = solo_communicator();
    Job job = replica(1, 0);
    const Resumed resumed =
        resume(*ranks, job.world(), job.components(), {.run = path, .wanted = wanted, .patience_s = 0});
    rejected.clear();
    for (const PassedOver& passed : resumed.damaged) rejected.push_back(to_text(passed));
    if (!resumed.checkpoint) return -1;
    BOOST_TEST(job.wrong_bytes(resumed.checkpoint->step) == 0);
    return resumed.checkpoint->step;
  }
  std::vector<std::string> rejected;
};

void flip(const Path& file, std::uint64_t at, int bit) {
  std::string content = read_file(file);
  content[at] = static_cast<char>(content[at] ^ (1 << bit));
  std::filesystem::remove(file);
  publish_file(file, content);
}

std::vector<Path> files_of(const Path& checkpoint) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(checkpoint)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(damage)

BOOST_FIXTURE_TEST_CASE(a_flipped_bit_anywhere_in_any_file_is_found_and_the_job_falls_back, SavedRun) {
  const RandomStream random(8, "flips");
  std::uint64_t draw = 0;
  for (const Path& file : files_of(newest())) {
    const std::string right = read_file(file);
    for (int trial = 0; trial < 12; ++trial) {
      const std::uint64_t at = random.below(draw++, right.size());
      flip(file, at, static_cast<int>(random.below(draw++, 8)));
      const Verification found = verify_checkpoint(newest(), VerifyLevel::fingerprints);
      BOOST_TEST(!found.defects.empty(), file.string());
      std::filesystem::remove(file);
      publish_file(file, right);
    }
  }
  BOOST_TEST(verify_checkpoint(newest(), VerifyLevel::fingerprints).defects.empty());
}

BOOST_FIXTURE_TEST_CASE(damage_within_a_tensor_is_named_with_tensor_and_file_and_a_resume_falls_back, SavedRun) {
  const CheckpointReader reader(newest());
  const IndexedPiece& piece = reader.pieces()[reader.pieces_of(reader.number_of("model/wte.weight")).first];
  const std::string file = reader.manifest().files[piece.file].path;
  flip(newest() / file, piece.record.offset + 5, 0);
  BOOST_TEST(verify_checkpoint(newest(), VerifyLevel::coverage).defects.empty());
  const Verification found = verify_checkpoint(newest(), VerifyLevel::hashes);
  BOOST_REQUIRE_EQUAL(found.defects.size(), 1u);
  BOOST_TEST((found.defects[0].level == VerifyLevel::hashes));
  BOOST_TEST(found.defects[0].tensor == "model/wte.weight");
  BOOST_TEST(found.defects[0].file == file);
  BOOST_TEST(resumed_step() == 20);
  BOOST_REQUIRE_EQUAL(rejected.size(), 1u);
  BOOST_TEST(rejected[0].find("step-0000000030") != std::string::npos);
  BOOST_TEST(rejected[0].find("model/wte.weight") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(missing_and_shortened_files_are_found_at_the_level_of_sizes, SavedRun) {
  const Path part = newest() / "replicated" / "part-0001.h5";
  const std::string right = read_file(part);
  BOOST_TEST(verify_checkpoint(newest(), VerifyLevel::sizes).defects.empty());
  for (const std::size_t keep : {std::size_t{0}, right.size() / 2, right.size() - 1}) {
    std::filesystem::resize_file(part, keep);
    BOOST_TEST(verify_checkpoint(newest(), VerifyLevel::manifest).defects.empty());
    const auto found = verify_checkpoint(newest(), VerifyLevel::sizes).defects;
    BOOST_REQUIRE_EQUAL(found.size(), 1u);
    BOOST_TEST(found[0].message ==
               fmt::format("replicated/part-0001.h5 has {} bytes instead of {}", keep, right.size()));
    BOOST_TEST(!verify_checkpoint(newest(), VerifyLevel::fingerprints).defects.empty());
    BOOST_TEST(resumed_step() == 20);
  }
  std::filesystem::remove(part);
  BOOST_TEST(verify_checkpoint(newest(), VerifyLevel::sizes).defects[0].message ==
             "replicated/part-0001.h5 is missing");
  BOOST_TEST(resumed_step() == 20);
}

BOOST_FIXTURE_TEST_CASE(without_a_valid_manifest_or_index_a_folder_is_no_checkpoint, SavedRun) {
  std::filesystem::remove(newest() / "INDEX.h5");
  BOOST_TEST((verify_checkpoint(newest(), VerifyLevel::sizes).defects[0].level == VerifyLevel::manifest));
  BOOST_TEST(resumed_step() == 20);
  std::filesystem::resize_file(checkpoint_folder(path, 20) / "MANIFEST.json", 500);
  BOOST_TEST(resumed_step() == 10);
  BOOST_TEST(rejected.size() == 2u);
  std::filesystem::remove(checkpoint_folder(path, 10) / "MANIFEST.json");
  BOOST_CHECK_EXCEPTION(resumed_step(), Error, [](const Error& error) {
    return error.code() == ExitCode::input &&
           std::string(error.what()).find("has checkpoints, but none is sound") != std::string::npos;
  });
}

BOOST_FIXTURE_TEST_CASE(a_checkpoint_is_named_by_newest_best_or_step, SavedRun) {
  BOOST_TEST(resumed_step({Wanted::By::newest}) == 30);
  BOOST_TEST(resumed_step({Wanted::By::best}) == 20);
  BOOST_TEST(resumed_step({Wanted::By::step, 10}) == 10);
  BOOST_CHECK_EXCEPTION(resumed_step({Wanted::By::step, 15}), Error,
                        [](const Error& error) { return error.hint() == "it has 10, 20, 30"; });
  std::filesystem::remove(checkpoint_folder(path, 10) / "global" / "part-0000.h5");
  BOOST_CHECK_EXCEPTION(resumed_step({Wanted::By::step, 10}), Error, [](const Error& error) {
    return std::string(error.what()).find("global/part-0000.h5 is missing") != std::string::npos;
  });
}

BOOST_FIXTURE_TEST_CASE(a_run_without_checkpoints_starts_anew, TemporaryFolder) {
  const auto ranks = solo_communicator();
  Job job = replica(1, 0);
  BOOST_TEST(!resume(*ranks, job.world(), job.components(), {.run = path / "absent"}).checkpoint.has_value());
  make_folder(checkpoints_folder(path) / ".stage-0000000009-abc");
  make_folder(checkpoints_folder(path) / ".trash-step-0000000009-abc");
  BOOST_TEST(!resume(*ranks, job.world(), job.components(), {.run = path}).checkpoint.has_value());
}

BOOST_FIXTURE_TEST_CASE(a_save_takes_the_place_of_a_damaged_checkpoint_of_its_step, SavedRun) {
  std::filesystem::remove(newest() / "global" / "part-0000.h5");
  const auto ranks = solo_communicator();
  Job job = replica(1, 0);
  job.advance_to(30);
  save(*ranks, job.components(), job.request(path));
  BOOST_TEST(resumed_step() == 30);
  BOOST_TEST(rejected.empty());
}

BOOST_AUTO_TEST_CASE(retention_keeps_the_last_the_best_the_pinned_and_the_newest_sound_one) {
  std::vector<CheckpointEntry> entries;
  for (std::int64_t step = 100; step <= 1200; step += 100)
    entries.push_back({Path(), step});  // 1200 sorts after 200 by number only
  const auto kept = [&](const Retention& retention, std::int64_t sound_until, std::int64_t best) {
    std::set<std::int64_t> steps;
    for (const CheckpointEntry& entry : entries) steps.insert(entry.step);
    for (const CheckpointEntry& entry : prunable(
             entries, retention, [&](const CheckpointEntry& e) { return e.step <= sound_until; },
             [&](const CheckpointEntry& e) { return std::optional(e.step == best ? 1.0 : 2.0); })) {
      steps.erase(entry.step);
    }
    return steps;
  };
  BOOST_TEST((kept({2, "", {}}, 1200, 300) == std::set<std::int64_t>{300, 1100, 1200}));
  BOOST_TEST((kept({2, "", {500}}, 700, 300) == std::set<std::int64_t>{300, 500, 700, 1100, 1200}));
  BOOST_TEST((kept({0, "", {}}, 1200, 1200) == std::set<std::int64_t>{1200}));
  BOOST_TEST(kept({99, "", {}}, 1200, 100).size() == 12u);
}

BOOST_FIXTURE_TEST_CASE(retention_of_a_run_removes_old_steps_and_what_others_left, SavedRun) {
  make_folder(checkpoints_folder(path) / ".stage-0000000025-dead");
  make_folder(checkpoints_folder(path) / ".failed-0000000026-a");
  make_folder(checkpoints_folder(path) / ".failed-0000000027-b");
  BOOST_TEST((prune(path, {1, "none", {}}) == std::vector<std::int64_t>{10, 20}));
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints_folder(path)))
    left.insert(entry.path().filename().string());
  BOOST_TEST(
      (left == std::set<std::string>{"LATEST", "step-0000000030", ".failed-0000000026-a", ".failed-0000000027-b"}));
}

BOOST_FIXTURE_TEST_CASE(a_run_folder_has_one_job_at_a_time_and_a_dead_one_does_not_count, TemporaryFolder) {
  {
    const FileLock first = lock_run(path);
    BOOST_CHECK_EXCEPTION(lock_run(path), Error, [](const Error& error) {
      return error.code() == ExitCode::usage &&
             std::string(error.what()).find(fmt::format("is in use by process {} on ", ::getpid())) !=
                 std::string::npos;
    });
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const FileLock held = lock_run(path);
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  BOOST_CHECK_NO_THROW(lock_run(path));
}

BOOST_FIXTURE_TEST_CASE(kill_9_at_any_moment_leaves_the_last_acknowledged_checkpoint_or_a_newer_one, TemporaryFolder) {
  const RandomStream random(21, "kill");
  for (std::uint64_t round = 0; round < 12; ++round) {
    int pipe[2];
    BOOST_REQUIRE(::pipe(pipe) == 0);
    const std::int64_t first = static_cast<std::int64_t>(round) * 1000 + 1;
    const pid_t child = ::fork();
    if (child == 0) {  // saves step after step and says so after each
      const auto ranks = solo_communicator();
      Job job = replica(1, 0);
      for (std::int64_t step = first;; ++step) {
        job.advance_to(step);
        save(*ranks, job.components(), job.request(path));
        if (::write(pipe[1], &step, sizeof step) != sizeof step) ::_exit(1);
      }
    }
    ::close(pipe[1]);
    std::int64_t acknowledged = 0;
    BOOST_REQUIRE(::read(pipe[0], &acknowledged, sizeof acknowledged) == sizeof acknowledged);
    ::usleep(static_cast<useconds_t>(random.below(round, 60000)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(pipe[0], &acknowledged, sizeof acknowledged) == sizeof acknowledged) {
    }
    ::close(pipe[0]);

    const auto ranks = solo_communicator();
    Job job = replica(1, 0);
    const Resumed resumed = resume(*ranks, job.world(), job.components(), {.run = path});
    BOOST_REQUIRE(resumed.checkpoint.has_value());
    BOOST_TEST(resumed.damaged.empty());
    BOOST_TEST(resumed.checkpoint->step >= acknowledged);
    BOOST_TEST(resumed.checkpoint->step <= acknowledged + 1);
    BOOST_TEST(job.wrong_bytes(resumed.checkpoint->step) == 0);
    BOOST_TEST(verify_checkpoint(resumed.checkpoint->path, VerifyLevel::fingerprints).defects.empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
