#include "base/error.hpp"
#include "checkpoint/resume.hpp"
#include "checkpoint/save.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/retention.hpp"
#include "store/trash.hpp"

#include <sys/wait.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cmath>
#include <csignal>
#include <map>
#include <set>
#include <thread>

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
  std::int64_t resumed_step(const ResumeTarget& wanted = {}) {
    const auto ranks = solo_communicator();
    Job job = replica(1, 0);
    const Resumed resumed =
        resume(*ranks, job.world(), job.components(), {.run = path, .wanted = wanted, .patience_s = 0});
    rejected.clear();
    for (const SkippedCheckpoint& passed : resumed.damaged) rejected.push_back(to_text(passed));
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
  const IndexedPiece& piece = *reader.pieces_of(reader.number_of("model/wte.weight")).front();
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
  BOOST_TEST(resumed_step({ResumeTarget::Kind::newest}) == 30);
  BOOST_TEST(resumed_step({ResumeTarget::Kind::best}) == 20);
  BOOST_TEST(resumed_step({ResumeTarget::Kind::step, 10}) == 10);
  BOOST_CHECK_EXCEPTION(resumed_step({ResumeTarget::Kind::step, 15}), Error,
                        [](const Error& error) { return error.hint() == "it has 10, 20, 30"; });
  std::filesystem::remove(checkpoint_folder(path, 10) / "global" / "part-0000.h5");
  BOOST_CHECK_EXCEPTION(resumed_step({ResumeTarget::Kind::step, 10}), Error, [](const Error& error) {
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

BOOST_AUTO_TEST_CASE(retention_keeps_sound_ones_the_last_the_best_every_so_many_and_the_pinned) {
  using Steps = std::set<std::int64_t>;
  const auto kept = [](const Retention& retention, const std::map<std::int64_t, Verdict>& others, std::int64_t best) {
    std::vector<Candidate> candidates;
    Steps steps;
    for (std::int64_t step = 100; step <= 1200; step += 100) {  // 1200 sorts after 200 by number only
      const Verdict verdict = others.contains(step) ? others.at(step) : Verdict::sound;
      candidates.push_back({{Path(), step}, verdict, std::abs(static_cast<double>(step - best))});
      steps.insert(step);
    }
    for (const CheckpointEntry& entry : prunable(candidates, retention)) steps.erase(entry.step);
    return steps;
  };
  BOOST_TEST((kept({}, {}, 300) == Steps{300, 1100, 1200}));
  BOOST_TEST((kept({.keep_last = 2, .keep_best = 3}, {}, 310) == Steps{200, 300, 400, 1100, 1200}));
  BOOST_TEST((kept({.keep_last = 2, .keep_best = 2}, {}, 350) == Steps{300, 400, 1100, 1200}));
  BOOST_TEST((kept({.keep_last = 2, .keep_best = 1}, {}, 350) == Steps{300, 1100, 1200}));  // the older of equals
  BOOST_TEST((kept({.keep_last = 1, .keep_best = 0, .keep_every = 500}, {}, 300) == Steps{500, 1000, 1200}));
  BOOST_TEST((kept({.keep_last = 1, .keep_best = 0, .pinned = {500, 501}}, {}, 300) == Steps{500, 1200}));
  BOOST_TEST((kept({.keep_last = 0, .keep_best = 0}, {}, 300) == Steps{1200}));
  BOOST_TEST(kept({.keep_last = 99}, {}, 100).size() == 12u);
  // Only sound ones count; damaged ones go when they are older than all that stay as the last.
  const std::map<std::int64_t, Verdict> late{
      {1200, Verdict::damaged}, {1000, Verdict::damaged}, {900, Verdict::damaged}, {300, Verdict::damaged}};
  BOOST_TEST((kept({}, late, 300) == Steps{200, 800, 900, 1000, 1100, 1200}));
  // What nobody can read stays and counts for nothing.
  BOOST_TEST((kept({.keep_last = 1}, {{1200, Verdict::foreign}, {300, Verdict::unreadable}}, 300) ==
              Steps{200, 300, 1100, 1200}));
  // One sound checkpoint among damaged ones stays, and so do those.
  std::map<std::int64_t, Verdict> all;
  for (std::int64_t step = 100; step <= 1200; step += 100) all[step] = Verdict::damaged;
  BOOST_TEST(kept({}, all, 300).size() == 12u);
  all[100] = Verdict::sound;
  BOOST_TEST(kept({.keep_last = 1}, all, 300).size() == 12u);
}

BOOST_FIXTURE_TEST_CASE(retention_of_a_run_removes_old_steps_and_what_others_left, SavedRun) {
  make_folder(checkpoints_folder(path) / ".stage-0000000025-dead");
  make_folder(checkpoints_folder(path) / ".failed-0000000026-a");
  make_folder(checkpoints_folder(path) / ".failed-0000000027-b");
  publish_file(checkpoints_folder(path) / ".LATEST.77-0", "step");
  BOOST_TEST((prune(path, {.keep_last = 1, .best_by = {"none"}}).steps == std::vector<std::int64_t>{10, 20}));
  BOOST_TEST(std::ranges::count_if(list_folder(checkpoints_folder(path)), is_trash) == 2);
  collect_leftovers(path);
  empty_trash(path);
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

// The newest checkpoint has all its bytes but for one part, which a first look at its manifest does not show.
BOOST_FIXTURE_TEST_CASE(a_checkpoint_that_lacks_a_part_does_not_count_as_one_that_is_kept, SavedRun) {
  std::filesystem::remove(newest() / "global" / "part-0000.h5");
  BOOST_TEST((prune(path, {.keep_last = 1, .best_by = {"none"}}).steps == std::vector<std::int64_t>{10}));
  std::filesystem::resize_file(checkpoint_folder(path, 20) / "global" / "part-0000.h5", 100);
  BOOST_TEST(prune(path, {.keep_last = 1, .best_by = {"none"}}).steps.empty());
}

BOOST_FIXTURE_TEST_CASE(a_checkpoint_that_a_kill_has_caught_between_two_names_is_taken_back, SavedRun) {
  const std::vector<CheckpointEntry> before = list_checkpoints(path);
  std::filesystem::rename(newest(), displaced_name(newest()));
  std::filesystem::rename(checkpoint_folder(path, 10), displaced_name(checkpoint_folder(path, 10)));
  std::filesystem::copy(checkpoint_folder(path, 20), checkpoint_folder(path, 10),
                        std::filesystem::copy_options::recursive);  // what took its name
  BOOST_TEST(list_checkpoints(path).size() == 2u);
  collect_leftovers(path);
  BOOST_TEST(list_checkpoints(path).size() == before.size());
  BOOST_TEST(judge_checkpoint(newest(), VerifyLevel::fingerprints).reason == "");
  empty_trash(path);
  BOOST_TEST(list_folder(checkpoints_folder(path)).size() == before.size() + 1);  // LATEST
}

// The damage shows when some of the state is loaded; the checkpoint before it does not have that state.
BOOST_FIXTURE_TEST_CASE(a_load_that_breaks_off_leaves_nothing_behind, TemporaryFolder) {
  const auto ranks = solo_communicator();
  std::vector<std::byte> extra(64, std::byte{7});
  const auto components_of = [&](Job& job) {
    Component component;
    component.key = "extra";
    component.required = false;
    component.collect = [&] {
      StateTree tree;
      tree.add("y", replicated({64}, DType::u8, job.world().mesh), extra);
      return tree;
    };
    std::vector<Component> components = job.components();
    components.insert(components.begin(), component);  // loaded first
    return components;
  };
  Job job = replica(1, 0);
  job.advance_to(20);
  save(*ranks, job.components(), job.request(path));
  job.advance_to(30);
  save(*ranks, components_of(job), job.request(path));
  {
    const CheckpointReader reader(checkpoint_folder(path, 30));
    const IndexedPiece& piece = *reader.pieces_of(*reader.find_tensor("model/wte.weight")).at(0);
    flip(reader.path() / reader.manifest().files[piece.file].path, piece.record.offset, 3);
  }
  const std::vector<std::byte> fresh(64, std::byte{1});
  for (const bool refreshes : {false, true}) {
    extra = fresh;
    Job other = replica(1, 0);
    int refreshed = 0;
    ResumeRequest request{.run = path, .patience_s = 0};
    if (refreshes) request.refresh = [&] { extra = fresh, ++refreshed; };
    const Resumed resumed = resume(*ranks, other.world(), components_of(other), request);
    BOOST_TEST(resumed.checkpoint->step == 20);
    BOOST_TEST(other.wrong_bytes(20) == 0);
    BOOST_TEST(refreshed == (refreshes ? 1 : 0));
    BOOST_TEST((extra == fresh) == refreshes);
  }
}

BOOST_FIXTURE_TEST_CASE(trash_is_deleted_beside_what_the_process_does, SavedRun) {
  const auto left = [&] { return std::ranges::count_if(list_folder(checkpoints_folder(path)), is_trash); };
  const auto discard = [&](std::int64_t step) {
    std::filesystem::rename(checkpoint_folder(path, step), trash_name(checkpoint_folder(path, step)));
  };
  TrashCollector collector(path);
  discard(10);
  collector.wake();
  while (left() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the case has a limit
  discard(20);
  BOOST_TEST(!collector.empty(0));
  BOOST_TEST(collector.empty());
  BOOST_TEST(left() == 0);
  BOOST_TEST(collector.problem() == "");
  BOOST_TEST(judge_checkpoint(newest(), VerifyLevel::fingerprints).reason == "");
}

BOOST_AUTO_TEST_SUITE_END()
