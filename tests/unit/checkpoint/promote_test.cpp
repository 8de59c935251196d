// Promotion from disks of two nodes, which are folders of two pairs of ranks here: each has some of the parts.
#include "checkpoint/promote.hpp"

#include "base/error.hpp"
#include "checkpoint/save.hpp"
#include "comm/failure.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "store/checkpoint_verify.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <thread>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(promote)

namespace {

constexpr int rank_count = 4;

Path disk_of(const Path& folder, int node) { return folder / fmt::format("disk-{}", node); }

LocalTier tier_seen_by(const Path& folder, Rank rank) {
  return {disk_of(folder, rank / 2), {{0, 0, 1, 1}, {"alpha", "beta"}}};
}

bool is_part(const Path& file) { return file.filename().string().starts_with("part-"); }

std::map<std::string, std::string> files_of(const Path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[entry.path().lexically_relative(folder).string()] = read_file(entry.path());
  return files;
}

/// Saves these steps and lays what they are made of on the disks, the parts by turns. What was saved stays below
/// "saved".
void save_to_disks(const Path& folder, const std::vector<std::int64_t>& steps) {
  on_ranks(rank_count, [&](Communicator& ranks) {
    const World world = single_axis_world(rank_count);
    Job job(world, ranks.rank(), sharded_model(world.mesh));
    for (const std::int64_t step : steps) {
      job.advance_to(step);
      auto components = job.components();
      components.push_back(job.rng_component());
      SaveRequest request = job.request(folder / "saved");
      request.retention.keep_last = 99;
      save(ranks, components, request);
    }
  });
  for (const int node : {0, 1}) {
    std::filesystem::copy(folder / "saved", disk_of(folder, node), std::filesystem::copy_options::recursive);
    int number = 0;
    for (const auto& [name, content] : files_of(disk_of(folder, node)))
      if (is_part(name) && ++number % 2 == node) std::filesystem::remove(disk_of(folder, node) / name);
  }
}

PromotionRequest request_of(const Path& folder, Rank rank, std::int64_t step) {
  PromotionRequest request{.run = folder / "run", .local = tier_seen_by(folder, rank), .step = step};
  request.retention.keep_last = 99;
  return request;
}

/// As a loop does between its steps.
PromotionReport promote_whole(Communicator& ranks, const PromotionRequest& request) {
  Promoter promoter(ranks);
  promoter.begin(request);
  while (true) {
    if (const auto report = promoter.advance()) return *report;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// What all ranks are told where it fails, but for the name of the disk, which is one path for nodes.
std::string failure_of_promotion(const std::function<void(Communicator&)>& work) {
  std::string told;
  for (const std::exception_ptr& problem : attempt_on_ranks(rank_count, work)) {
    BOOST_REQUIRE(problem);
    try {
      std::rethrow_exception(problem);
    } catch (const AgreedError& error) {
      BOOST_TEST((error.code() == ExitCode::storage));
      std::string own = error.what();
      if (const std::size_t at = own.find("disk-1"); at != std::string::npos) own.replace(at, 6, "disk-0");
      BOOST_TEST((told.empty() || told == own));
      told = own;
    }
  }
  return told;
}

bool nothing_is_staged(const Path& run) {
  if (!std::filesystem::is_directory(checkpoints_folder(run))) return true;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints_folder(run)))
    if (entry.path().filename().string().starts_with(".stage-")) return false;
  return true;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_nodes_have_of_a_checkpoint_is_whole_in_the_run_and_the_same_bytes, TemporaryFolder) {
  for (const bool read_back : {false, true}) {
    const Path folder = path / fmt::format("{}", read_back);
    save_to_disks(folder, {1, 2, 3});
    std::atomic<std::uint64_t> told_bytes{0};
    on_ranks(rank_count, [&](Communicator& ranks) {
      for (const std::int64_t step : {1, 2}) {
        PromotionRequest request = request_of(folder, ranks.rank(), step);
        request.read_back = read_back;
        const PromotionReport report = promote_whole(ranks, request);
        if (report.step != step || report.path != checkpoint_folder(folder / "run", step) || !report.problem.empty())
          fail(ExitCode::bug, "another promotion was reported: {}", report.problem);
        told_bytes = report.bytes;
      }
    });
    std::uint64_t bytes = 0;
    for (const std::int64_t step : {1, 2}) {
      const Path made = checkpoint_folder(folder / "run", step);
      BOOST_TEST((files_of(made) == files_of(checkpoint_folder(folder / "saved", step))));
      BOOST_TEST(verify_checkpoint(made, VerifyLevel::fingerprints).defects.empty());
      bytes = 0;
      for (const auto& [name, content] : files_of(made))
        if (name != "MANIFEST.json") bytes += content.size();
    }
    BOOST_TEST(told_bytes == bytes);
    BOOST_TEST(nothing_is_staged(folder / "run"));
    for (const int node : {0, 1}) {  // what is promoted goes, the newest stays whatever it is
      const std::vector<CheckpointEntry> left = list_checkpoints(disk_of(folder, node));
      BOOST_REQUIRE(left.size() == 1);
      BOOST_TEST(left.front().step == 3);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(older_ones_of_the_run_go_as_its_retention_says, TemporaryFolder) {
  save_to_disks(path, {1, 2, 3});
  std::vector<std::vector<std::int64_t>> pruned;
  on_ranks(rank_count, [&](Communicator& ranks) {
    for (const std::int64_t step : {1, 2, 3}) {
      PromotionRequest request = request_of(path, ranks.rank(), step);
      request.retention = {.keep_last = 1, .keep_best = 0, .pinned = {1}};
      const PromotionReport report = promote_whole(ranks, request);
      if (ranks.rank() == 3) pruned.push_back(report.pruned);
    }
  });
  BOOST_TEST((pruned == std::vector<std::vector<std::int64_t>>{{}, {}, {2}}));
  std::vector<std::int64_t> left;
  for (const CheckpointEntry& entry : list_checkpoints(path / "run")) left.push_back(entry.step);
  BOOST_TEST((left == std::vector<std::int64_t>{1, 3}));
}

BOOST_FIXTURE_TEST_CASE(what_the_nodes_do_not_have_whole_is_not_promoted_and_stays, TemporaryFolder) {
  save_to_disks(path, {1, 2});
  std::string lost;
  for (const auto& [name, content] : files_of(checkpoint_folder(disk_of(path, 1), 2)))
    if (is_part(name)) lost = name;
  const Path part = checkpoint_folder(disk_of(path, 1), 2) / lost;
  const std::string content = read_file(part);
  for (const bool is_short : {false, true}) {
    std::filesystem::remove(part);
    if (is_short) std::ofstream(part, std::ios::binary) << content.substr(0, content.size() / 2);
    const std::string told =
        failure_of_promotion([&](Communicator& ranks) { promote_whole(ranks, request_of(path, ranks.rank(), 2)); });
    BOOST_TEST(told.find("promoting the checkpoint of step 2: the nodes do not have all of") != std::string::npos);
    BOOST_TEST(told.find(lost) != std::string::npos);
    on_ranks(rank_count, [&](Communicator& ranks) {
      const auto steps = unpromoted_steps(ranks, tier_seen_by(path, ranks.rank()), path / "run");
      if (steps != std::vector<std::int64_t>{1}) fail(ExitCode::bug, "other steps are left to promote");
    });
  }
  std::filesystem::remove(part);
  std::ofstream(part, std::ios::binary) << content;
  on_ranks(rank_count, [&](Communicator& ranks) {
    const LocalTier tier = tier_seen_by(path, ranks.rank());
    if (unpromoted_steps(ranks, tier, path / "run") != std::vector<std::int64_t>{1, 2})
      fail(ExitCode::bug, "other steps are left to promote");
    promote_whole(ranks, request_of(path, ranks.rank(), 2));
    if (!unpromoted_steps(ranks, tier, path / "run").empty()) fail(ExitCode::bug, "a step is left to promote");
  });
}

BOOST_FIXTURE_TEST_CASE(a_failure_is_that_of_all_ranks_and_leaves_the_disks_as_they_were, TemporaryFolder) {
  save_to_disks(path, {1});
  const auto before = std::array{files_of(disk_of(path, 0)), files_of(disk_of(path, 1))};
  for (Rank victim = 0; victim < rank_count; ++victim) {
    const std::string told = failure_of_promotion([&](Communicator& ranks) {
      PromotionRequest request = request_of(path, ranks.rank(), 1);
      request.enter = [&] {
        if (ranks.rank() == victim) fail(ExitCode::storage, "no way in");
      };
      promote_whole(ranks, request);
    });
    BOOST_TEST(told.find(fmt::format("rank {}", victim)) != std::string::npos);
    BOOST_TEST(told.find("no way in") != std::string::npos);
  }
  std::filesystem::create_directories(path / "run");
  std::ofstream(checkpoints_folder(path / "run"), std::ios::binary) << "no folder";  // where copies should go
  const std::string told =
      failure_of_promotion([&](Communicator& ranks) { promote_whole(ranks, request_of(path, ranks.rank(), 1)); });
  BOOST_TEST(told.find("rank 0") != std::string::npos);
  std::filesystem::remove(checkpoints_folder(path / "run"));
  for (const int node : {0, 1}) BOOST_TEST((files_of(disk_of(path, node)) == before[static_cast<std::size_t>(node)]));
  BOOST_TEST(nothing_is_staged(path / "run"));
  on_ranks(rank_count, [&](Communicator& ranks) { promote_whole(ranks, request_of(path, ranks.rank(), 1)); });
  BOOST_TEST(verify_checkpoint(checkpoint_folder(path / "run", 1), VerifyLevel::fingerprints).defects.empty());
}

BOOST_FIXTURE_TEST_CASE(one_that_is_broken_off_in_any_stage_is_no_checkpoint_and_is_begun_anew, TemporaryFolder) {
  for (int stages = 0; stages < 3; ++stages) {  // the third one commits
    const Path folder = path / std::to_string(stages);
    save_to_disks(folder, {1});
    on_ranks(rank_count, [&](Communicator& ranks) {
      Promoter promoter(ranks);
      promoter.begin(request_of(folder, ranks.rank(), 1));
      for (int i = 0; i < stages; ++i) promoter.advance();  // which may find that a stage is not over
    });
    for (const CheckpointEntry& entry : list_checkpoints(folder / "run"))
      BOOST_TEST(verify_checkpoint(entry.path, VerifyLevel::fingerprints).defects.empty());
    on_ranks(rank_count, [&](Communicator& ranks) { promote_whole(ranks, request_of(folder, ranks.rank(), 1)); });
    BOOST_TEST((files_of(checkpoint_folder(folder / "run", 1)) == files_of(checkpoint_folder(folder / "saved", 1))));
    BOOST_TEST(nothing_is_staged(folder / "run"));
  }
}

BOOST_FIXTURE_TEST_CASE(one_that_the_ranks_break_off_leaves_nothing_in_the_run_and_all_in_the_tier, TemporaryFolder) {
  save_to_disks(path, {1, 2});
  const auto before = std::array{files_of(disk_of(path, 0)), files_of(disk_of(path, 1))};
  on_ranks(rank_count, [&](Communicator& ranks) {
    Promoter promoter(ranks);
    if (!promoter.break_off()) fail(ExitCode::bug, "what is not under way cannot be broken off");
    promoter.begin(request_of(path, ranks.rank(), 1));
    if (!promoter.break_off() || promoter.under_way()) fail(ExitCode::bug, "a copy cannot be broken off");
  });
  for (const int node : {0, 1}) BOOST_TEST((files_of(disk_of(path, node)) == before[static_cast<std::size_t>(node)]));
  BOOST_TEST(list_checkpoints(path / "run").empty());
  BOOST_TEST(nothing_is_staged(path / "run"));
  on_ranks(rank_count, [&](Communicator& ranks) { promote_whole(ranks, request_of(path, ranks.rank(), 1)); });
  BOOST_TEST((files_of(checkpoint_folder(path / "run", 1)) == files_of(checkpoint_folder(path / "saved", 1))));
}

BOOST_FIXTURE_TEST_CASE(the_newest_may_be_promoted_first_and_older_ones_that_wait_stay_to_be_promoted,
                        TemporaryFolder) {
  using Steps = std::vector<std::int64_t>;
  save_to_disks(path, {1, 2, 3});
  const auto steps_on_disks = [&] {
    Steps steps;
    for (const CheckpointEntry& entry : list_checkpoints(disk_of(path, 1))) steps.push_back(entry.step);
    return steps;
  };
  const auto promote = [&](std::int64_t step, const Steps& waiting) {
    on_ranks(rank_count, [&](Communicator& ranks) {
      PromotionRequest request = request_of(path, ranks.rank(), step);
      request.waiting = waiting;
      promote_whole(ranks, request);
    });
  };
  const auto unpromoted = [&](const Path& run) {
    std::array<Steps, rank_count> found;
    on_ranks(rank_count, [&](Communicator& ranks) {
      found[static_cast<std::size_t>(ranks.rank())] = unpromoted_steps(ranks, tier_seen_by(path, ranks.rank()), run);
    });
    for (const Steps& of_rank : found) BOOST_TEST((of_rank == found[0]));
    return found[0];
  };
  BOOST_TEST((unpromoted(path / "run") == Steps{1, 2, 3}));
  promote(3, {1});
  BOOST_TEST((steps_on_disks() == Steps{1, 3}));  // what does not wait goes
  BOOST_TEST((unpromoted(path / "run") == Steps{1}));
  BOOST_TEST(read_file(checkpoints_folder(path / "run") / "LATEST") == "step-0000000003\n");
  // A run that went on from an older checkpoint, without the tier, does not take over what lies there.
  std::filesystem::create_directories(checkpoints_folder(path / "other"));
  std::filesystem::copy(checkpoint_folder(path / "saved", 2), checkpoint_folder(path / "other", 5),
                        std::filesystem::copy_options::recursive);
  BOOST_TEST(unpromoted(path / "other").empty());
  promote(1, {});
  BOOST_TEST((steps_on_disks() == Steps{3}));
  BOOST_TEST(unpromoted(path / "run").empty());
  BOOST_TEST(read_file(checkpoints_folder(path / "run") / "LATEST") == "step-0000000003\n");
}

BOOST_AUTO_TEST_SUITE_END()
